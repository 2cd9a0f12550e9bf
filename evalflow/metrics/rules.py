"""Score rules: from the replies of a metric's steps to a number from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from evalflow.config.schema import Strict, Word
from evalflow.errors import Problem, did_you_mean
from evalflow.frozen import record
from evalflow.metrics.returns import BoolType, LabelType, NumberType, Observed, RecordType, Shape, item_type, rows_at
from evalflow.records import Distribution


class HitRule(Strict):
    """A rule that some items count for, and others do not: those whose `field` equals `equals`, or is in `in`."""

    model_config = ConfigDict(populate_by_name=True)

    op: str
    of: str
    field: str | None = None
    equals: Any = None
    in_: list[Any] | None = Field(default=None, alias="in", min_length=1)

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if (self.equals is None) == (self.in_ is None):
            raise ValueError(f"{self.op} needs exactly one of `equals` and `in`")
        return self

    @property
    def hits(self) -> Sequence[Any]:
        """The values that count."""
        return self.in_ if self.in_ is not None else [self.equals]


class ShareRule(HitRule):
    """The share of items that count, among those whose `field` is in `among`."""

    op: Literal["share"]  # pyright: ignore[reportIncompatibleVariableOverride]
    among: list[Any] | None = Field(default=None, min_length=1)


class AveragePrecisionRule(HitRule):
    """How early in a ranking the items stand that count: the mean, over them, of the share of hits down to each."""

    op: Literal["average_precision"]  # pyright: ignore[reportIncompatibleVariableOverride]


class MeanRule(Strict):
    """The mean of a numeric or boolean `field` over items, taken to 0..1."""

    op: Literal["mean"]
    of: str
    field: str | None = None


class ValueRule(Strict):
    """One numeric or boolean `field` of a step's reply, taken to 0..1."""

    op: Literal["value"]
    of: str
    field: str


class MapRule(Strict):
    """One label `field` of a step's reply, through a number for each label."""

    op: Literal["map"]
    of: str
    field: str
    values: dict[Word, float]

    @field_validator("values")
    @classmethod
    def _in_range(cls, values: dict[str, float]) -> dict[str, float]:
        return unit_values(values)


class FScoreRule(Strict):
    """The F-score of two rules; `beta` is how many times as much recall counts as precision."""

    op: Literal["f_score"]
    precision: Rule
    recall: Rule
    beta: float = Field(default=1.0, gt=0, allow_inf_nan=False)


class MinRule(Strict):
    """The lowest of several rules, each under a name for the reason."""

    op: Literal["min"]
    parts: dict[Word, Rule] = Field(min_length=2)


Rule = Annotated[
    ShareRule | AveragePrecisionRule | MeanRule | ValueRule | MapRule | FScoreRule | MinRule, Field(discriminator="op")
]
FScoreRule.model_rebuild()
MinRule.model_rebuild()


def unit_values(values: dict[str, float]) -> dict[str, float]:
    """Refuse numbers for labels that are no scores."""
    outside = [f"{label}: {number:g}" for label, number in values.items() if not 0 <= number <= 1]
    if outside:
        raise ValueError(f"the number of each label must lie in 0..1, not {', '.join(outside)}")
    return values


def field_type(rule: HitRule | MeanRule, shapes: Mapping[str, Shape]) -> Any:
    """The declared type of what a rule over items looks at.

    Raises:
        ValueError: The rule names what is not there.
    """
    items = item_type(rule.of, shapes)
    if not isinstance(items, RecordType):
        if rule.field is not None:
            raise ValueError(f"the items of {rule.of!r} have no fields; leave `field` out")
        return items
    if rule.field is None:
        raise ValueError(f"`field` is required: which field of {rule.of!r}? {did_you_mean('', items.fields)}")
    if rule.field not in items.fields:
        raise ValueError(f"{rule.of!r} has no field {rule.field!r}; {did_you_mean(rule.field, items.fields)}")
    return items.fields[rule.field]


def rule_problems(rule: Rule, shapes: Mapping[str, Shape], where: str) -> Iterator[Problem]:
    """Everything about a rule that does not fit the steps it refers to.

    Args:
        rule: The rule.
        shapes: The declared steps.
        where: The rule's key path, for messages.
    """
    match rule:
        case FScoreRule():
            yield from rule_problems(rule.precision, shapes, f"{where}.precision")
            yield from rule_problems(rule.recall, shapes, f"{where}.recall")
        case MinRule():
            for name, part in rule.parts.items():
                yield from rule_problems(part, shapes, f"{where}.parts.{name}")
        case HitRule() | MeanRule():
            try:
                declared = field_type(rule, shapes)
            except ValueError as error:
                yield Problem(str(error), where)
                return
            if isinstance(rule, MeanRule):
                yield from _number_problems(declared, where)
            else:
                yield from _hit_problems(rule, declared, where)
        case ValueRule() | MapRule():
            yield from _single_problems(rule, shapes, where)


