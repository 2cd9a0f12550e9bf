"""The cases of a run, and the answers known before it starts."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any
from weakref import finalize

from evalflow import datasets
from evalflow.config.schema import DatasetConfig, RunConfig
from evalflow.engine.folder import RunFolder
from evalflow.engine.journal import AnswerBook
from evalflow.engine.plan import KEPT_CASES, Draw
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.records import Answer, Case, Context, Message
from evalflow.targets.answer_step import step_of
from evalflow.targets.conversation import ending_of, open_turns
from evalflow.targets.recorded import blank, recorded_answer

BASELINE = "baseline"  # the variable of a case that holds the baseline's answer to it: `vars.baseline`
_SHOWN = 5
KEPT_BYTES = 8 * 2**20  # cases of files of up to this size in total are kept in memory
_TOGETHER = 20  # cases that are written to a temporary file, and read from it, at once
UNKNOWN = "-"  # placeholder if neither the target's name nor its answer is known


def offered(run: RunConfig, notes: dict[str, datasets.ReadingNotes] | None = None) -> Iterator[Case]:
    """The cases of all datasets, streamed: of each, the first `limit` that have its `tags` and one of its `ids`.

    `notes` take what reading each dataset has left out or changed, by its name. UserError if the data are invalid, or
    no case has one of the tags or ids.
    """
    answers = "none" if run.generate is True else "demo" if run.generate == "demo" else "recorded"
    for name, config in run.dataset.items():
        reading_notes = datasets.ReadingNotes()
        if notes is not None:
            notes[name] = reading_notes
        cases = datasets.read(name, config, answers=answers, notes=reading_notes)
        yield from islice(_chosen(name, config, cases) if config.tags or config.ids else cases, run.limit)


def _chosen(dataset: str, config: DatasetConfig, cases: Iterator[Case]) -> Iterator[Case]:
    tags, ids = {datasets.tag_name(tag) for tag in config.tags or ()}, set(config.ids or ())
    known_tags, known_ids, count = set[str](), set[str](), 0
    for case in cases:
        known_tags.update(level for tag in case.tags for level in datasets.tag_levels(tag))
        if ids and case.id not in ids:
            continue
        known_ids.add(case.id)
        if not tags or has_tags(case.tags, tags, every=config.every_tag):
            count += 1
            yield case
    where = f"dataset.{dataset}.tags"
    untagged = "" if known_tags else "its cases have no tags"
    problems = [
        Problem(f"no case of {dataset} has the tag {tag!r}", where, untagged or did_you_mean(tag, known_tags), where)
        for tag in sorted(tags - known_tags)
    ]
    if absent := sorted(ids - known_ids):
        more = f" and {len(absent) - _SHOWN:,} more" if len(absent) > _SHOWN else ""
        what = f"no case of {dataset} has the id {', '.join(map(repr, absent[:_SHOWN]))}{more}"
        where = f"dataset.{dataset}.ids"
        problems.append(Problem(what, where, "remove the id, or read the data that have it", where))
    if not count and not problems:
        wanted = [f"every one of the tags {', '.join(sorted(tags))}" if config.every_tag else "one of the tags"]
        what = f"no case of {dataset} has {' and '.join([*wanted, *(['one of the ids'] if ids else [])])}"
        problems.append(Problem(what, where, "choose fewer tags", where))
    if problems:
        raise UserError(problems)


def has_tags(tags: Iterable[str], wanted: Collection[str], *, every: bool) -> bool:
    """Return whether tags or their parents include one of the wanted tags, or all of them."""
    own = {level for tag in tags for level in datasets.tag_levels(tag)}
    return own.issuperset(wanted) if every else not own.isdisjoint(wanted)


def select(run: RunConfig) -> Iterator[Case]:
    """The selected cases of the run, in input order. With `sample` the data are read twice."""
    draw = Draw(run.sample, run.seed)
    if run.sample is not None:
        for case in offered(run):
            draw.offer(case)
    yield from draw.pick(offered(run))


class RunCases:
    """All cases in a run's data, in input order, as often as wanted; the data are read once.

    `complete` adds to each case what the data do not have, such as the answer of a baseline.
    """

    def __init__(self, run: RunConfig, complete: Callable[[Case], Case] | None = None) -> None:
        self._run = run
        self._complete = complete
        self._kept: _SpooledCases | None = None
        self.notes: dict[str, datasets.ReadingNotes] = {}  # notes of the reading

    def __iter__(self) -> Iterator[Case]:
        return self._read() if self._kept is None else iter(self._kept)

    def _read(self) -> Iterator[Case]:
        kept = _SpooledCases(sum(datasets.text_bytes(config) for config in self._run.dataset.values()) <= KEPT_BYTES)
        for one in offered(self._run, self.notes):
            case = self._complete(one) if self._complete else one
            kept.add(case)
            yield case
        self._kept = kept


class _SpooledCases:
    """Cases in the order added: if `small`, the first `KEPT_CASES` in memory, all others in a temporary file.

    Reading a case back takes an eighth of the time of reading it from the data.
    """

    def __init__(self, small: bool) -> None:
        self._room = KEPT_CASES if small else 0
        self._memory: list[Case] = []
        self._file: IO[bytes] | None = None  # made for the first cases that are not kept in memory
        self._places: list[int] = []  # in the file, of every `_TOGETHER` cases
        self._waiting: list[Case] = []  # for the file

    def add(self, case: Case) -> None:
        if len(self._memory) < self._room:
            self._memory.append(case)
            return
        self._waiting.append(case)
        if len(self._waiting) < _TOGETHER:
            return
        try:
            file = self._opened()
            self._places.append(file.seek(0, os.SEEK_END))
            pickle.dump(self._waiting, file, pickle.HIGHEST_PROTOCOL)
            file.flush()  # a full disk is noticed here, not when the cases are read back
        except OSError as error:
            self._close()
            what = f"the cases cannot be kept in a temporary file: {error.strerror}"
            raise UserError(Problem(what, gettempdir(), "make room, or name another folder: TMPDIR=FOLDER")) from None
        self._waiting = []

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115 - closed with the last reading
            finalize(self, self._file.close)
        return self._file

    def _close(self) -> None:
        """Close the file without what a full disk could not take, which `finalize` would try to write again."""
        with suppress(OSError):
            if self._file is not None:
                self._file.close()

    def __iter__(self) -> Iterator[Case]:
        yield from self._memory
        for place in self._places:
            file = self._opened()
            file.seek(place)
            yield from pickle.load(file)  # noqa: S301 - written above, to a file that has no name
        yield from self._waiting


def is_generated(run: RunConfig, case: Case) -> bool:
    """Whether the run calls the target for the case, instead of taking the answer from the data."""
    missing = run.generate == "missing" and getattr(case, run.dataset[case.dataset].generates) is None
    return run.generate is True or missing


def answer_in_data(run: RunConfig, case: Case, target: str, repeat: int) -> Answer | None:
    """The answer that the run takes from the data; None if it calls the target."""
    if is_generated(run, case):
        return None
    answer = recorded_answer(case, target, repeat, demo=run.generate == "demo")
    return step_of(run.target).applied(answer, run.dataset[case.dataset].generates)


@contextmanager
def answers_of(
    folder: RunFolder, run: RunConfig, case_ids: Collection[str] | None = None
) -> Generator[Callable[[Case, str, int], Answer | None]]:
    """A function that finds a run's answers (or only those of `case_ids`) in its journal, else in the data."""
    with AnswerBook() as book:
        book.add(folder.answers, run.dataset, case_ids=case_ids)

        def find(case: Case, target: str, repeat: int) -> Answer | None:
            return book.get(case.dataset, case.id, target, repeat) or answer_in_data(run, case, target, repeat)

        yield find


