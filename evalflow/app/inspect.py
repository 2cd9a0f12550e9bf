"""Looking at everything before the first request: the data, the prompts on it, who can judge it, what it will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from evalflow.app.assemble import Parts
from evalflow.app.estimate import Estimate, Estimator
from evalflow.config.schema import RunConfig
from evalflow.errors import Problem, UserError
from evalflow.records import Case
from evalflow.run.pipeline import Pair
from evalflow.run.selection import Draw, case_digest

SAMPLE = 20
"""How many cases prompts are rendered against."""


@dataclass(slots=True)
class Inspection:
    """What was found.

    Attributes:
        parts: What was inspected.
        cases: Selected cases by dataset.
        cells: Scores the run will have.
        draw: Which cases are selected.
        estimate: Requests, tokens and cost.
    """

    parts: Parts
    draw: Draw
    cases: Counter[str] = field(default_factory=Counter[str])
    cells: int = 0
    estimate: Estimate = field(default_factory=Estimate)

    def notices(self) -> list[str]:
        """What people should know before they read the numbers."""
        shadows = [
            f"{key} comes from {file}, in place of the packaged one"
            for key, file in self.parts.settings.composed.shadowed
        ]
        return shadows + [judge.notice for judge in self.parts.judges.values() if judge.notice]

    def selected(self) -> Iterator[Case]:
        """The selected cases, streamed from the data again."""
        return self.draw.pick(self.parts.cases())


def inspect(parts: Parts) -> Inspection:
    """Read all data once, and check everything against it; nothing is sent.

    Raises:
        UserError: With every problem that was found.
    """
    run = parts.settings.run
    found = Inspection(parts, Draw(run.sample, run.seed))
    census, estimator = _Census(parts), Estimator(parts)
    for case in parts.cases():
        census.add(case)
        found.draw.offer(case)
        if run.sample is None:
            _count(found, estimator, case)
    if run.sample is not None:
        for case in found.selected():
            _count(found, estimator, case)
    problems = _judges_that_cannot(parts) + census.problems() + estimator.problems
    if problems:
        raise UserError(problems)
    found.estimate = estimator.scaled(found.cases.total())
    return found


def _count(found: Inspection, estimator: Estimator, case: Case) -> None:
    run = found.parts.settings.run
    found.cases[case.dataset] += 1
    for pair in found.parts.pairs:
        repeats = run.repeats.judge if pair.judge else 1
        found.cells += len(pair.metric.bind(case)) * repeats * run.repeats.target
    if found.cases.total() <= SAMPLE:
        estimator.add(case)


class _Census:
    """What the cases have, for all cases at once and in little memory."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seen: set[int] = set()
        self._repeated: list[Problem] = []
        self._present: Counter[tuple[str, str, str]] = Counter()
        self._columns: dict[str, dict[str, None]] = {}
        self._sizes: Counter[str] = Counter()

    def add(self, case: Case) -> None:
        """Look at one case."""
        self._sizes[case.dataset] += 1
        digest = case_digest(case)
        if digest in self._seen and len(self._repeated) < SAMPLE:
            self._repeated.append(
                Problem(
                    f"record {case.index + 1} has the id {case.id!r} of an earlier one",
                    f"dataset.{case.dataset}",
                    "ids must be unique; records without an id that are equal count as one",
                )
            )
        self._seen.add(digest)
        if case.index < SAMPLE:
            self._columns.setdefault(case.dataset, {}).update(dict.fromkeys(case.vars))
        for pair in self._parts.pairs:
            for need in pair.metric.config.needs:
                if has(case, need, self._parts):
                    self._present[case.dataset, pair.metric.name, need] += 1

    def problems(self) -> list[Problem]:
        """Duplicate ids, and what a metric needs and no case has."""
        found = list(self._repeated)
        for dataset in self._sizes:
            for pair in self._parts.pairs:
                found += [
                    self._absent(dataset, pair, need)
                    for need in pair.metric.config.needs
                    if not self._present[dataset, pair.metric.name, need]
                ]
        return found

    def _absent(self, dataset: str, pair: Pair, need: str) -> Problem:
        columns = list(self._columns.get(dataset, {}))
        example = columns[0] if columns else "COLUMN"
        known = f"; columns without a field: {', '.join(columns)}" if columns else ""
        return Problem(
            f"{pair.metric.name} needs {need}, and no case of {dataset} has it{known}",
            f"dataset.{dataset}.fields",
            f"map it: '+dataset.{dataset}.fields.{need}={example}'",
        )


def has(case: Case, need: str, parts: Parts) -> bool:
    """Whether a metric will find a field, in the case or in the answer that the target will give."""
    run = parts.settings.run
    if _generated(run, case, need):
        return True
    root, _, rest = need.partition(".")
    value: Any = getattr(case, root)
    if root == "answer" and run.generate == "demo":
        value = case.demo_answer
    for key in rest.split(".") if rest else ():
        value = cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None
    return value not in (None, {})


def _generated(run: RunConfig, case: Case, need: str) -> bool:
    return run.generate in (True, "missing") and need == run.dataset[case.dataset].generates


def _judges_that_cannot(parts: Parts) -> list[Problem]:
    """Metrics whose judge has no answer to what they ask."""
    problems: list[Problem] = []
    for pair in parts.pairs:
        if pair.judge is None:
            continue
        for step, task in pair.metric.tasks.items():
            refusal = pair.judge.explain_refusal(task)
            if refusal:
                what = f"{pair.metric.name}, step {step}: {refusal}"
                hint = "choose a language model as the judge: judge=openai, or another of `list judge`"
                problems.append(Problem(what, f"metric.{pair.metric.name}", hint))
                break
    return problems
