"""Gates: conditions on summary rows, or on the difference to a baseline, that decide a run's exit code.

A value with an interval passes where its worse bound meets the condition and fails where not even its better bound
does; between, the data cannot decide. With `point: true`, and for what has no interval (counts, cost, medians), the
value itself decides. Where too many scores are undefined, a value that leaves them out decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from evalflow.errors import Problem, UserError
from evalflow.records import passes
from evalflow.stats.margin import cases_needed
from evalflow.summary.compare import ComparisonRow, cases_to_decide

if TYPE_CHECKING:
    import polars as pl

Operator = Literal[">=", "<=", ">", "<", "=="]
_CONDITION = re.compile(r"\s*(>=|<=|==|>|<)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*\Z")
COLUMNS = (
    "mean", "std", "std_error", "median", "worst", "best", "ci_low", "ci_high", "pass_rate", "pass_rate_low",
    "pass_rate_high", "n", "n_scored", "n_undefined", "n_error", "n_skipped", "cost_usd", "latency_p50", "latency_p95",
)  # fmt: skip
"""Statistics that are columns of the row of the mean; all others are rows of their own."""
_CI = ("ci_low", "ci_high")
BOUNDS = {"mean": _CI, "pass_rate": ("pass_rate_low", "pass_rate_high")}
"""The columns of the interval of a statistic that is a column; of a figure they are those of the mean."""
SHARES = ("pass_rate", "pass_rate_low", "pass_rate_high")
MAX_UNDEFINED_RATE = 0.1
_WITH_ALL = (
    "worst", "best", "n", "n_scored", "n_undefined", "n_error", "n_skipped", "cost_usd", "latency_p50", "latency_p95",
)  # fmt: skip
"""Columns that leave no undefined score out."""
ON_SCALE = ("mean", "median", "worst", "best", "ci_low", "ci_high")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, such as `>= 0.8`."""

    operator: Operator
    limit: float

    def __str__(self) -> str:
        return f"{self.operator} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Whether the value meets it; what is equal but for rounding counts as equal."""
        reaches, stays = passes(value, self.limit), passes(value, self.limit, higher_is_better=False)
        found = {">=": reaches, "<=": stays, ">": not stays, "<": not reaches, "==": reaches and stays}
        return bool(found[self.operator])


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition that every row of a metric and statistic must meet.

    Attributes:
        metric: The metric; None for all that have the statistic.
        statistic: The statistic.
        condition: What it is held against; of a difference to the baseline `>= -margin`, more being better.
        tag: Only cases with this tag, or one below it; None for all.
        point: Whether the estimate decides, and not its interval.
        baseline: Whether it is the difference to the baseline that is held against the condition.
        max_undefined_rate: The share of undefined scores, among those that are not skipped, above which the gate is
            undecided.
    """

    metric: str | None
    statistic: str
    condition: Condition
    tag: str | None = None
    point: bool = False
    baseline: bool = False
    max_undefined_rate: float = MAX_UNDEFINED_RATE

    @property
    def about(self) -> str:
        """The metric and the tag, as the gate's key spells them."""
        if self.metric is None:
            return f"tag:{self.tag}"
        return self.metric if self.tag is None else f"{self.metric}@{self.tag}"

    def __str__(self) -> str:
        if self.baseline:
            return f"{self.about} {self.statistic} not worse than the baseline by {-self.condition.limit:g}"
        return f"{self.about} {self.statistic} {self.condition}"


@dataclass(frozen=True, slots=True)
class GateRow:
    """A gate held against one row of the summary.

    Attributes:
        dataset, target, metric, judge: Which row.
        value, low, high: The estimate and its 95 % interval; None where there is none, or none that decides.
        passed: None where the data cannot decide.
        cases_needed: How many cases would decide, if the estimate stayed as it is; None where it is decided, or where
            that cannot be said.
        n, n_scored, n_undefined, n_skipped: Of this run's scores; how many there are, and how many are in each state.
            All 0 for statistics that leave no score out.
        compared: How many cases the difference to the baseline rests on; None for other gates.
        undefined_in: The run of which too many scores are undefined; empty where there is none.
    """

    dataset: str
    target: str
    metric: str
    judge: str | None
    value: float | None
    low: float | None
    high: float | None
    passed: bool | None
    cases_needed: int | None = None
    n: int = 0
    n_scored: int = 0
    n_undefined: int = 0
    n_skipped: int = 0
    compared: int | None = None
    undefined_in: Literal["", "this run", "the baseline"] = ""


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate's outcome: failed if one row fails, else undecided (None) if one is or there is none."""

    gate: Gate
    rows: tuple[GateRow, ...]

    @property
    def passed(self) -> bool | None:
        """True, False, or None where the data cannot decide."""
        outcomes = {row.passed for row in self.rows}
        if False in outcomes:
            return False
        return None if None in outcomes or not outcomes else True


def parse_condition(text: str, where: str) -> Condition:
    """Read a condition: one of >=, <=, >, <, == and a number.

    Args:
        text: The condition.
        where: The key path, for messages.

    Raises:
        UserError: It is none.
    """
    match = _CONDITION.match(text)
    if match is None:
        raise UserError(Problem(f"{text!r} is no condition", where, 'write a comparison and a number: ">= 0.8"'))
    sign: Operator = match[1]  # pyright: ignore[reportAssignmentType]
    return Condition(sign, float(match[2]))


