"""The cases of a run, and the answers that are known of them before it starts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from evalflow import datasets
from evalflow.config.schema import RunConfig
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.records import Answer, Case, Context
from evalflow.run.folder import RunFolder
from evalflow.run.journal import AnswerBook
from evalflow.run.plan import Draw
from evalflow.targets.conversation import open_turns
from evalflow.targets.recorded import recorded_answer

if TYPE_CHECKING:
    from evalflow.app.core.baseline import BaselineAnswers


BASELINE = "baseline"
"""The variable of a case that holds the baseline's answer to it: `vars.baseline`."""


def offered(run: RunConfig) -> Iterator[Case]:
    """The cases of all datasets, streamed; of each those with one of its `tags`, and of these the first `limit`.

    Raises:
        UserError: The data are wrong, or no case has one of the tags.
    """
    for name, config in run.dataset.items():
        cases = datasets.read(name, config)
        yield from islice(_tagged(name, config.tags, cases) if config.tags else cases, run.limit)


def _tagged(dataset: str, tags: Sequence[str], cases: Iterator[Case]) -> Iterator[Case]:
    wanted = {datasets.tag_name(tag) for tag in tags}
    known: set[str] = set()
    for case in cases:
        own = {level for tag in case.tags for level in datasets.tag_levels(tag)}
        known |= own
        if wanted & own:
            yield case
    if absent := sorted(wanted - known):
        where = f"dataset.{dataset}.tags"
        raise UserError(
            [Problem(f"no case of {dataset} has the tag {tag!r}", where, did_you_mean(tag, known)) for tag in absent]
        )


def select(run: RunConfig) -> Iterator[Case]:
    """The cases that the run is about, in input order. With `sample` the data are read twice."""
    draw = Draw(run.sample, run.seed)
    if run.sample is not None:
        for case in offered(run):
            draw.offer(case)
    yield from draw.pick(offered(run))


KEPT_BYTES = 8 * 2**20
"""Files of up to this size together stay in memory."""
KEPT_CASES = 10_000
"""At most this many cases stay in memory: a case takes a kilobyte even if it is empty."""


class Reading:
    """All cases that a run's data offer, in input order, as often as it is iterated over.

    Small data stay in memory, so that what is scored is what was checked. Larger data are read from their files each
    time.
    """

    def __init__(self, run: RunConfig, baseline: BaselineAnswers | None = None) -> None:
        self._run = run
        self._baseline = baseline
        self._kept: list[Case] | None = None

    def __iter__(self) -> Iterator[Case]:
        return self._read() if self._kept is None else iter(self._kept)

    def _read(self) -> Iterator[Case]:
        sizes = [datasets.text_bytes(config) for config in self._run.dataset.values()]
        kept: list[Case] | None = [] if sum(sizes) <= KEPT_BYTES else None
        for one in offered(self._run):
            case = self._baseline.beside(one) if self._baseline else one
            if kept is not None:
                kept.append(case)
                if len(kept) > KEPT_CASES:
                    kept = None
            yield case
        self._kept = kept


def answer_in_data(run: RunConfig, case: Case, target: str, repeat: int) -> Answer | None:
    """The answer that the run takes from the data, or None where it asks the target for one."""
    field = run.dataset[case.dataset].generates
    if run.generate is True or (run.generate == "missing" and getattr(case, field) is None):
        return None
    return recorded_answer(case, target, repeat, demo=run.generate == "demo")


@contextmanager
def answers_of(folder: RunFolder, run: RunConfig) -> Generator[Callable[[Case, str, int], Answer | None]]:
    """Look up a run's answers by case, target and repeat: in its journal, else in the data."""
    with AnswerBook() as book:
        book.add(folder.answers, run.dataset)
        yield (
            lambda case, target, repeat: (
                book.get(case.dataset, case.id, target, repeat) or answer_in_data(run, case, target, repeat)
            )
        )


UNKNOWN = "-"
"""Stands where neither the target's name nor what it will say is known."""


def placeholder_answer(run: RunConfig, case: Case) -> Answer:
    """The answer that the case will be scored on: the one in the data, else a placeholder for the target's.

    A placeholder says in `requests` how often the target is asked. Like the target's answer it has the field that the
    dataset generates and no other, and contexts where the target may bring them; its text is as long as may be
    expected.
    """
    if known := answer_in_data(run, case, UNKNOWN, 0):
        return known
    blank = Answer(
        dataset=case.dataset,
        index=case.index,
        case_id=case.id,
        target=UNKNOWN,
        messages=case.messages,
        requests=max(1, len(open_turns(case.messages))),
    )
    if case.contexts is None and "contexts" in run.target.may_fill:
        blank = replace(blank, contexts=(Context(UNKNOWN),))
    if run.dataset[case.dataset].generates == "actual":
        likely = (value for value in (case.actual, case.expected, UNKNOWN) if value is not None)
        return replace(blank, actual=next(likely))
    return replace(blank, answer=case.answer or case.reference or case.question or UNKNOWN)
