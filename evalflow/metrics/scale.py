"""Scales: the grades a judge may give, and their mapping to 0..1."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from evalflow.config.schema import MetricConfig, Strict, Word
from evalflow.metrics.returns import BoolType, LabelType, NumberType, StepConfig
from evalflow.metrics.rule_results import unit_values
from evalflow.metrics.rules import MapRule, ValueRule
from evalflow.values.cells import boolean_of, number_of
from evalflow.values.label_names import label_name

Grade = Annotated[int, Field(ge=-(2**53), le=2**53)]  # which floats hold exactly


class BooleanScale(Strict):
    """True is 1, false is 0."""

    type: Literal["boolean"]


class LikertScale(Strict):
    """Whole grades from `min` to `max`, mapped to 0..1. `anchors` describes single grades."""

    type: Literal["likert"]
    min: Grade
    max: Grade
    anchors: dict[int, str] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> LikertScale:
        if self.min >= self.max:
            raise ValueError(f"min must be below max, but min is {self.min} and max is {self.max}")
        outside = [grade for grade in self.anchors or {} if not self.min <= grade <= self.max]
        if outside:
            raise ValueError(f"the anchor {outside[0]} is not on the scale {self.min}..{self.max}")
        return self


class PercentageScale(Strict):
    """A number from 0 to 100, mapped to 0..1."""

    type: Literal["percentage"]


class LabelScale(Strict):
    """One of several words, each with its score in 0..1."""

    type: Literal["label"]
    values: dict[Word, float] = Field(min_length=2)

    @field_validator("values")
    @classmethod
    def _in_range(cls, values: dict[str, float]) -> dict[str, float]:
        return unit_values(values)


class FractionScale(Strict):
    """A number from 0 to 1, unchanged; true is 1, false is 0. For recorded scores; ask a judge for a percentage."""

    type: Literal["fraction"]


class NumberScale(Strict):
    """Any finite number, unchanged. For recorded scores only, since a judge needs bounds."""

    type: Literal["number"]


def _expand(declared: object) -> object:
    return {"type": declared} if isinstance(declared, str) else declared


Scale = Annotated[
    Annotated[BooleanScale | LikertScale | PercentageScale | LabelScale, Field(discriminator="type")],
    BeforeValidator(_expand),
]  # The scales for judges. A scale without further keys may be written as its name alone.

PREFERENCE = LabelScale(type="label", values={"win": 1.0, "tie": 0.5, "loss": 0.0})
"""The outcome of a comparison of two answers."""

_SCALES = BooleanScale | LikertScale | PercentageScale | LabelScale | FractionScale | NumberScale
RecordedScale = Annotated[Annotated[_SCALES, Field(discriminator="type")], BeforeValidator(_expand)]


def reply_type(scale: Scale) -> BoolType | NumberType | LabelType:
    """The reply type for a grade on the scale."""
    match scale:
        case BooleanScale():
            return BoolType(type="bool")
        case LikertScale():
            return NumberType(type="int", min=scale.min, max=scale.max)
        case PercentageScale():
            return NumberType(type="float", min=0, max=100)
        case LabelScale():
            return LabelType(type="label", labels=list(scale.values))


def grade_rule(scale: Scale, step: str, field: str) -> ValueRule | MapRule:
    """The score rule that maps the grade in `step.field` to 0..1."""
    if isinstance(scale, LabelScale):
        return MapRule(op="map", of=step, field=field, values=scale.values)
    return ValueRule(op="value", of=step, field=field)


def read(scale: RecordedScale, recorded: object) -> tuple[float, object]:
    """Read a score from the data, as (score, value on its own scale); ValueError if it is not on the scale.

    Text is parsed, since CSV columns have no types. A likert grade may be a fraction, such as a mean of several people.
    """
    match scale:
        case BooleanScale():
            value = _boolean(recorded)
            return float(value), value
        case LabelScale():
            word = recorded if isinstance(recorded, str) else label_name(recorded)
            if word not in scale.values:
                raise ValueError(f"{recorded!r} is not one of {', '.join(scale.values)}")
            return scale.values[word], word
        case FractionScale():
            value = _fraction(recorded)
            return value, value
        case NumberScale():
            value = _number(recorded)
            return float(value), value
        case LikertScale() | PercentageScale():
            value = _number(recorded)
            low, high = (scale.min, scale.max) if isinstance(scale, LikertScale) else (0, 100)
            if not low <= value <= high:
                raise ValueError(f"{recorded!r} is not in {low}..{high}")
            return (value - low) / (high - low), value


def _number(recorded: object) -> float:
    value = number_of(recorded)
    if value is None:
        raise ValueError(f"{recorded!r} is not a number")
    return float(value) if isinstance(recorded, str) else value


def _fraction(recorded: object) -> float:
    with contextlib.suppress(ValueError):
        return float(_boolean(recorded))
    value = float(_number(recorded))
    if not 0 <= value <= 1:
        raise ValueError(f"{recorded!r} is not in 0..1")
    return value


def _boolean(recorded: object) -> bool:
    value = boolean_of(recorded)
    if value is None:
        raise ValueError(f"{recorded!r} is not true or false")
    return value


class Band(Strict):
    """A description of answers in a range of grades.

    Attributes:
        score_range: Lowest and highest grade, both inclusive; equal for a single grade.
        expected_outcome: What such an answer is like.
    """

    score_range: tuple[int, int]
    expected_outcome: Word

    @field_validator("score_range")
    @classmethod
    def _ordered(cls, score_range: tuple[int, int]) -> tuple[int, int]:
        low, high = score_range
        if low > high:
            raise ValueError(f"the lowest grade must come first, but {low} is above {high}")
        return score_range

    def __str__(self) -> str:
        low, high = self.score_range
        return f"{low}..{high} ({self.expected_outcome})"


def band_fault(bands: Sequence[Band], low: int, high: int) -> str | None:
    """Why ranges of grades do not fit the scale; None if they do.

    Gaps are allowed: grades in between are interpolated.
    """
    ordered = sorted(bands, key=lambda band: band.score_range)
    for band in ordered:
        if band.score_range[0] < low or band.score_range[1] > high:
            return f"the score range {band} is not within the scale {low}..{high}"
    for left, right in pairwise(ordered):
        if right.score_range[0] <= left.score_range[1]:
            return f"the score ranges {left} and {right} overlap"
    return None


def label_scale(config: MetricConfig, *, bounded: bool) -> RecordedScale:
    """The scale on which people label answers for a metric.

    This is the metric's `scale`, or the type of the single field that its score rule reads: boolean, grade or word.
    For a comparison, people say which answer wins. For rules that hold or fail, yes or no. All other scores are
    shares: a number from 0 to 1, or yes or no.
    """
    if config.kind == "pairwise":
        return PREFERENCE
    declared = getattr(config, "scale", None)
    holds_or_not = config.kind == "check" and getattr(config, "combine", None) in ("all", "any")
    if holds_or_not or getattr(config, "strict", False):
        return BooleanScale(type="boolean")
    criteria = getattr(config, "criteria", None)
    if isinstance(declared, _SCALES) and not isinstance(
        criteria, Mapping
    ):  # with several criteria this is the scale of each
        return declared
    own = _scale_of_rule(config)
    return own or (FractionScale(type="fraction") if bounded else NumberScale(type="number"))


def read_label(scale: RecordedScale, value: object) -> tuple[float, object]:
    """Read a person's grade from a spreadsheet, as (score, value on the scale); ValueError if it is not on the scale.

    Upper and lower case do not matter. On a bounded scale a comma in a number is a decimal comma.
    """
    if isinstance(value, str):
        value = value.strip()
        if isinstance(scale, LabelScale) and value not in scale.values:
            matches = [word for word in scale.values if word.casefold() == value.casefold()]
            value = matches[0] if len(matches) == 1 else value
        if isinstance(scale, FractionScale | PercentageScale | LikertScale):
            value = value.replace(",", ".") if value.count(",") == 1 else value
    return read(scale, value)


UNDEFINED = "undefined"
"""The label for "there is nothing to score"."""


def read_judgement(scale: RecordedScale, value: object) -> tuple[float | None, object]:
    """As `read_label`, but (None, UNDEFINED) if the label says that there is nothing to score."""
    is_word = isinstance(scale, LabelScale) and UNDEFINED in scale.values
    if isinstance(value, str) and value.strip().casefold() == UNDEFINED and not is_word:
        return None, UNDEFINED
    return read_label(scale, value)


def label_bounds(scale: RecordedScale) -> tuple[float | None, float | None]:
    """The lowest and the highest number that people can give; None if unbounded or not a number."""
    match scale:
        case LikertScale():
            return scale.min, scale.max
        case PercentageScale():
            return 0, 100
        case FractionScale():
            return 0, 1
        case BooleanScale() | LabelScale() | NumberScale():
            return None, None


def own_bounds(config: MetricConfig, *, bounded: bool) -> tuple[float, float] | None:
    """The lowest and the highest grade of a metric's scale, which are mapped to 0..1; None if it has no other scale."""
    low, high = label_bounds(label_scale(config, bounded=bounded))
    return None if low is None or high is None or (low, high) == (0, 1) else (low, high)