def evaluate_gates(
    gates: Sequence[Gate],
    summary: pl.DataFrame,
    differences: Sequence[ComparisonRow] = (),
    baseline: pl.DataFrame | None = None,
) -> list[GateResult]:
    """Hold gates against the summary's rows, in the order given.

    Args:
        gates: The gates.
        summary: Columns as in `summary_schema`.
        differences: This run against the baseline, by tag too; for the gates that ask for it.
        baseline: The summary of the baseline; None without one.
    """
    sides = (summary, summary if baseline is None else baseline)
    return [
        GateResult(gate, tuple(_of_baseline(gate, differences, sides) if gate.baseline else _rows(gate, summary)))
        for gate in gates
    ]


def _rows(gate: Gate, summary: pl.DataFrame) -> Iterator[GateRow]:
    import polars as pl

    of_mean = gate.statistic in COLUMNS
    statistic = "mean" if of_mean else gate.statistic
    value = "value" if gate.statistic == "mean" or not of_mean else gate.statistic
    low, high = BOUNDS.get(gate.statistic, (None, None) if of_mean else _CI)
    wanted = (pl.col("statistic") == statistic) & pl.col("tag").eq_missing(pl.lit(gate.tag, pl.String))
    if gate.metric is not None:
        wanted &= pl.col("metric") == gate.metric
    for row in summary.filter(wanted).iter_rows(named=True):
        if gate.metric is None and of_mean and row[value] is None and row["n_scored"]:
            continue  # a gate on a tag's pass rate is not about metrics that give no pass or fail
        ends = (row[low], row[high]) if low and high else None
        held = _held(gate, row, row[value], ends, row["n_scored"], row["judge"])
        yield held if gate.statistic in _WITH_ALL else _counted(gate, held, row)


def _counted(gate: Gate, held: GateRow, row: Mapping[str, Any], baseline: Mapping[str, Any] | None = None) -> GateRow:
    """The row with what it rests on; undecided where too many of the scores that it should rest on are undefined."""
    counts = {name: row[name] for name in ("n", "n_scored", "n_undefined", "n_skipped")}
    if _is_undefined(gate, row):
        return replace(held, passed=None, cases_needed=None, undefined_in="this run", **counts)
    if baseline is not None and _is_undefined(gate, baseline):
        return replace(held, passed=None, cases_needed=None, undefined_in="the baseline", **counts)
    return replace(held, **counts)


def _is_undefined(gate: Gate, row: Mapping[str, Any]) -> bool:
    expected = row["n"] - row["n_skipped"]
    if not expected:
        return False
    return not passes(row["n_undefined"] / expected, gate.max_undefined_rate, higher_is_better=False)


def _of_baseline(
    gate: Gate, differences: Sequence[ComparisonRow], sides: tuple[pl.DataFrame, pl.DataFrame]
) -> Iterator[GateRow]:
    for row in differences:
        is_of_tag = gate.tag == row.tag or gate.tag in row.also_tags
        if not is_of_tag or gate.metric not in (None, row.metric):
            continue
        if gate.statistic not in (row.statistic, *row.also):
            continue
        found, sign = row.found, 1 if row.higher_is_better else -1
        value = None if found.difference is None else sign * found.difference
        low, high = (None if end is None else sign * end for end in (found.low, found.high)[::sign])
        key = {"dataset": row.dataset, "target": "", "metric": row.metric}
        held = _held(gate, key, value, (low, high), found.n, row.judge)
        needed = cases_to_decide(found, -gate.condition.limit, higher_is_better=row.higher_is_better)
        held = replace(held, compared=found.n, cases_needed=None if held.passed is not None else needed)
        this, baseline = (_mean_of(gate, row, side) for side in sides)
        yield held if this is None else _counted(gate, held, this, baseline)


def _mean_of(gate: Gate, row: ComparisonRow, summary: pl.DataFrame) -> Mapping[str, Any] | None:
    """The row of a summary that has the counts of what was compared."""
    import polars as pl

    own = summary.filter(
        (pl.col("dataset") == row.dataset) & (pl.col("metric") == row.metric) & (pl.col("statistic") == "mean"),
        pl.col("tag").eq_missing(pl.lit(gate.tag, pl.String)),
    )
    return own.row(0, named=True) if own.height else None


def _held(
    gate: Gate,
    row: Mapping[str, Any],
    value: float | None,
    ends: tuple[float | None, float | None] | None,
    n: int,
    judge: str | None,
) -> GateRow:
    key = (row["dataset"], row["target"], row["metric"], judge)
    if value is None:
        return GateRow(*key, None, None, None, None)
    condition = gate.condition
    if gate.point or ends is None or condition.operator == "==":
        return GateRow(*key, value, None, None, condition.holds(value))
    low, high = ends
    if low is None or high is None:
        return GateRow(*key, value, None, None, None)
    outcomes = {condition.holds(low), condition.holds(high)}
    passed = outcomes.pop() if len(outcomes) == 1 else None
    needed = cases_needed(value, low, high, condition.limit, n) if passed is None else None
    return GateRow(*key, value, low, high, passed, needed)
