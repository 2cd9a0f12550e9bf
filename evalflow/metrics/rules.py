"""Score rules: how the steps' replies become one number in 0..1. Pure functions.

Every rule is an expectation. Each row has a distribution over what its field could be: the judge's own where the
metric is weighted, else all the mass on what was replied, and then the expectation is the plain share or mean.
A rule that has nothing to divide by is undefined; it never becomes 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalflow.frozen import record
from evalflow.metrics.replies import Observed, rows_at
from evalflow.metrics.returns import BoolType, NumberType
from evalflow.metrics.rule_config import (
    AveragePrecisionRule,
    FScoreRule,
    MapRule,
    MeanRule,
    MinRule,
    Rule,
    ShareRule,
    ValueRule,
)
from evalflow.metrics.rule_config import field_type as declared_type
from evalflow.records import Distribution


@record()
class Result:
    """What a rule gives.

    Attributes:
        score: In 0..1, or None where undefined.
        value: The same on the scale that the judge answered on.
        undefined: Why there is no score.
        weighted: Whether the judge's probabilities went into it.
    """

    score: float | None
    value: Any = None
    undefined: str | None = None
    weighted: bool = False


def evaluate(rule: Rule, seen: Mapping[str, Observed], weighted: bool) -> Result:
    """Apply a rule to what was replied.

    Args:
        rule: A rule that `rule_problems` found nothing wrong with.
        seen: What each step replied, by step id.
        weighted: Take expectations over the judge's probabilities where it gave them for every row concerned.
    """
    match rule:
        case ShareRule():
            return _share(rule, seen, weighted)
        case AveragePrecisionRule():
            return _average_precision(rule, seen)
        case MeanRule():
            return _mean(rule, seen, weighted)
        case ValueRule():
            return _value(rule, seen, weighted)
        case MapRule():
            return _map(rule, seen, weighted)
        case FScoreRule():
            return _f_score(rule, seen, weighted)
        case MinRule():
            return _min(rule, seen, weighted)


def normalise(declared: Any, value: Any) -> float:
    """A boolean or bounded number taken to 0..1: true is 1, false is 0, `min` is 0 and `max` is 1."""
    if isinstance(declared, BoolType):
        return 1.0 if value else 0.0
    assert isinstance(declared, NumberType)
    assert declared.min is not None
    assert declared.max is not None
    return (value - declared.min) / (declared.max - declared.min)


def hit_chances(rule: ShareRule, seen: Mapping[str, Observed]) -> list[float] | None:
    """How likely each item of a share counts by the judge's probabilities; None where they are not known for all."""
    listed = rows_at(rule.of, seen)
    spread, used = _spread(listed.rows, rule.field, listed.probabilities, weighted=True)
    return [_mass(chances, rule.hits) for chances in spread] if used and spread else None


def _share(rule: ShareRule, seen: Mapping[str, Observed], weighted: bool) -> Result:
    listed = rows_at(rule.of, seen)
    if not listed.rows:
        return Result(None, undefined=f"nothing to divide by: there are no {listed.noun}")
    spread, used = _spread(listed.rows, rule.field, listed.probabilities, weighted)
    hits, among = rule.hits, rule.among
    if among is not None:
        hits = [hit for hit in hits if hit in among]
    base = sum(_mass(chances, among) for chances in spread) if among is not None else float(len(spread))
    if base <= 0:
        words = ", ".join(str(value) for value in among or ())
        return Result(None, undefined=f"nothing to divide by: none of the {len(spread)} {listed.noun} is {words}")
    score = _clamped(sum(_mass(chances, hits) for chances in spread) / base)
    return Result(score, score, weighted=used)


def _average_precision(rule: AveragePrecisionRule, seen: Mapping[str, Observed]) -> Result:
    """Of the verdicts as replied: it is no sum over items, so that their probabilities give no expectation of it."""
    listed = rows_at(rule.of, seen)
    if not listed.rows:
        return Result(None, undefined=f"nothing to divide by: there are no {listed.noun}")
    score = average_precision([cell(row, rule.field) in rule.hits for row in listed.rows])
    return Result(score, score)


def average_precision(hits: Sequence[bool]) -> float:
    """The sum over the ranks k of a hit of P@k, divided by the number of hits; P@k is the share of hits in the first k.

    Each item of the ranking was judged, so that one without any hit has 0 and is not undefined: it is as bad as a
    ranking can be. (Manning, Raghavan and Schütze, 2008, section 8.4, over what was retrieved; the contextual
    precision of deepeval and the context precision of ragas.)

    Args:
        hits: Whether each item counts, the first rank first.
    """
    ranks = [rank for rank, hit in enumerate(hits, 1) if hit]
    return _clamped(sum(found / rank for found, rank in enumerate(ranks, 1)) / len(ranks)) if ranks else 0.0


