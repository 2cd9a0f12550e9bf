"""Checks of what cases ask before a run: questions without words, and parts of messages that judges cannot see."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from evalflow.app.core.assemble import Parts
from evalflow.app.core.cases import is_generated
from evalflow.app.core.data_checks import SHOWN, placed
from evalflow.errors import Problem
from evalflow.records import Case
from evalflow.targets.openai import turn_template

_BLANK, _NONE = "the question is empty", "the case has no question, and others have one"
_NO_TEXT = "target.prompt gives it an empty message"


class QuestionChecks:
    """Checks every case once. A dataset with `allow_irregular` may have cases without a question."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._run = parts.settings.run
        self._prompt = turn_template(getattr(self._run.target, "prompt", None), "target.prompt", parts.prompts)
        self._blank: list[tuple[Case, str]] = []
        self._without: defaultdict[str, list[Case]] = defaultdict(list[Case])
        self._more: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._pictures: Counter[str] = Counter()

    def add(self, case: Case) -> None:
        self._pictures[case.dataset] += any(message.parts for message in case.messages)
        if self._parts.datasets[case.dataset].allow_irregular:
            return
        if self._prompt is not None and is_generated(self._run, case):
            if not self._prompt.text_for(case, unknown="-").strip():
                self._keep(case, _NO_TEXT)
        elif case.messages:
            self._asked[case.dataset] += 1
            last = case.messages[-1]
            if last.role == "user" and not last.text.strip():
                self._keep(case, _BLANK)
        elif case.scenario is None and len(self._without[case.dataset]) < SHOWN:
            self._without[case.dataset].append(case)

    def problems(self) -> Iterator[Problem]:
        """Cases whose question is empty, each with its place in the file."""
        missing = [(case, _NONE) for name, cases in self._without.items() if self._asked[name] for case in cases]
        found = [(case, self._problem(case, what)) for case, what in (*self._blank, *missing)]
        for place, problem in placed(self._parts.datasets, found[:SHOWN]):
            yield Problem(problem.what, place or problem.where, problem.hint)
        for name, n in self._more.items():
            yield Problem(f"and {n:,} more cases like these", f"dataset.{name}")

    def remarks(self) -> Iterator[str]:
        """Parts of messages that judges do not see."""
        for dataset, n in self._pictures.items():
            if n:
                yield (
                    f"{n:,} cases of {dataset} have parts of messages that are not text, such as images: a target by "
                    "chat completions gets them, judges read [image] in their place"
                )

    def _keep(self, case: Case, what: str) -> None:
        if len(self._blank) < SHOWN:
            self._blank.append((case, what))
        else:
            self._more[case.dataset] += 1

    def _problem(self, case: Case, what: str) -> Problem:
        key = self._parts.settings.key("dataset", case.dataset)
        hint = f"write it, or leave the case out; if it is meant: {key}.allow_irregular=true"
        return Problem(f"case {case.id!r}: {what}", f"dataset.{case.dataset}", hint)
