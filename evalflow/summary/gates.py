"""Gates: conditions on summary rows that decide a run's exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from evalflow.config.schema import GateValue, NotWorse
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.lazy import pl
from evalflow.records import passes
from evalflow.summary.figures import statistics

if TYPE_CHECKING:
    from evalflow.protocols import Measured
    from evalflow.summary.compare import ComparisonRow


Looks = Literal["anytime"] | int
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
_BY_LABELS = {
    "mean": ("corrected", "estimate"), "ci_low": ("corrected", "ci_low"), "ci_high": ("corrected", "ci_high"),
    "pass_rate": ("pass_rate", "estimate"), "pass_rate_low": ("pass_rate", "ci_low"),
    "pass_rate_high": ("pass_rate", "ci_high"),
}  # fmt: skip
"""Where a calibration's row has the statistics that people's labels correct."""
SHARES = ("pass_rate", "pass_rate_low", "pass_rate_high")
MAX_UNDEFINED_RATE = 0.1
_WITH_ALL = (
    "worst", "best", "n", "n_scored", "n_undefined", "n_error", "n_skipped", "cost_usd", "latency_p50", "latency_p95",
)  # fmt: skip
"""Columns computed from all scores, undefined ones included."""
ON_SCALE = ("mean", "median", "worst", "best", "ci_low", "ci_high")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, such as `>= 0.8`."""

    operator: Operator
    limit: float

    def __str__(self) -> str:
        return f"{self.operator} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Whether the value meets the condition; values that differ only by rounding count as equal."""
        reaches, stays = passes(value, self.limit), passes(value, self.limit, higher_is_better=False)
        found = {">=": reaches, "<=": stays, ">": not stays, "<": not reaches, "==": reaches and stays}
        return bool(found[self.operator])

    def decided_by(self, low: float, high: float) -> bool | None:
        """Whether all values of an interval meet the condition (True), none does (False), or only some (None)."""
        outcomes = {self.holds(low), self.holds(high)}
        return outcomes.pop() if len(outcomes) == 1 else None


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition that every row of a metric (None: of all that have the statistic) must meet.

    Attributes:
        condition: For a difference to the baseline `>= -margin`, with higher as better.
        tag: Only cases with this tag, or one below it.
        point: Whether the estimate decides instead of its interval.
        looks: How often the run may be looked at before its end: any time, or a number of planned looks. Intervals that
            allow for it decide. None: the run is looked at once, at its end.
        judge_alone: Whether the judge's own value decides, although people's labels correct it.
        max_undefined_rate: The share of undefined scores, among those that are not skipped, above which the gate is
            undecided.
    """

    metric: str | None
    statistic: str
    condition: Condition
    tag: str | None = None
    point: bool = False
    judge_alone: bool = False
    baseline: bool = False
    looks: Looks | None = None
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
    """A gate's result for one row of the summary; `passed` is None if the data cannot decide.

    Attributes:
        value, low, high: The estimate and its 95 % interval; None if there is none, or if it is not used.
        cases_needed: Number of cases that would decide, at the same estimate; None if decided or unknown. For a value
            corrected by labels, number of labels of these answers.
        n, n_scored, n_undefined, n_skipped: This run's scores by state; 0 for statistics computed from all scores.
        compared: Number of cases compared with the baseline; None for other gates.
        undefined_in: The run with too many undefined scores; empty if none.
        looked: The method of an interval that allows looks, and its number of cases; empty for other gates.
        labelled: Number of labelled answers, or cases of both runs, that the value is about; None if nobody labelled.
        judged: The judge's own result, if labels correct it.
        uncorrected: Why labels correct nothing; empty if they do, or if there are none.
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
    looked: str = ""
    labelled: int | None = None
    judged: GateRow | None = None
    uncorrected: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """The last look at a gate's statistic: its value and interval then, the decision so far, and the method in words.

    Value and interval are None if there was no look, or nothing to look at.
    """

    value: float | None
    low: float | None
    high: float | None
    passed: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate's outcome: failed if any row fails, else undecided (None) if any row is, or if there are no rows."""

    gate: Gate
    rows: tuple[GateRow, ...]

    @property
    def passed(self) -> bool | None:
        """True, False, or None if the data cannot decide."""
        outcomes = {row.passed for row in self.rows}
        if False in outcomes:
            return False
        return None if None in outcomes or not outcomes else True