def count_endings(folder: RunFolder, run: RunConfig, cases: Iterable[Case], target: str) -> Mapping[str, int]:
    """Count the run's simulated conversations by how they ended, the most frequent first."""
    endings: Counter[str] = Counter()
    with answers_of(folder, run) as answers:
        for case in cases:
            for repeat in range(run.repeats.target) if case.scenario is not None else ():
                answer = answers(case, target, repeat)
                if answer is not None and (ended := ending_of(answer.metadata)):
                    endings[ended] += 1
    return dict(endings.most_common())


def placeholder_answer(run: RunConfig, case: Case) -> Answer:
    """The answer in the data, else a placeholder for the target's answer.

    `requests` of a placeholder is the number of calls to the target. Like the target's answer it has only the field
    that the dataset generates, and contexts and a prediction if the target may return them. Its text has the expected
    maximum length.
    """
    if known := answer_in_data(run, case, UNKNOWN, 0):
        return known
    values: dict[str, Any] = {"requests": max(1, len(open_turns(case.messages)))}
    if is_simulated(run, case):
        values |= {"messages": _longest_talk(run, case), "requests": run.simulator.turns}
    if case.contexts is None and "contexts" in run.target.may_fill:
        values["contexts"] = (Context(UNKNOWN),)
    generates = run.dataset[case.dataset].generates
    if generates == "actual" or "actual" in run.target.may_fill:
        values["actual"] = next(one for one in (case.actual, case.expected, UNKNOWN) if one is not None)
    if generates != "actual":
        likely = (case.answer, next(iter(case.references), None), case.question, case.scenario)
        values["answer"] = next(filter(None, likely), UNKNOWN)
    return replace(blank(case, UNKNOWN, 0), **values)


def is_simulated(run: RunConfig, case: Case) -> bool:
    """Whether a simulated user talks to the target about this case."""
    return bool(run.simulator.turns) and case.scenario is not None and is_generated(run, case)


def _longest_talk(run: RunConfig, case: Case) -> tuple[Message, ...]:
    """Return the opening turns, and placeholders for all turns that the simulator's limits allow."""
    text = case.scenario or UNKNOWN
    user, opening = Message("user", text), case.messages
    if not opening or opening[-1].role != "user":
        opening = (*opening, user)
    return (*opening, *(Message("assistant", text), user) * (run.simulator.turns - 1))
