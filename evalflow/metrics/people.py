"""How people grade: the scale that a metric's labels are on, which is the judge's own wherever that has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalflow.config.schema import MetricConfig
from evalflow.metrics.returns import BoolType, NumberType
from evalflow.metrics.rule_config import MapRule, ValueRule
from evalflow.metrics.scale import (
    BooleanScale,
    FractionScale,
    LabelScale,
    LikertScale,
    NumberScale,
    PercentageScale,
    RecordedScale,
    read,
)
from evalflow.metrics.steps import StepConfig

_SCALES = (BooleanScale, LikertScale, PercentageScale, LabelScale, FractionScale, NumberScale)


def label_scale(config: MetricConfig, *, bounded: bool) -> RecordedScale:
    """The scale on which people label answers for a metric.

    It is the metric's `scale`, or what its score rule reads off a single field: true or false, a grade, a word. All
    other scores are shares, and people give them as such: a number from 0 to 1, or yes and no.

    Args:
        config: The metric's configuration.
        bounded: Whether its scores lie in 0..1.
    """
    declared = getattr(config, "scale", None)
    if getattr(config, "strict", False):
        return BooleanScale(type="boolean")
    if isinstance(declared, _SCALES):
        return declared
    found = _of_rule(config)
    if found is not None:
        return found
    return FractionScale(type="fraction") if bounded else NumberScale(type="number")


def read_label(scale: RecordedScale, value: Any) -> tuple[float, Any]:
    """A person's grade as (score, value on the scale), as spreadsheets write it.

    Words count in any case. On a scale with bounds a number may have a decimal comma, which is no thousand there.

    Raises:
        ValueError: It is not on the scale.
    """
    if isinstance(value, str):
        value = value.strip()
        if isinstance(scale, LabelScale) and value not in scale.values:
            words = [word for word in scale.values if word.casefold() == value.casefold()]
            value = words[0] if len(words) == 1 else value
        if isinstance(scale, FractionScale | PercentageScale | LikertScale):
            value = value.replace(",", ".") if value.count(",") == 1 else value
    return read(scale, value)


def scale_in_words(scale: RecordedScale) -> str:
    """What may stand in the column `value`, for whoever fills it."""
    match scale:
        case BooleanScale():
            return "yes or no"
        case LikertScale():
            return f"{scale.min} to {scale.max}{_anchors(scale)}"
        case PercentageScale():
            return "0 to 100"
        case LabelScale():
            return " | ".join(scale.values)
        case FractionScale():
            return "0 to 1 (none of it to all of it); yes is 1, no is 0"
        case NumberScale():
            return "a number"


def _anchors(scale: LikertScale) -> str:
    anchors = sorted((scale.anchors or {}).items())
    return f" ({'; '.join(f'{grade}: {text}' for grade, text in anchors)})" if anchors else ""


def _of_rule(config: MetricConfig) -> RecordedScale | None:
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