def parse_condition(text: str, where: str) -> Condition:
    """Read a condition: one of >=, <=, >, <, == and a number; UserError for anything else."""
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
    looked: Mapping[tuple[Gate, str], Looked] | None = None,
    calibration: Sequence[Mapping[str, Any]] = (),
) -> list[GateResult]:
    """Evaluate gates on the summary's rows.

    `differences` are those of this run to the baseline, by tag too; `looked` are the intervals of gates with looks, by
    gate and dataset. `calibration` has the rows of calibration.json: means and pass rates that it corrects decide in
    the judge's place.
    """
    sides = (summary, summary if baseline is None else baseline)
    corrected = {_key(row): row for one in calibration for row in (one, *one["tags"])}

    def rows(gate: Gate) -> Iterator[GateRow]:
        if gate.baseline:
            return _of_baseline(gate, differences, sides)
        return _rows(gate, summary, looked or {}, corrected)

    return [GateResult(gate, tuple(rows(gate))) for gate in gates]


_Key = tuple[Any, ...]
_OFF = "judge_alone: true"


def _key(row: Mapping[str, Any], *, tag: bool = True) -> _Key:
    return *(row[name] for name in ("dataset", "target", "metric", "judge")), row["tag"] if tag else None


def _rows(
    gate: Gate,
    summary: pl.DataFrame,
    looked: Mapping[tuple[Gate, str], Looked],
    corrected: Mapping[_Key, Mapping[str, Any]],
) -> Iterator[GateRow]:
    of_mean = gate.statistic in COLUMNS
    statistic = "mean" if of_mean else gate.statistic
    value = "value" if gate.statistic == "mean" or not of_mean else gate.statistic
    low, high = BOUNDS.get(gate.statistic, (None, None) if of_mean else _CI)
    wanted = (pl.col("statistic") == statistic) & pl.col("tag").eq_missing(pl.lit(gate.tag, pl.String))
    if gate.metric is not None:
        wanted &= pl.col("metric") == gate.metric
    means = summary.filter(pl.col("tag").is_null() & (pl.col("statistic") == "mean"))
    sizes = {_key(row): row["n"] for row in means.iter_rows(named=True)}
    for row in summary.filter(wanted).iter_rows(named=True):
        if gate.metric is None and of_mean and row[value] is None and row["n_scored"]:
            continue  # a gate on a tag's pass rate is not about metrics that give no pass or fail
        ends = (row[low], row[high]) if low and high else None
        if gate.looks is None:
            outcome = _evaluate(gate, row, row[value], ends, row["n_scored"], row["judge"])
        else:
            look = looked[gate, row["dataset"]]
            key = (row["dataset"], row["target"], row["metric"], row["judge"])
            outcome = GateRow(*key, look.value, look.low, look.high, look.passed, looked=look.text)
        if gate.statistic in _BY_LABELS and _key(row, tag=False) in corrected:
            of_all = row["n"] == sizes[_key(row, tag=False)]  # a tag of all answers has no row of its own
            outcome = _by_labels(gate, row, outcome, corrected.get(_key(row, tag=not of_all)))
        yield outcome if gate.statistic in _WITH_ALL else _counted(gate, outcome, row)


def _by_labels(gate: Gate, row: Mapping[str, Any], judged: GateRow, found: Mapping[str, Any] | None) -> GateRow:
    """The row as people's labels decide it; as the judge does, with the reason, if they cannot."""
    from evalflow.stats.prediction import Spread

    part, end = _BY_LABELS[gate.statistic]
    means = found and found[part]
    if not found or not means:
        return replace(judged, labelled=0)
    n, why = found["n_labels"], "" if means[end] is not None else means["method"].removeprefix("none: ")
    if found["at_random"] is False:
        why = "the labelled answers can hardly have been drawn at random"
    if gate.judge_alone or gate.looks:
        why = _OFF if gate.judge_alone else f"looks: {gate.looks}"
    if why:
        return replace(judged, labelled=n, uncorrected=why)
    ends = (means["ci_low"], means["ci_high"]) if end == "estimate" else None
    outcome = _evaluate(gate, row, means[end], ends, n, judged.judge)
    needed = None
    if outcome.passed is None and means["spread"] is not None and outcome.value is not None:
        gap = abs(outcome.value - gate.condition.limit)
        needed = Spread(**means["spread"]).labels_for(2 * gap, n + found["n_unlabelled"])
    return replace(outcome, cases_needed=needed and max(needed, n + 1), labelled=n, judged=judged)


