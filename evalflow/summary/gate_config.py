"""Reads gates from a run's configuration and validates them before anything is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from evalflow.config.schema import GateValue, NotWorse, Repeats
from evalflow.errors import Meant, Problem, UserError, unknown_name
from evalflow.protocols import Measured
from evalflow.records import CASES, FigureSpec
from evalflow.summary.figures import statistics
from evalflow.summary.gates import BOUNDS, COLUMNS, OF_CASES, OF_REPEATS, ON_SCALE, SHARES, Gate, Looks, parse_condition
from evalflow.summary.verdicts import Condition

_TAG = "tag:"
_POINT = "point"
_MAX_UNDEFINED = "max_undefined_rate"
_LOOKS = "looks"
_JUDGE_ALONE = "judge_alone"
_ELSEWHERE = {"average": "mean", "avg": "mean", "min": "lowest", "score": "mean", "value": "mean"}
"""Our statistics by their names in other tools."""
_SETTINGS = (_POINT, _JUDGE_ALONE, _MAX_UNDEFINED, _LOOKS)
"""Keys that are not conditions, but options for evaluating them."""
_COMPARED = ("mean", "pass_rate")  # the columns that can be compared with a baseline; so can all figures
_TRUE = {_POINT: "the estimate decides", _JUDGE_ALONE: "people's labels correct nothing"}
PLANNED_LOOKS = (2, 20)  # the fewest and the most planned looks


def gate_keys() -> list[str]:
    """The names that a gate may use without a class or a rank: columns, figures of all kinds, and its settings."""
    specs = [
        FigureSpec("pairwise"),
        *(FigureSpec("classification", positive, confidence=True) for positive in (None, 1)),
    ]
    return list(dict.fromkeys([*COLUMNS, *(name for spec in specs for name in statistics(spec)), *_SETTINGS]))


def parse_gates(
    gates: Mapping[str, Mapping[str, GateValue]] | None,
    metrics: Mapping[str, Measured],
    baseline: str | None = None,
    repeats: Repeats | None = None,
) -> list[Gate]:
    """All gates of a run: those in the metrics' files and those of the run, which take precedence.

    Gates are by subject (METRIC, METRIC@TAG or tag:TAG) and statistic. With `point: true` the estimate decides instead
    of its interval; with `judge_alone: true` the judge's value instead of the one corrected by labels. Above the share
    `max_undefined_rate` of undefined scores a gate is undecided. With `looks` (anytime, or a number of planned looks)
    its interval stays valid although the run is looked at before its end, and labels correct nothing. UserError lists
    every unknown name, limit out of range and missing baseline, and statistics of repeats in a run without `repeats`.
    """
    merged = {name: dict(metric.config.gate or {}) for name, metric in metrics.items()}
    for name, conditions in (gates or {}).items():
        merged.setdefault(name, {}).update(conditions)
    parsed: list[Gate] = []
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
                if statistic in OF_REPEATS and (repeats is None or repeats.target == repeats.judge == 1):
                    what = f"{statistic} needs repeats, but each case of this run is answered and judged once"
                    raise UserError(Problem(what, where, "ask each case several times, for example repeats.target=3"))
                gate = _gate(about, statistic, value, where, metrics, baseline, point=point)
                if _LOOKS in conditions:
                    _check_looks(gate, where, metrics)
                    gate = replace(gate, looks=_looks_of(conditions[_LOOKS]))
                gate = replace(gate, judge_alone=conditions.get(_JUDGE_ALONE) is True)
                parsed.append(replace(gate, max_undefined_rate=most) if isinstance(most, float) else gate)
            except UserError as error:
                problems += error.problems
    if problems:
        raise UserError(problems)
    return parsed


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
            problem = unknown_name(what, where, statistic, _statistics(metrics[metric]), before="gate=")
            if own := _ELSEWHERE.get(statistic):
                meant = Meant((f"gate={statistic}",), (f"gate={own}",))
                problem = replace(problem, hint=f"what other tools call so is {own!r}", meant=meant)
            raise UserError(problem)
    if isinstance(value, NotWorse):
        _check_baseline(statistic, baseline, where)
        return Gate(name, statistic, Condition(">=", -value.not_worse_by), tag, point, baseline=True)
    if isinstance(value, bool | int | float):
        raise UserError(Problem(f"{value} is not a condition", where, 'write a comparison and a number: ">= 0.8"'))
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
    """The metrics that the gate is about, if their names and statistics are known before the run."""
    if name is None:
        if not any(_has(metric, statistic) for metric in metrics.values()):
            known = {known for metric in metrics.values() for known in _statistics(metric)}
            what = f"no metric of this run has a statistic {statistic!r}"
            raise UserError(unknown_name(what, where, statistic, known, before="gate="))
    elif name == CASES:
        if statistic not in OF_CASES:
            what = f"the cases as a whole have no statistic {statistic!r}: they only pass or fail"
            raise UserError(Problem(what, where, 'gate the share that passes everything: cases: {pass_rate: ">= 0.9"}'))
    elif name in metrics:
        yield name
    else:
        what = f"no metric {name!r} in this run"
        raise UserError(unknown_name(what, where, name, [*metrics, CASES], before="gate="))


def _statistics(metric: Measured) -> list[str]:
    return [*COLUMNS, *(statistics(metric.figures) if metric.figures else [])]


def _has(metric: Measured, statistic: str) -> bool:
    spec = metric.figures
    classes = spec is not None and spec.kind == "classification" and spec.positive is None
    return statistic in _statistics(metric) or bool(
        classes and re.match(r"(precision|recall|f[12])\[.+\]\Z", statistic)
    )


def _check_setting(key: str, value: GateValue, conditions: Mapping[str, GateValue], where: str) -> None:
    if key in _TRUE and not isinstance(value, bool):
        raise UserError(Problem(f"{value!r} is not true or false", where, f"true: {_TRUE[key]}"))
    if key == _MAX_UNDEFINED and not (isinstance(value, float) and 0 <= value <= 1):
        raise UserError(Problem(f"{value!r} is not a share in 0..1", where, "10 per cent is 0.1"))
    if key == _LOOKS and _looks_of(value) is None:
        fewest, most = PLANNED_LOOKS
        hint = f"write anytime, or the number of planned looks, {fewest} to {most}"
        given = f"{value:g}" if isinstance(value, float) else repr(value)
        raise UserError(Problem(f"{given} is not a number of looks", where, hint))
    if not conditions.keys() - set(_SETTINGS):
        raise UserError(Problem("it needs a condition", where, 'such as {mean: ">= 0.8", point: true}'))


def _check_baseline(statistic: str, baseline: str | None, where: str) -> None:
    if statistic in COLUMNS and statistic not in _COMPARED:
        hint = "mean, pass_rate and the figures can"
        raise UserError(Problem(f"{statistic} cannot be compared with a baseline", where, hint))
    if baseline is None:
        hint = "name a run's folder: baseline=outputs/runs/..."
        raise UserError(Problem("there is no baseline to compare with", where, hint))


def _check_limit(condition: Condition, statistic: str, where: str, metric: Measured | None, *, point: bool) -> None:
    """Refuse limits that no value or interval can meet, for statistics in 0..1 (shares, figures, bounded metrics)."""
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
        what = f"no number of cases can show that {statistic} is {condition}: its interval never shrinks to a point"
        raise UserError(Problem(what, where, f'let the estimate decide: {{{statistic}: "{condition}", point: true}}'))


def _looks_of(value: GateValue) -> Looks | None:
    if value == "anytime":
        return "anytime"
    fewest, most = PLANNED_LOOKS
    whole = isinstance(value, float) and value.is_integer() and fewest <= value <= most
    return int(value) if whole and isinstance(value, float) else None


def _check_looks(gate: Gate, where: str, metrics: Mapping[str, Measured]) -> None:
    """Refuse looks at a statistic whose interval does not allow them: it must be a mean of bounded values."""
    what, hint = "", ""
    if gate.metric is None:
        what, hint = "looks need one metric, but this gate is about all", "name the metric: METRIC@TAG"
    elif gate.metric == CASES:
        what, hint = "whether cases pass everything is only known at the end", "look at one metric: METRIC"
    elif gate.statistic not in _COMPARED:
        what, hint = f"{gate.statistic} cannot be looked at before the end", "mean and pass_rate can"
    elif gate.baseline:
        what = "a difference from the baseline cannot be looked at before the end"
        hint = "remove looks from this gate; `evalflow race` compares two configurations and stops when it is decided"
    elif gate.point:
        what, hint = "looks use an interval, but with point the estimate decides", "remove one of them"
    elif gate.condition.operator == "==":
        what, hint = "no interval can decide ==", 'write a limit: ">= 0.8"'
    elif gate.statistic == "mean" and not metrics[gate.metric].bounded:
        what, hint = (f"the scores of {gate.metric} are not in 0..1", "give it a threshold and look at its pass_rate")
    if what:
        raise UserError(Problem(what, where, hint))
