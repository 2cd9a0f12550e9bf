"""Check the questions of cases before a run: missing ones, and parts of messages that judges cannot see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from evalflow.app.core.assemble import Parts
from evalflow.app.core.cases import is_generated
from evalflow.app.core.data_checks import SHOWN, placed
from evalflow.errors import Problem
from evalflow.records import Case
from evalflow.report.wording import counted
from evalflow.targets.turn_template import turn_template

_NONE = "the case has no question, but others have one"
_NO_TEXT = "target.prompt gives it an empty message"


class QuestionChecks:
    """Checks every case, or one for several like it. A dataset with `allow_irregular` may lack questions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._run = parts.settings.run
        self._prompt = turn_template(getattr(self._run.target, "prompt", None), "target.prompt", parts.prompts)
        self._found: list[tuple[Case, str]] = []
        self._more: Counter[tuple[str, str]] = Counter()
        self._asked: Counter[str] = Counter()
        self._pictures: Counter[str] = Counter()

    def add(self, case: Case, times: int = 1) -> None:
        self._pictures[case.dataset] += times * any(message.parts for message in case.messages)
        if self._parts.datasets[case.dataset].allow_irregular:
            return
        if self._prompt is not None and is_generated(self._run, case):
            if not self._prompt.text_for(case, unknown="-").strip():
                self._keep(case, _NO_TEXT, times)
        elif case.messages:
            self._asked[case.dataset] += times
        elif case.scenario is None:
            self._keep(case, _NONE, times)

    def problems(self) -> Iterator[Problem]:
        found = [(case, self._problem(case, what)) for case, what in self._found if self._counts(case.dataset, what)]
        for place, problem in placed(self._parts.datasets, found):
            yield replace(problem, where=place or problem.where)
        for (name, what), n in self._more.items():
            if self._counts(name, what):
                yield Problem(f"and {n:,} more cases like these", f"dataset.{name}")

    def remarks(self) -> Iterator[str]:
        for dataset, n in self._pictures.items():
            if n:
                yield (
                    f"parts of messages that are not text, such as images, in {counted(n)} of {dataset}: a target by "
                    "chat completions gets them, judges read [image] in their place"
                )

    def _keep(self, case: Case, what: str, times: int) -> None:
        if len(self._found) < SHOWN:
            self._found.append((case, what))
        else:
            self._more[case.dataset, what] += times

    def _counts(self, dataset: str, what: str) -> bool:
        return what != _NONE or self._asked[dataset] > 0

    def _problem(self, case: Case, what: str) -> Problem:
        key = self._parts.settings.key("dataset", case.dataset)
        hint = f"write it, or leave the case out; if it is meant: {key}.allow_irregular=true"
        return Problem(f"case {case.id!r}: {what}", f"dataset.{case.dataset}", hint)
