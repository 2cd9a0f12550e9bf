"""How a score rule is declared, and what can be wrong with it before any data is seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from evalflow.config.schema import Strict, Word
from evalflow.errors import Problem, did_you_mean
from evalflow.metrics.replies import Shape, item_type
from evalflow.metrics.returns import BoolType, LabelType, NumberType, RecordType


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
