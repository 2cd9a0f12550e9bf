"""Looking at everything before the first request: the data, the prompts on it, who can judge it, what it will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from evalflow.app.assemble import Parts
from evalflow.app.census import Census
from evalflow.app.estimate import Estimate, Estimator
from evalflow.errors import Problem, UserError
from evalflow.records import Case
from evalflow.run.selection import Draw

SAMPLE = 20
"""How many cases of each dataset prompts are rendered against."""


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
        notices = [judge.notice for judge in self.parts.judges.values() if judge.notice]
        return shadows + notices + self._unfenced()

    def _unfenced(self) -> list[str]:
        """Prompts that show a judge what it judges as if it were theirs."""
        return [
            f"metric {name}: its prompt {prompt} shows {' and '.join(shown)} without `fenced`, so that a text in there "
            "could pass for an instruction"
            for name, metric in self.parts.metrics.items()
            for prompt in metric.prompts
            if (shown := self.parts.prompts.unfenced(prompt))
        ]

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
    census, estimator = Census(parts), Estimator(parts)
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
    found.estimate = estimator.scaled(found.cases)
    return found


def _count(found: Inspection, estimator: Estimator, case: Case) -> None:
    run = found.parts.settings.run
    found.cases[case.dataset] += 1
    for pair in found.parts.pairs:
        repeats = run.repeats.judge if pair.judge else 1
        found.cells += len(pair.metric.bind(case)) * repeats * run.repeats.target
    if found.cases[case.dataset] <= SAMPLE:
        estimator.add(case)


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
