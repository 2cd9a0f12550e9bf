"""Gates: conditions on summary rows that decide a run's exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from evalflow.errors import Problem, UserError
from evalflow.lazy import pl
from evalflow.records import CASES, passes
from evalflow.summary.finding import RAW, is_corrected, judge_alone
from evalflow.summary.journal import SLICE
from evalflow.summary.rows import Detail, SummaryRow, rows_of
from evalflow.summary.verdicts import Condition, Operator, against_limit, overall

if TYPE_CHECKING:
    from evalflow.summary.compare import ComparisonRow


Looks = Literal["anytime"] | int
_CONDITION = re.compile(r"\s*(>=|<=|==|>|<)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*\Z")
_CI = ("ci_low", "ci_high")
_EXTREMES = ("bound_low", "bound_high")
_RATES = ("pass_rate", "pass_rate_low", "pass_rate_high")
_STATES = ("n", "n_scored", "n_undefined", "n_error", "n_skipped")
OF_CALLS = ("n_cut_off", "cost_usd", "latency_p50", "latency_p95")
BOUNDS = {
    "mean": _CI,
    **{name: (f"{name}_low", f"{name}_high") for name in ("pass_rate", "pass_hat_k", "repeat_pass_share")},
}
"""The columns with the interval of a statistic; a figure uses the same columns as the mean."""
OF_REPEATS = tuple(column for name in ("pass_hat_k", "repeat_pass_share") for column in (name, *BOUNDS[name]))
"""Statistics of runs with repeats."""
SHARES = (*_RATES, *OF_REPEATS)
OF_CASES = (*SHARES, *_STATES)
"""Statistics of the metric `cases`, the cases that pass everything; all are columns of its row."""
COLUMNS = ("mean", "std", "std_error", "median", "lowest", *_EXTREMES, *_CI, *OF_CASES, *OF_CALLS)
"""Statistics that are columns of the mean's row; all others have their own rows."""
MAX_UNDEFINED_RATE = 0.1
_WITH_ALL = (*_EXTREMES, *_STATES, *OF_CALLS)
"""Columns computed from all scores, undefined ones included."""
ON_SCALE = ("mean", "median", "lowest", *_EXTREMES, *_CI)
_Key = tuple[str | None, ...]  # dataset, target, metric, judge and tag
_OFF = "judge_alone: true"


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition that every row of a metric must meet (None: of every metric that has the statistic)."""

    metric: str | None
    statistic: str
    condition: Condition  # for a difference to the baseline: `>= -margin`, where higher is better
    tag: str | None = None
    point: bool = False  # whether the estimate decides instead of its interval
    judge_alone: bool = False  # whether the judge's own value decides even if people's labels correct it
    baseline: bool = False
    # How often the run may be looked at before its end, with intervals that allow for it. None: only at its end.
    looks: Looks | None = None
    # The share of undefined scores, without skipped ones, above which the gate is undecided.
    max_undefined_rate: float = MAX_UNDEFINED_RATE

    @property
    def about(self) -> str:
        """The metric and the tag, in the syntax of the gate's key."""
        if self.metric is None:
            return f"tag:{self.tag}"
        return self.metric if self.tag is None else f"{self.metric}@{self.tag}"

    def __str__(self) -> str:
        if self.baseline:
            return f"{self.about} {self.statistic} not worse than the baseline by {-self.condition.limit:g}"
        return f"{self.about} {self.statistic} {self.condition}"


@dataclass(frozen=True, slots=True)
class GateRow:
    """A gate's result for one row of the summary; `passed` is None if undecided."""

    dataset: str
    target: str
    metric: str
    judge: str | None
    # The estimate and its 95 % interval; None if there is none, or if it is not used.
    value: float | None
    low: float | None
    high: float | None
    passed: bool | None
    # Number of cases that would decide, at the same estimate; None if decided or unknown. For a value corrected by
    # labels, number of labels of these answers.
    cases_needed: int | None = None
    # This run's scores by state; 0 for statistics computed from all scores.
    n: int = 0
    n_scored: int = 0
    n_undefined: int = 0
    n_skipped: int = 0
    compared: int | None = None  # number of cases compared with the baseline; None for other gates
    unseen_share: float | None = (
        None  # share of cases whose drop may go unseen although the margin is passed (`verdicts.unseen_share`)
    )
    undefined_in: Literal["", "this run", "the baseline"] = ""  # the run with too many undefined scores; empty if none
    method: str | None = None
    in_error: int = 0  # number of cases in error that keep looks from deciding
    looked: str = ""  # which look decides, and after how many cases; empty without looks
    # Number of labelled answers, or cases of both runs, that the value is about; None if nobody labelled.
    labelled: int | None = None
    # The judge's own result if labels correct it; else, if there are labels, why they correct nothing.
    judged: GateRow | None = None
    uncorrected: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """The last look at a gate's statistic: its value and interval (None without one), and the decision so far."""

    value: float | None
    low: float | None
    high: float | None
    passed: bool | None
    text: str
    method: str = ""
    in_error: int = 0  # number of cases in error without which the interval would decide


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate's outcome: failed if any row fails, else undecided (None) if any row is undecided or there are no rows."""

    gate: Gate
    rows: tuple[GateRow, ...]

    @property
    def passed(self) -> bool | None:
        """True, False, or None if undecided."""
        return overall(row.passed for row in self.rows)


