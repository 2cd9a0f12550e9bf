"""What another run answered to the same cases, for metrics that hold two answers against each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from evalflow.app.comparison.baseline import open_baseline, target_problems
from evalflow.config.validate import Settings
from evalflow.errors import UserError
from evalflow.records import Case
from evalflow.run.folder import RunFolder

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
