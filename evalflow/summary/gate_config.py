"""Gates as YAML has them, checked against the metrics of the run before anything is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from evalflow.config.schema import GateValue, NotWorse
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.summary.figures import statistics
from evalflow.summary.gates import BOUNDS, COLUMNS, ON_SCALE, SHARES, Condition, Gate, parse_condition

if TYPE_CHECKING:
    from evalflow.protocols import Measured

_TAG = "tag:"
_POINT = "point"
_MAX_UNDEFINED = "max_undefined_rate"
_SETTINGS = (_POINT, _MAX_UNDEFINED)
"""Keys beside the conditions, which say how these are held."""
_COMPARED = ("mean", "pass_rate")
"""The columns that are compared with a baseline, as are all figures."""


def parse_gates(
    gates: Mapping[str, Mapping[str, GateValue]] | None, metrics: Mapping[str, Measured], baseline: str | None = None
) -> list[Gate]:
    """All gates of a run: those in the metrics' own files, and those of the run, which hold where both name one.

    Args:
        gates: The run's, by what they are about (METRIC, METRIC@TAG or tag:TAG) and statistic. `point: true` among
            them lets the estimates decide; `max_undefined_rate` is the share of undefined scores above which they
            are undecided.
        metrics: The metrics by name.
        baseline: The run that `not_worse_by` compares with.

    Raises:
        UserError: A condition, a metric or a statistic is unknown, a condition compares with what the statistic can
            never be, or there is no baseline to compare with; holds every such problem.
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
        _check_statistic(metric, statistic, where, metrics)
    if isinstance(value, NotWorse):
        _check_baseline(statistic, baseline, where)
        return Gate(name, statistic, Condition(">=", -value.not_worse_by), tag, point, baseline=True)
    if isinstance(value, bool | int | float):
        raise UserError(Problem(f"{value} is no condition", where, 'write a comparison and a number: ">= 0.8"'))
    condition = parse_condition(value, where)
    _check_limit(condition, statistic, where, metrics.get(name or ""), point=point)
    return Gate(name, statistic, condition, tag, point)


def _subject(about: str, metrics: Mapping[str, Measured]) -> tuple[str | None, str | None]:
    """The metric (None for all) and the tag that a gate is about."""
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


def _check_statistic(name: str, statistic: str, where: str, metrics: Mapping[str, Measured]) -> None:
    if not _has(metrics[name], statistic):
        what = f"metric {name!r} has no statistic {statistic!r}"
        raise UserError(Problem(what, where, did_you_mean(statistic, _statistics(metrics[name]))))


def _check_setting(key: str, value: GateValue, conditions: Mapping[str, GateValue], where: str) -> None:
    if key == _POINT and not isinstance(value, bool):
        raise UserError(Problem(f"{value!r} is neither true nor false", where, "true: the estimate decides"))
    if key == _MAX_UNDEFINED and not (isinstance(value, float) and 0 <= value <= 1):
        raise UserError(Problem(f"{value!r} is no share of 0..1", where, "10 per cent are 0.1"))
    if not conditions.keys() - set(_SETTINGS):
        raise UserError(Problem("there is no condition beside it", where, 'such as {mean: ">= 0.8", point: true}'))


def _check_baseline(statistic: str, baseline: str | None, where: str) -> None:
    if statistic in COLUMNS and statistic not in _COMPARED:
        hint = "mean, pass_rate and the figures can"
        raise UserError(Problem(f"{statistic} cannot be held against a baseline", where, hint))
    if baseline is None:
        hint = "name a run's folder: baseline=outputs/runs/..."
        raise UserError(Problem("there is no baseline to compare with", where, hint))


def _check_limit(condition: Condition, statistic: str, where: str, metric: Measured | None, *, point: bool) -> None:
    """Refuse a limit outside 0..1 for what lies there (shares, figures, a bounded metric), and one at its very end."""
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