def parse_condition(text: str, where: str) -> Condition:
    """Read a condition: one of >=, <=, >, <, == and a number; UserError for anything else."""
    match = _CONDITION.match(text)
    if match is None:
        limit = _CONDITION.match(f">= {text}")
        examples = f'">= {limit[2]}" or "<= {limit[2]}"' if limit else '">= 0.8"'
        raise UserError(Problem(f"{text!r} is not a condition", where, f"write a comparison and a number: {examples}"))
    sign: Operator = match[1]  # pyright: ignore[reportAssignmentType]
    return Condition(sign, float(match[2]))


def evaluate_gates(
    gates: Sequence[Gate],
    summary: pl.DataFrame,
    differences: Sequence[ComparisonRow] = (),
    baseline: pl.DataFrame | None = None,
    looked: Mapping[tuple[Gate, str], Looked] | None = None,
    calibration: Sequence[Detail] = (),
) -> list[GateResult]:
    """Evaluate gates on the summary's rows.

    `differences` are those of this run to the baseline, by tag too; `looked` are the last looks, by gate and dataset.
    Means and pass rates corrected by labels replace the judge's (`summary.finding`); `calibration`, rows of
    calibration.json, shows how many more labels would decide.
    """
    sides = (summary, summary if baseline is None else baseline)
    labelled = {tuple(row[name] for name in (*SLICE, "tag")): row for one in calibration for row in (one, *one["tags"])}

    def rows(gate: Gate) -> Iterator[GateRow]:
        if gate.baseline:
            return _of_baseline(gate, differences, sides)
        return _rows(gate, summary, looked or {}, labelled)

    return [GateResult(gate, tuple(rows(gate))) for gate in gates]


def _rows(
    gate: Gate, summary: pl.DataFrame, looked: Mapping[tuple[Gate, str], Looked], labelled: Mapping[_Key, Detail]
) -> Iterator[GateRow]:
    of_mean = gate.statistic in COLUMNS
    statistic = ("pass_rate" if gate.metric == CASES else "mean") if of_mean else gate.statistic
    value = _column(gate)
    wanted = (pl.col("statistic") == statistic) & pl.col("tag").eq_missing(pl.lit(gate.tag, pl.String))
    if gate.metric is not None:
        wanted &= pl.col("metric") == gate.metric
    for row in rows_of(summary.filter(wanted)):
        if gate.metric is None and of_mean and getattr(row, value) is None and row.n_scored:
            continue  # a gate on a tag's pass rate is not about metrics that give no pass or fail
        if gate.looks is None:
            outcome = _by_row(gate, row)
        else:
            look = looked[gate, row.dataset]
            outcome = GateRow(
                *row.series, look.value, look.low, look.high, look.passed, looked=look.text, method=look.method
            )
            outcome = replace(outcome, in_error=look.in_error)
        if row.n_labels is not None and value in RAW:
            # A tag of all answers has no row of its own.
            known = labelled.get((*row.series, row.tag)) or labelled.get((*row.series, None))
            outcome = _by_labels(gate, row, row.n_labels, outcome, known)
        yield outcome if gate.statistic in _WITH_ALL else _counted(gate, outcome, row)


def _column(gate: Gate) -> str:
    return gate.statistic if gate.statistic in COLUMNS and gate.statistic != "mean" else "value"


def _by_row(gate: Gate, row: SummaryRow) -> GateRow:
    from evalflow.stats.intervals import UNEVEN

    value = _column(gate)
    low, high = BOUNDS.get(gate.statistic, (None, None) if gate.statistic in COLUMNS else _CI)
    ends = (getattr(row, low), getattr(row, high)) if low and high else None
    outcome = _evaluate(gate, row.series, getattr(row, value), ends, row.n_scored)
    # A pass rate has the same clusters as its mean, hence the same caveat.
    is_its_own = value == "value" or UNEVEN in (row.ci_method or "")
    return replace(outcome, method=row.ci_method) if is_its_own else outcome