def _counted(
    gate: Gate, outcome: GateRow, row: Mapping[str, Any], baseline: Mapping[str, Any] | None = None
) -> GateRow:
    counts = {name: row[name] for name in ("n", "n_scored", "n_undefined", "n_skipped")}
    if _is_undefined(gate, row):
        return replace(outcome, passed=None, cases_needed=None, undefined_in="this run", **counts)
    if baseline is not None and _is_undefined(gate, baseline):
        return replace(outcome, passed=None, cases_needed=None, undefined_in="the baseline", **counts)
    return replace(outcome, **counts)


def _is_undefined(gate: Gate, row: Mapping[str, Any]) -> bool:
    expected = row["n"] - row["n_skipped"]
    if not expected:
        return False
    return not passes(row["n_undefined"] / expected, gate.max_undefined_rate, higher_is_better=False)


def _of_baseline(
    gate: Gate, differences: Sequence[ComparisonRow], sides: tuple[pl.DataFrame, pl.DataFrame]
) -> Iterator[GateRow]:
    from evalflow.stats.prediction import MIN_LABELS

    for row in differences:
        is_of_tag = gate.tag == row.tag or gate.tag in row.also_tags
        if not is_of_tag or gate.metric not in (None, row.metric):
            continue
        if gate.statistic not in (row.statistic, *row.also):
            continue
        judge = row if row.judged is None else replace(row, found=row.judged)
        outcome = judged = _difference(gate, judge)
        if row.judged is not None and not gate.judge_alone:
            outcome = replace(_difference(gate, row), compared=judge.found.n, judged=judged)
        if row.labelled:
            few = f"fewer than {MIN_LABELS} labels" if row.labelled < MIN_LABELS else "labels in one cluster only"
            why = "" if outcome.judged else _OFF if row.judged else few if row.found.difference else ""
            outcome = replace(outcome, labelled=row.labelled, uncorrected=why)
        this, baseline = (_mean_of(gate, row, side) for side in sides)
        yield outcome if this is None else _counted(gate, outcome, this, baseline)


def _difference(gate: Gate, row: ComparisonRow) -> GateRow:
    value, low, high = row.oriented
    key = {"dataset": row.dataset, "target": "", "metric": row.metric}
    outcome = _evaluate(gate, key, value, (low, high), row.found.n, row.judge)
    needed = None if outcome.passed is not None else row.cases_to_decide(-gate.condition.limit)
    return replace(outcome, compared=row.found.n, cases_needed=needed)


def _mean_of(gate: Gate, row: ComparisonRow, summary: pl.DataFrame) -> Mapping[str, Any] | None:
    """The summary's row with the counts of the compared scores."""
    own = summary.filter(
        (pl.col("dataset") == row.dataset) & (pl.col("metric") == row.metric) & (pl.col("statistic") == "mean"),
        pl.col("tag").eq_missing(pl.lit(gate.tag, pl.String)),
    )
    return own.row(0, named=True) if own.height else None


def _evaluate(
    gate: Gate,
    row: Mapping[str, Any],
    value: float | None,
    ends: tuple[float | None, float | None] | None,
    n: int,
    judge: str | None,
) -> GateRow:
    from evalflow.stats.paired import cases_needed

    key = (row["dataset"], row["target"], row["metric"], judge)
    if value is None:
        return GateRow(*key, None, None, None, None)
    condition = gate.condition
    if gate.point or ends is None or condition.operator == "==":
        return GateRow(*key, value, None, None, condition.holds(value))
    low, high = ends
    if low is None or high is None:
        return GateRow(*key, value, None, None, None)
    passed = condition.decided_by(low, high)
    needed = cases_needed(value, low, high, condition.limit, n) if passed is None else None
    return GateRow(*key, value, low, high, passed, needed)


_TAG = "tag:"
_POINT = "point"
_MAX_UNDEFINED = "max_undefined_rate"
_LOOKS = "looks"
_JUDGE_ALONE = "judge_alone"
_SETTINGS = (_POINT, _JUDGE_ALONE, _MAX_UNDEFINED, _LOOKS)
"""Keys that are not conditions, but options for evaluating them."""
_COMPARED = ("mean", "pass_rate")
"""The columns that can be compared with a baseline; all figures can be too."""