def _mean(rule: MeanRule, seen: Mapping[str, Observed], weighted: bool) -> Result:
    listed = rows_at(rule.of, seen)
    if not listed.rows:
        return Result(None, undefined=f"nothing to divide by: there are no {listed.noun}")
    spread, used = _spread(listed.rows, rule.field, listed.probabilities, weighted)
    declared = declared_type(rule, {name: one.shape for name, one in seen.items()})
    native = sum(_expected(chances, float) for chances in spread) / len(spread)
    score = sum(_expected(chances, lambda v: normalise(declared, v)) for chances in spread) / len(spread)
    return Result(_clamped(score), native, weighted=used)


def _value(rule: ValueRule, seen: Mapping[str, Observed], weighted: bool) -> Result:
    observed = seen[rule.of]
    (chances,), used = _spread([observed.reply], rule.field, observed.probabilities, weighted)
    declared = observed.shape.fields[rule.field]
    score = _clamped(_expected(chances, lambda v: normalise(declared, v)))
    native = _expected(chances, float) if used else observed.reply[rule.field]
    return Result(score, native, weighted=used)


def _map(rule: MapRule, seen: Mapping[str, Observed], weighted: bool) -> Result:
    observed = seen[rule.of]
    (chances,), used = _spread([observed.reply], rule.field, observed.probabilities, weighted)
    score = _clamped(_expected(chances, lambda label: rule.values[label]))
    return Result(score, observed.reply[rule.field], weighted=used)


def _f_score(rule: FScoreRule, seen: Mapping[str, Observed], weighted: bool) -> Result:
    precision, recall = evaluate(rule.precision, seen, weighted), evaluate(rule.recall, seen, weighted)
    for name, part in (("precision", precision), ("recall", recall)):
        if part.score is None:
            return Result(None, undefined=f"{name} is undefined: {part.undefined}")
    assert precision.score is not None
    assert recall.score is not None
    score = f_beta(precision.score, recall.score, rule.beta)
    return Result(score, score, weighted=precision.weighted or recall.weighted)


def _min(rule: MinRule, seen: Mapping[str, Observed], weighted: bool) -> Result:
    parts = {name: evaluate(part, seen, weighted) for name, part in rule.parts.items()}
    for name, part in parts.items():
        if part.score is None:
            return Result(None, undefined=f"{name} is undefined: {part.undefined}")
    scores = {name: part.score for name, part in parts.items() if part.score is not None}
    return Result(min(scores.values()), scores, weighted=any(part.weighted for part in parts.values()))


def f_beta(precision: float, recall: float, beta: float = 1.0) -> float:
    """The weighted harmonic mean (1 + b²) P R / (b² P + R); 0 where one is 0 (van Rijsbergen, 1979).

    Args:
        precision: In 0..1.
        recall: In 0..1.
        beta: How many times as much recall counts as precision.
    """
    if precision == 0 or recall == 0:
        return 0.0
    return _clamped((1 + beta**2) * precision * recall / (beta**2 * precision + recall))


def _spread(
    rows: Sequence[Any], field: str | None, probabilities: Sequence[Distribution] | None, weighted: bool
) -> tuple[list[Mapping[Any, float]], bool]:
    """Each row's distribution, and whether they are the judge's own.

    The judge's are used for all rows or for none: a mixture would be neither an expectation nor what was replied.
    """
    if weighted and probabilities is not None and field is not None:
        own = [distribution.get(field) for distribution in probabilities]
        if len(own) == len(rows) and all(chances and sum(chances.values()) > 0 for chances in own):
            return [_normalised(chances) for chances in own if chances], True
    return [{cell(row, field): 1.0} for row in rows], False


def cell(row: Any, field: str | None) -> Any:
    """The field of a row, or the row itself where rows are plain values."""
    return row if field is None else row[field]


def _normalised(chances: Mapping[Any, float]) -> Mapping[Any, float]:
    total = sum(chances.values())
    return {value: chance / total for value, chance in chances.items()}


def _mass(chances: Mapping[Any, float], values: Sequence[Any]) -> float:
    return sum(chance for value, chance in chances.items() if value in values)


def _expected(chances: Mapping[Any, float], number: Callable[[Any], float]) -> float:
    return sum(chance * number(value) for value, chance in chances.items())


def _clamped(score: float) -> float:
    """In 0..1 despite the last bit of a float."""
    return min(1.0, max(0.0, score))