def _by_labels(gate: Gate, row: SummaryRow, labels: int, outcome: GateRow, calibrated: Detail | None) -> GateRow:
    """Add labels to the outcome: how many there are and how many would decide.

    With `judge_alone` the judge's value decides.
    """
    labelled = replace(outcome, labelled=labels)
    if not is_corrected(row, _column(gate)):
        return replace(labelled, uncorrected=row.uncorrected or "")
    if gate.looks:
        return replace(labelled, uncorrected=f"looks: {gate.looks}")
    judged = _by_row(gate, judge_alone(row))
    if gate.judge_alone:
        return replace(judged, labelled=labels, uncorrected=_OFF)
    needed = None
    if outcome.passed is None and outcome.value is not None and calibrated:
        from evalflow.stats.prediction import Spread

        means = calibrated["pass_rate" if gate.statistic in SHARES else "corrected"]
        answers = labels + calibrated["n_unlabelled"]
        if means["spread"] is not None:
            gap = abs(outcome.value - gate.condition.limit)
            needed = Spread(**means["spread"]).labels_for(2 * gap, answers)
    return replace(labelled, cases_needed=needed and max(needed, labels + 1), judged=judged)


def _counted(gate: Gate, outcome: GateRow, row: SummaryRow, baseline: SummaryRow | None = None) -> GateRow:
    counted = replace(outcome, n=row.n, n_scored=row.n_scored, n_undefined=row.n_undefined, n_skipped=row.n_skipped)
    if _is_undefined(gate, row):
        return replace(counted, passed=None, cases_needed=None, undefined_in="this run")
    if baseline is not None and _is_undefined(gate, baseline):
        return replace(counted, passed=None, cases_needed=None, undefined_in="the baseline")
    return counted


def _is_undefined(gate: Gate, row: SummaryRow) -> bool:
    expected = row.n - row.n_skipped
    if not expected:
        return False
    return not passes(row.n_undefined / expected, gate.max_undefined_rate, higher_is_better=False)


def _of_baseline(
    gate: Gate, differences: Sequence[ComparisonRow], sides: tuple[pl.DataFrame, pl.DataFrame]
) -> Iterator[GateRow]:
    for row in differences:
        is_of_tag = gate.tag == row.tag or gate.tag in row.also_tags
        if not is_of_tag or gate.metric not in (None, row.metric):
            continue
        if gate.statistic not in (row.statistic, *row.also):
            continue
        judge = row if row.judged is None else replace(row, difference=row.judged)
        outcome = judged = _difference(gate, judge)
        if row.judged is not None and not gate.judge_alone:
            outcome = replace(_difference(gate, row), compared=judge.difference.n, judged=judged)
        if row.labelled or row.uncorrected:
            why = "" if outcome.judged else _OFF if row.judged else row.uncorrected
            outcome = replace(outcome, labelled=row.labelled, uncorrected=why)
        this, baseline = (_mean_of(gate, row, side) for side in sides)
        yield outcome if this is None else _counted(gate, outcome, this, baseline)


def _difference(gate: Gate, row: ComparisonRow) -> GateRow:
    from evalflow.summary.verdicts import oriented

    value, low, high = oriented(row.difference, higher_is_better=row.higher_is_better)
    outcome = _evaluate(gate, (row.dataset, "", row.metric, row.judge), value, (low, high), row.difference.n)
    margin = -gate.condition.limit
    needed = None if outcome.passed is not None else row.cases_to_decide(margin)
    unseen = row.unseen_share(margin) if outcome.passed and outcome.low is not None else None
    method = row.difference.method
    return replace(outcome, compared=row.difference.n, cases_needed=needed, method=method, unseen_share=unseen)


def _mean_of(gate: Gate, row: ComparisonRow, summary: pl.DataFrame) -> SummaryRow | None:
    tag = pl.col("tag").eq_missing(pl.lit(gate.tag, pl.String))
    return next(iter(rows_of(summary.filter(tag, dataset=row.dataset, metric=row.metric, statistic="mean"))), None)


def _evaluate(
    gate: Gate,
    series: tuple[str, str, str, str | None],
    value: float | None,
    ends: tuple[float | None, float | None] | None,
    n: int,
) -> GateRow:
    from evalflow.stats.paired import cases_needed

    if value is None:
        return GateRow(*series, None, None, None, None)
    condition = gate.condition
    if gate.point or ends is None or condition.operator == "==":
        return GateRow(*series, value, None, None, against_limit(condition, value, value))
    low, high = ends
    if low is None or high is None:
        return GateRow(*series, value, None, None, None)
    passed = against_limit(condition, low, high)
    needed = cases_needed(value, low, high, condition.limit, n) if passed is None else None
    return GateRow(*series, value, low, high, passed, needed)