def _single_problems(rule: ValueRule | MapRule, shapes: Mapping[str, Shape], where: str) -> Iterator[Problem]:
    shape = shapes.get(rule.of)
    if shape is None:
        yield Problem(f"there is no step {rule.of!r}", f"{where}.of", did_you_mean(rule.of, shapes))
    elif shape.one_per is not None:
        yield Problem(
            f"the step {rule.of!r} replies once per item, and `{rule.op}` takes one reply",
            f"{where}.op",
            "use share or mean",
        )
    elif rule.field not in shape.fields:
        known = did_you_mean(rule.field, shape.fields)
        yield Problem(f"the step {rule.of!r} returns no field {rule.field!r}", f"{where}.field", known)
    elif isinstance(rule, ValueRule):
        yield from _number_problems(shape.fields[rule.field], where)
    else:
        yield from _map_problems(rule, shape.fields[rule.field], where)


def _number_problems(declared: Any, where: str) -> Iterator[Problem]:
    if isinstance(declared, BoolType):
        return
    if not isinstance(declared, NumberType):
        yield Problem(f"a number or bool is wanted, but the field is a {declared.type}", f"{where}.field")
    elif declared.min is None or declared.max is None:
        hint = "give the field both `min` and `max` in `returns`"
        yield Problem("the field has no bounds, so it cannot be taken to 0..1", f"{where}.field", hint)


def _map_problems(rule: MapRule, declared: Any, where: str) -> Iterator[Problem]:
    if not isinstance(declared, LabelType):
        yield Problem(f"a label is wanted, but {rule.field!r} is a {declared.type}", f"{where}.field")
        return
    for label in rule.values:
        if label not in declared.labels:
            yield Problem(f"unknown label {label!r}", f"{where}.values", did_you_mean(label, declared.labels))
    missing = [label for label in declared.labels if label not in rule.values]
    if missing:
        yield Problem(f"no number for {', '.join(missing)}", f"{where}.values", "every label needs its number")


def _hit_problems(rule: HitRule, declared: Any, where: str) -> Iterator[Problem]:
    among = rule.among if isinstance(rule, ShareRule) else None
    asked = [("equals" if rule.in_ is None else "in", value) for value in rule.hits]
    asked += [("among", value) for value in among or ()]
    for key, value in asked:
        fault = _misfit(declared, value)
        if fault:
            yield Problem(fault[0], f"{where}.{key}", fault[1])
    if among is not None and not any(hit in among for hit in rule.hits):
        yield Problem("what counts is not in `among`, so the share would always be 0", f"{where}.among")


def _misfit(declared: Any, value: Any) -> tuple[str, str] | None:
    """Why a field of that type can never have that value, and a hint."""
    match declared:
        case LabelType() if isinstance(value, bool):
            return f"{value} is no label", "YAML reads an unquoted yes, no, on and off as a boolean; put it in quotes"
        case LabelType():
            known = value in declared.labels
            return None if known else (f"unknown label {value!r}", did_you_mean(str(value), declared.labels))
        case BoolType():
            return None if isinstance(value, bool) else (f"{value!r} is not true or false", "the field is a bool")
        case NumberType():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return None if number else (f"{value!r} is no number", f"the field is {declared.type}")
        case _:
            text = isinstance(value, str) and declared.type == "str"
            return None if text else (f"the field is a {declared.type} and never equals {value!r}", "")


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
    declared = field_type(rule, {name: one.shape for name, one in seen.items()})
    native = sum(_expected(chances, float) for chances in spread) / len(spread)
    score = sum(_expected(chances, lambda v: normalise(declared, v)) for chances in spread) / len(spread)
    return Result(_clamped(score), native, weighted=used)


def _value(rule: ValueRule, seen: Mapping[str, Observed], weighted: bool) -> Result:
    observed = seen[rule.of]
    (chances,), used = _spread([observed.reply], rule.field, observed.probabilities, weighted)
    declared = observed.shape.fields[rule.field]
    if not used:
        value = observed.reply[rule.field]
        return Result(_clamped(normalise(declared, value)), value)
    score = _clamped(_expected(chances, lambda v: normalise(declared, v)))
    return Result(score, _expected(chances, float), weighted=True)


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
