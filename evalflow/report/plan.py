"""A plan on a terminal and as JSON: cases, repeats and cost for a required precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console

from evalflow.report.wording import cost, folded, literal, number, print_indented, table_of
from evalflow.stats.simulation import MANY
from evalflow.summary.plan import Level

_NAME = 20


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a plan: detect a difference, get an interval no wider than `value`, or see what N cases show."""

    kind: Literal["detect", "width", "cases"]
    value: float

    @property
    def words(self) -> str:
        if self.kind == "cases":
            return f"what {self.value:,.0f} cases show"
        wanted = f"a difference of {self.value:g}" if self.kind == "detect" else f"a 95 % interval {self.value:g} wide"
        return f"to {'detect' if self.kind == 'detect' else 'have'} {wanted}"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A design that reaches a goal. `name` is the metric, or the assumed values."""

    name: str
    goal: Goal
    cases: int
    cases_by_estimate: int  # cases needed if the pilot's estimate were exact; the same as `cases` without an assurance
    answers: int
    judgements: int
    # Cases needed with unlimited repeats; None without a goal for cases, or if noise is unknown.
    least_cases: int | None
    detectable: float | None  # smallest true difference that two such runs detect; None with too few cases
    width: float | None  # width of the 95 % interval of one such run; None if nothing is known of a single run
    cost_usd: float | None  # cost of one such run; None if a price is unknown

    @property
    def scores(self) -> int:
        return self.cases * self.answers * self.judgements


@dataclass(frozen=True, slots=True)
class LabelRow:
    """Number of labels for a required width of a judge's corrected mean, or to detect a corrected difference."""

    name: str
    goal: Goal  # the width, or the difference of two runs; labels and answers are then cases, labelled in both runs
    answers: int | None  # number of answers that the judge scores, labelled ones included; None for any number
    labels: int | None  # labels needed; None if the interval is too wide even with labels on all answers but two
    labels_alone: int  # labels needed without a judge


@dataclass(frozen=True, slots=True)
class Conversations:
    """Average effort of the pilot's conversations with simulated users, both sides together; None if unknown."""

    count: int
    turns: float  # answers of the target
    user_calls: float
    tokens: float | None
    cost_usd: float | None
    seconds: float | None

    @property
    def words(self) -> str:
        took = [f"{self.turns:.3g} answers", f"{self.user_calls:.3g} calls for the user"]
        took += [] if self.tokens is None else [f"{self.tokens:,.0f} tokens"]
        took += [] if self.cost_usd is None else [cost(self.cost_usd)]
        took += [] if self.seconds is None else [f"{self.seconds:.3g} s of calls"]
        return f"simulated users: a conversation took {', '.join(took)} on average, in {self.count:,} of the pilot"


@dataclass(frozen=True, slots=True)
class PilotCosts:
    """US dollars of an answer and of one judgement of it, by all metrics and without the cache; None if unknown."""

    answer: float | None = None
    judgement: float | None = None
    conversations: Conversations | None = None  # None without simulated users

    def of_run(self, cases: int, answers: int, judgements: int) -> float | None:
        if self.answer is None or self.judgement is None:
            return None
        return cases * answers * (self.answer + judgements * self.judgement)


@dataclass(frozen=True, slots=True)
class PlanReport:
    """All designs of a plan, and its assumptions by name; no `labels` if agreement with people is unknown."""

    rows: Sequence[PlanRow]
    labels: Sequence[LabelRow]
    assumptions: Mapping[str, Sequence[str]]
    level: Level
    costs: PilotCosts
    assurance: float | None

    def document(self) -> dict[str, object]:
        rows = [
            {**asdict(row), "goal": row.goal.kind, "wanted": row.goal.value, "scores": row.scores} for row in self.rows
        ]
        return {
            "rows": rows,
            "labels": [{**asdict(row), "goal": row.goal.kind, "wanted": row.goal.value} for row in self.labels],
            "assumptions": self.assumptions,
            "alpha": self.level.alpha,
            "comparisons": self.level.comparisons,
            "power": self.level.power,
            "assurance": self.assurance,
            "conversations": None if self.costs.conversations is None else asdict(self.costs.conversations),
        }


