"""The cases of a run, and what is known of their answers before it starts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from evalflow import datasets
from evalflow.app.core.assemble import Parts, offered
from evalflow.app.core.baseline import open_baseline, target_problems
from evalflow.config.load import Composed
from evalflow.config.schema import RunConfig
from evalflow.config.validate import Settings
from evalflow.errors import UserError
from evalflow.protocols import Target
from evalflow.records import Answer, Case, Context
from evalflow.run.folder import RunFolder
from evalflow.run.journal import AnswerBook, RememberingTarget
from evalflow.targets.conversation import open_turns
from evalflow.targets.recorded import recorded_answer

VARIABLE = "baseline"
NEED = f"vars.{VARIABLE}"
"""How a metric names the answer that the baseline gave."""


class BaselineAnswers:
    """The first answers of a run, found by where their cases stand in its cases.jsonl.

    Args:
        folder: The run's.
        sizes: How many cases each of its datasets has, in order.
    """

    def __init__(self, folder: RunFolder, sizes: dict[str, int]) -> None:
        self._file = folder.cases
        self._places = dict(self._found(sizes))

    def beside(self, case: Case) -> Case:
        """The case with the other run's answer among its `vars`; without one where it asked something else there."""
        known = self._row(case)
        if known is None or known.get("answer") is None or _asked(known["messages"]) != _asked_of(case):
            return replace(case, vars={name: value for name, value in case.vars.items() if name != VARIABLE})
        return replace(case, vars={**case.vars, VARIABLE: known["answer"]})

    def _row(self, case: Case) -> dict[str, Any] | None:
        place = self._places.get(_digest(case.dataset, case.id))
        if place is None:
            return None
        with self._file.open("rb") as lines:
            lines.seek(place)
            return json.loads(lines.readline())

    def _found(self, sizes: dict[str, int]) -> Iterator[tuple[int, int]]:
        if not self._file.is_file():
            return
        with self._file.open("rb") as lines:
            for dataset, cases in sizes.items():
                for _ in range(cases):
                    place = lines.tell()
                    line = lines.readline()
                    if line:
                        yield _digest(dataset, json.loads(line)["id"]), place


def baseline_answers(settings: Settings) -> BaselineAnswers | None:
    """The answers of the run's baseline; None where there is none, or no metric asks for them.

    Raises:
        UserError: The baseline is no run, was written by another version, or has no scores.
    """
    run = settings.run
    if run.baseline is None or not any(NEED in metric.needs for metric in run.metric.values()):
        return None
    try:
        baseline = open_baseline(run)
    except UserError as error:
        raise UserError(target_problems(run.baseline, settings.composed.conf_folders) or error.problems) from None
    sizes = {name: facts["cases"] for name, facts in baseline.manifest["datasets"].items()}
    return BaselineAnswers(baseline.folder, sizes)


def _asked(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] != "assistant"]


def _asked_of(case: Case) -> list[str]:
    return [message.content for message in case.messages if message.role != "assistant"]


def _digest(dataset: str, case_id: str) -> int:
    text = f"{dataset}\0{case_id}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


KEPT_BYTES = 8 * 2**20
"""Files of up to this size together are read once."""
KEPT_CASES = 10_000
"""So are up to this many cases: one takes a kilobyte even where nothing is in it."""


class Reading:
    """All cases that a run's data offer, in input order, as often as it is iterated over.

    Small data are read once and kept, so that what is scored is what was checked. Larger data are streamed from their
    files each time, in bounded memory.

    Args:
        run: Whose data.
        others: The baseline's answers, for metrics that compare with them.
    """

    def __init__(self, run: RunConfig, others: BaselineAnswers | None = None) -> None:
        self._run = run
        self._others = others
        self._kept: list[Case] | None = None

    def __iter__(self) -> Iterator[Case]:
        return self._read() if self._kept is None else iter(self._kept)

    def _read(self) -> Iterator[Case]:
        kept: list[Case] | None = [] if self._are_small() else None
        for one in offered(self._run):
            case = self._others.beside(one) if self._others else one
            if kept is not None:
                kept.append(case)
                if len(kept) > KEPT_CASES:
                    kept = None
            yield case
        self._kept = kept

    def _are_small(self) -> bool:
        sizes = [datasets.text_bytes(config) for config in self._run.dataset.values()]
        return sum(sizes) <= KEPT_BYTES


UNKNOWN = "-"
"""Stands where neither the target's name nor what it will say is known."""


def foreseen(run: RunConfig, case: Case) -> Answer:
    """The answer that the case will be scored on: the one in the data, else a stand-in for the target's.

    A stand-in says in `requests` how often the target is asked. Like the target's answer it has the field that the
    dataset generates and no other, and contexts where the target may bring them; its text is as long as may be
    expected.
    """
    standing = standing_answer(run, case, UNKNOWN, 0)
    if standing:
        return standing
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


def standing_answer(run: RunConfig, case: Case, target: str, repeat: int) -> Answer | None:
    """The answer that the run took from the data, or None where it asked the target for one."""
    field = run.dataset[case.dataset].generates
    if run.generate is True or (run.generate == "missing" and getattr(case, field) is None):
        return None
    return recorded_answer(case, target, repeat, demo=run.generate == "demo")


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What to run.

    Attributes:
        composed: The configuration.
        folder: Where to write.
        run_id: The run's id.
        latest: What `outputs/latest` is to point to: the folder itself, or its sweep's; None leaves it alone.
        siblings: Finished runs of the same sweep, whose answers are used again.
        resumed: run.json of the run that is to be finished; None for a new run.
        retry_errors: Whether a resumed run asks again what ended in error.
    """

    composed: Composed
    folder: Path
    run_id: str
    latest: Path | None
    siblings: Sequence[Path] = ()
    resumed: dict[str, Any] | None = None
    retry_errors: bool = False


def remembering(order: RunOrder, parts: Parts, known: ExitStack) -> Target:
    """The target, that is not asked again for what another run of the same sweep has asked it already."""
    if parts.settings.run.generate is False or not order.siblings:
        return parts.target
    book = known.enter_context(AnswerBook())
    for path in order.siblings:
        sibling = RunFolder(path)
        manifest = sibling.read_manifest()
        if manifest["target"]["identity"] == parts.target.identity:
            book.add(sibling.answers, _same_data(manifest, parts))
    return RememberingTarget(parts.target, book)


def answered(order: RunOrder, parts: Parts, known: ExitStack) -> AnswerBook | None:
    """The answers that an earlier part of this run has got; None where there can be none."""
    if parts.settings.run.generate is False or not order.resumed:
        return None
    book = known.enter_context(AnswerBook())
    book.add(RunFolder(order.folder).answers, parts.datasets)
    return book


def _same_data(manifest: dict[str, Any], parts: Parts) -> list[str]:
    """The datasets that another run has read from the same data in the same way."""
    settings = parts.settings
    mine = settings.composed.storable["dataset"]
    keys = {name: settings.keys["dataset", name] for name in parts.datasets}
    return [
        name
        for name, config in parts.datasets.items()
        if manifest["config"]["dataset"].get(keys[name]) == mine[keys[name]]
        and manifest["datasets"][name]["sha256"] == datasets.digest(config)
    ]