def parse_gates(
    gates: Mapping[str, Mapping[str, GateValue]] | None, metrics: Mapping[str, Measured], baseline: str | None = None
) -> list[Gate]:
    """All gates of a run: those in the metrics' files and those of the run, which take precedence.

    Gates are by subject (METRIC, METRIC@TAG or tag:TAG) and statistic. With `point: true` the estimate decides instead
    of its interval, with `judge_alone: true` the judge's value instead of the one that labels correct. Above the share
    `max_undefined_rate` of undefined scores a gate is undecided. With `looks: anytime` or a number of planned looks,
    its interval holds however often the run is looked at before its end, and labels correct nothing.

    Raises:
        UserError: A condition, metric or statistic is unknown, a limit is outside the statistic's range, or there is no
            baseline to compare with. The error lists all problems.
    """
    merged = {name: dict(metric.config.gate or {}) for name, metric in metrics.items()}
    for name, conditions in (gates or {}).items():
        merged.setdefault(name, {}).update(conditions)
    found: list[Gate] = []
    problems: list[Problem] = []
    for about, conditions in merged.items():
        point = conditions.get(_POINT) is True
        most = conditions.get(_MAX_UNDEFINED)
        for statistic, value in conditions.items():
            where = f"gate.{about}.{statistic}"
            try:
                if statistic in _SETTINGS:
                    _check_setting(statistic, value, conditions, where)
                    continue
                gate = _gate(about, statistic, value, where, metrics, baseline, point=point)
                if _LOOKS in conditions:
                    _check_looks(gate, where, metrics)
                    gate = replace(gate, looks=_looks_of(conditions[_LOOKS]))
                gate = replace(gate, judge_alone=conditions.get(_JUDGE_ALONE) is True)
                found.append(replace(gate, max_undefined_rate=most) if isinstance(most, float) else gate)
            except UserError as error:
                problems += error.problems
    if problems:
        raise UserError(problems)
    return found


def _gate(
    about: str,
    statistic: str,
    value: GateValue,
    where: str,
    metrics: Mapping[str, Measured],
    baseline: str | None,
    *,
    point: bool,
) -> Gate:
    name, tag = _subject(about, metrics)
    for metric in _concerned(name, statistic, where, metrics):
        if not _has(metrics[metric], statistic):
            what = f"metric {metric!r} has no statistic {statistic!r}"
            raise UserError(Problem(what, where, did_you_mean(statistic, _statistics(metrics[metric]))))
    if isinstance(value, NotWorse):
        _check_baseline(statistic, baseline, where)
        return Gate(name, statistic, Condition(">=", -value.not_worse_by), tag, point, baseline=True)
    if isinstance(value, bool | int | float):
        raise UserError(Problem(f"{value} is no condition", where, 'write a comparison and a number: ">= 0.8"'))
    condition = parse_condition(value, where)
    _check_limit(condition, statistic, where, metrics.get(name or ""), point=point)
    return Gate(name, statistic, condition, tag, point)


def _subject(about: str, metrics: Mapping[str, Measured]) -> tuple[str | None, str | None]:
    if about in metrics:
        return about, None
    if about.startswith(_TAG):
        return None, about.removeprefix(_TAG).strip()
    name, at, tag = about.partition("@")
    return name, tag.strip() if at else None


def _concerned(name: str | None, statistic: str, where: str, metrics: Mapping[str, Measured]) -> Iterator[str]:
    """The metrics whose names and statistics are known before the run."""
    if name is None:
        if not any(_has(metric, statistic) for metric in metrics.values()):
            known = {known for metric in metrics.values() for known in _statistics(metric)}
            what = f"no metric of this run has a statistic {statistic!r}"
            raise UserError(Problem(what, where, did_you_mean(statistic, known)))
    elif name in metrics:
        yield name
    else:
        raise UserError(Problem(f"no metric {name!r} in this run", where, did_you_mean(name, metrics)))


def _statistics(metric: Measured) -> list[str]:
    return [*COLUMNS, *(statistics(metric.figures) if metric.figures else [])]