def scale_text(scale: RecordedScale) -> str:
    """The allowed values of the column `value`, as shown to the person who fills it."""
    match scale:
        case BooleanScale():
            return "yes or no"
        case LikertScale():
            anchors = [f"{grade}: {text}" for grade, text in sorted((scale.anchors or {}).items())]
            return f"{scale.min} to {scale.max}" + (f" ({'; '.join(anchors)})" if anchors else "")
        case PercentageScale():
            return "0 to 100"
        case LabelScale():
            return " | ".join(scale.values)
        case FractionScale():
            return "0 to 1 (none of it to all of it); yes is 1, no is 0"
        case NumberScale():
            return "a number"


def _scale_of_rule(config: MetricConfig) -> RecordedScale | None:
    rule = getattr(config, "score", None)
    if isinstance(rule, MapRule):
        return LabelScale(type="label", values=rule.values)
    if not isinstance(rule, ValueRule):
        return None
    steps: Mapping[str, StepConfig] = {step.id: step for step in getattr(config, "steps", None) or ()}
    kind = steps[rule.of].returns.get(rule.field) if rule.of in steps else None
    if isinstance(kind, BoolType):
        return BooleanScale(type="boolean")
    if isinstance(kind, NumberType) and isinstance(kind.min, int) and isinstance(kind.max, int):
        return LikertScale(type="likert", min=kind.min, max=kind.max)
    return None
