"""Gates: conditions on summary rows that decide a run's exit code, by their point estimate."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.summary.figures import statistics

if TYPE_CHECKING:
    import polars as pl

    from evalflow.protocols import Measured

Operator = Literal[">=", "<=", ">", "<", "=="]
_HOLDS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}
_CONDITION = re.compile(r"\s*(>=|<=|==|>|<)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*\Z")
# Statistics that are columns of the row of the mean; all others are rows of their own.
_COLUMNS = (
    "mean", "std", "std_error", "median", "worst", "best", "ci_low", "ci_high", "pass_rate", "pass_rate_low",
    "pass_rate_high", "n", "n_scored", "n_undefined", "n_error", "n_skipped", "cost_usd", "latency_p50", "latency_p95",
)  # fmt: skip
_SHARES = ("pass_rate", "pass_rate_low", "pass_rate_high")
_ON_SCALE = ("mean", "median", "worst", "best", "ci_low", "ci_high")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, such as `>= 0.8`."""

    operator: Operator
    limit: float

    def __str__(self) -> str:
        return f"{self.operator} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Whether the value meets it."""
        return bool(_HOLDS[self.operator](value, self.limit))


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition that every row of a metric and statistic must meet."""

    metric: str
    statistic: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class GateRow:
    """A gate held against one row of the summary; `passed` is None where the row has no value."""

    dataset: str
    target: str
    judge: str | None
    value: float | None
    passed: bool | None


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate's outcome: failed if one row fails, else undecided (None) if one has no value or there is none."""

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


def parse_gates(gates: Mapping[str, Mapping[str, str]] | None, metrics: Mapping[str, Measured]) -> list[Gate]:
    """All gates of a run: those in the metrics' own files, and those of the run, which hold where both name one.

    Args:
        gates: The run's, by metric and statistic.
        metrics: The metrics by name.

    Raises:
        UserError: A condition, a metric or a statistic is unknown, or a condition compares with what the statistic
            can never be; holds every such problem.
    """
    merged = {name: dict(metric.config.gate or {}) for name, metric in metrics.items()}
    for name, conditions in (gates or {}).items():
        merged.setdefault(name, {}).update(conditions)
    found: list[Gate] = []
    problems: list[Problem] = []
    for name, conditions in merged.items():
        for statistic, text in conditions.items():
            where = f"gate.{name}.{statistic}"
            try:
                _check_names(name, statistic, where, metrics)
                condition = parse_condition(text, where)
                _check_limit(condition, statistic, where, metrics.get(name))
                found.append(Gate(name, statistic, condition))
            except UserError as error:
                problems += error.problems
    if problems:
        raise UserError(problems)
    return found


def evaluate_gates(gates: Sequence[Gate], summary: pl.DataFrame) -> list[GateResult]:
    """Hold gates against the summary's rows over all tags, in the order given."""
    import polars as pl

    every = summary.filter(pl.col("tag").is_null())
    return [GateResult(gate, tuple(_rows(gate, every))) for gate in gates]


def _rows(gate: Gate, summary: pl.DataFrame) -> list[GateRow]:
    import polars as pl

    of_mean = gate.statistic in _COLUMNS
    statistic = "mean" if of_mean else gate.statistic
    column = gate.statistic if of_mean and gate.statistic != "mean" else "value"
    rows = summary.filter((pl.col("metric") == gate.metric) & (pl.col("statistic") == statistic))
    found: list[GateRow] = []
    for dataset, target, judge, value in rows.select("dataset", "target", "judge", column).iter_rows():
        found.append(GateRow(dataset, target, judge, value, None if value is None else gate.condition.holds(value)))
    return found


def _check_names(name: str, statistic: str, where: str, metrics: Mapping[str, Measured]) -> None:
    metric = metrics.get(name)
    if metric is None:
        raise UserError(Problem(f"no metric {name!r} in this run", where, did_you_mean(name, metrics)))
    spec = metric.figures
    known = [*_COLUMNS, *(statistics(spec) if spec else [])]
    per_class = spec is not None and spec.positive is None and re.match(r"(precision|recall|f1)\[.+\]\Z", statistic)
    if statistic not in known and not per_class:
        what = f"metric {name!r} has no statistic {statistic!r}"
        raise UserError(Problem(what, where, did_you_mean(statistic, known)))


def _check_limit(condition: Condition, statistic: str, where: str, metric: Measured | None) -> None:
    """Refuse a limit outside 0..1 for what lies there: shares, figures, and the scale of a bounded metric."""
    if metric is None:
        return
    within = statistic in _SHARES or statistic not in _COLUMNS or (metric.bounded and statistic in _ON_SCALE)
    if within and not 0 <= condition.limit <= 1:
        hint = "it lies in 0..1; 80 per cent are 0.8"
        raise UserError(Problem(f"{statistic} is compared with {condition.limit:g}", where, hint))