def print_plan(console: Console, plan: PlanReport) -> None:
    """Print a table for each goal and metric, followed by the assumptions."""
    groups: dict[tuple[str, Goal], list[PlanRow]] = {}
    for row in plan.rows:
        groups.setdefault((row.name, row.goal), []).append(row)
    for (name, goal), rows in groups.items():
        console.print(literal(f"{name}: {goal.words}", style="bold"), soft_wrap=True)
        heads = ["answers", "judgements", "cases", "scores", "detects", "interval", "cost"]
        cells = [
            [
                f"{row.answers}",
                f"{row.judgements}",
                f"{row.cases:,}",
                f"{row.scores:,}",
                number(row.detectable, 4),
                number(row.width, 4),
                cost(row.cost_usd),
            ]
            for row in rows
        ]
        if plan.assurance is not None and goal.kind != "cases":
            for line, text in zip(
                [heads, *cells], ["by estimate", *(f"{row.cases_by_estimate:,}" for row in rows)], strict=True
            ):
                line.insert(3, text)
        console.print(table_of(dict.fromkeys(heads, "number"), cells))
        least = rows[0].least_cases
        if least is not None:
            console.print(literal(f"no number of repeats makes it fewer than {least:,} cases", style="dim"))
    for name, goal in dict.fromkeys((row.name, row.goal) for row in plan.labels):
        title = f"{name}: labels for a corrected 95 % interval {goal.value:g} wide"
        heads = ("answers judged", "labels", "labels without a judge")
        if goal.kind == "detect":
            title = f"{name}: cases labelled in both runs, {goal.words}"
            heads = ("cases judged", "labelled cases", "without a judge")
        console.print(literal(title, style="bold"), soft_wrap=True)
        cells = [
            (
                "any number" if row.answers is None else f"{row.answers:,}",
                "more answers needed" if row.labels is None else f"{row.labels:,}",
                f"{row.labels_alone:,}",
            )
            for row in plan.labels
            if (row.name, row.goal) == (name, goal)
        ]
        console.print(table_of(dict.fromkeys(heads, "number"), cells))
    for name, assumptions in plan.assumptions.items():
        console.print(literal(folded(name, 80), style="bold"))
        for line in assumptions:
            print_indented(console, line)
    console.print(literal("all", style="bold"))
    for line in _common(plan):
        print_indented(console, line)


def _shared(level: Level) -> str:
    if level.comparisons == 1:
        return "; more comparisons in one table need more cases (--comparisons)"
    return f" / {level.comparisons}, as one of {level.comparisons} comparisons in one table (--comparisons)"


def _common(plan: PlanReport) -> list[str]:
    level = plan.level
    assumptions = [
        f"detects: a true difference of two such runs on the same cases, found with probability {level.power:g} by a "
        f"test at {level.alpha:g}{_shared(level)}",
        "interval: from the low to the high end of one run's mean or pass rate; scored cases alone count",
        f"cases: found by simulated runs, with the test and the interval that runs report, up to {MANY:,} cases or "
        "groups; power within about 2 points; above, by formulas",
    ]
    if plan.assurance is not None:
        assumptions.append(
            f"assurance: enough with a chance of {plan.assurance:g} over the cases that the pilot happened to have, "
            "and for a width over those of the run; by estimate: if the pilot's variances, or its shares of passes and "
            "flips, were exact; labels are planned by estimate"
        )
    if plan.labels:
        assumptions.append("labels: of answers drawn at random; one label each, as they would be given again")
    if plan.costs.conversations is not None:
        assumptions.append(plan.costs.conversations.words)
    if plan.costs.answer is not None:
        assumptions.append(
            "cost: of one run with all the pilot's metrics, at its mean cost, nothing taken from the cache"
        )
    else:
        assumptions.append("cost: unknown; a pilot run whose endpoints have prices tells it")
    return assumptions