def _has(metric: Measured, statistic: str) -> bool:
    spec = metric.figures
    classes = spec is not None and spec.kind == "classification" and spec.positive is None
    return statistic in _statistics(metric) or bool(
        classes and re.match(r"(precision|recall|f[12])\[.+\]\Z", statistic)
    )


_TRUE = {_POINT: "the estimate decides", _JUDGE_ALONE: "people's labels correct nothing"}


def _check_setting(key: str, value: GateValue, conditions: Mapping[str, GateValue], where: str) -> None:
    if key in _TRUE and not isinstance(value, bool):
        raise UserError(Problem(f"{value!r} is neither true nor false", where, f"true: {_TRUE[key]}"))
    if key == _MAX_UNDEFINED and not (isinstance(value, float) and 0 <= value <= 1):
        raise UserError(Problem(f"{value!r} is no share of 0..1", where, "10 per cent are 0.1"))
    if key == _LOOKS and _looks_of(value) is None:
        fewest, most = PLANNED_LOOKS
        hint = f"anytime, or how many looks are planned, {fewest} to {most}"
        given = f"{value:g}" if isinstance(value, float) else repr(value)
        raise UserError(Problem(f"{given} is no number of looks", where, hint))
    if not conditions.keys() - set(_SETTINGS):
        raise UserError(Problem("there is no condition beside it", where, 'such as {mean: ">= 0.8", point: true}'))


def _check_baseline(statistic: str, baseline: str | None, where: str) -> None:
    if statistic in COLUMNS and statistic not in _COMPARED:
        hint = "mean, pass_rate and the figures can"
        raise UserError(Problem(f"{statistic} cannot be compared with a baseline", where, hint))
    if baseline is None:
        hint = "name a run's folder: baseline=outputs/runs/..."
        raise UserError(Problem("there is no baseline to compare with", where, hint))


def _check_limit(condition: Condition, statistic: str, where: str, metric: Measured | None, *, point: bool) -> None:
    """Refuse limits outside 0..1 for statistics in this range (shares, figures, bounded metrics), or at its ends."""
    figure = statistic not in COLUMNS
    within = statistic in SHARES or figure or (metric is not None and metric.bounded and statistic in ON_SCALE)
    if not within:
        return
    least = -1 if statistic == "mcc" else 0
    if not least <= condition.limit <= 1:
        hint = f"it lies in {least}..1; 80 per cent are 0.8"
        raise UserError(Problem(f"{statistic} is compared with {condition.limit:g}", where, hint))
    unreachable = {">=": 1.0, "<=": float(least)}.get(condition.operator) == condition.limit
    if unreachable and not point and (figure or statistic in BOUNDS):
        what = f"no number of cases shows that {statistic} is {condition}: its interval never shrinks to a point"
        raise UserError(Problem(what, where, f'let the estimate decide: {{{statistic}: "{condition}", point: true}}'))


PLANNED_LOOKS = (2, 20)
"""The fewest and the most planned looks."""


def _looks_of(value: GateValue) -> Looks | None:
    if value == "anytime":
        return "anytime"
    fewest, most = PLANNED_LOOKS
    whole = isinstance(value, float) and value.is_integer() and fewest <= value <= most
    return int(value) if whole and isinstance(value, float) else None


def _check_looks(gate: Gate, where: str, metrics: Mapping[str, Measured]) -> None:
    """Refuse looks at what has no interval that allows them: it needs a mean of values in a known range."""
    what, hint = "", ""
    if gate.metric is None:
        what, hint = "looks are at one metric, and this gate is about all", "name the metric: METRIC@TAG"
    elif gate.statistic not in _COMPARED:
        what, hint = f"{gate.statistic} cannot be looked at before the end", "mean and pass_rate can"
    elif gate.baseline:
        what = "a difference from the baseline cannot be looked at before the end"
        hint = "take looks out of this gate; `evalflow race` compares two configurations and stops when it is decided"
    elif gate.point:
        what, hint = "looks are about an interval, and with point the estimate decides", "take one of them out"
    elif gate.condition.operator == "==":
        what, hint = "no interval decides ==", 'write a limit: ">= 0.8"'
    elif gate.statistic == "mean" and not metrics[gate.metric].bounded:
        what, hint = (
            f"the scores of {gate.metric} are not in 0..1",
            "looks at its pass_rate can be had, with a threshold",
        )
    if what:
        raise UserError(Problem(what, where, hint))
