"""The kinds that compare labels: `classification`, which also has figures over the run, and `set_match`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from evalflow.config.schema import Word
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, scored
from evalflow.metrics.case_fields import is_null_prediction, root
from evalflow.records import Answer, FigureSpec, Outcome
from evalflow.values.cells import boolean_of, list_in, number_of, object_in
from evalflow.values.jsonvalues import is_list, is_mapping, is_object, kind, look_up
from evalflow.values.label_names import is_number, label_name, plain_number, read_like


class ClassificationMetricConfig(UnitMetricConfig):
    """Which fields are compared.

    Attributes:
        truth: The case field with the true label.
        prediction: The case field with the predicted one.
        positive: The positive class for precision and recall; null if there are several classes.
        per_label: Multi-label: truth and prediction map each label to true or false.
        confidence: The field with the prediction's confidence, 0 to 1; null if there is none.
    """

    kind: Literal["classification"]  # pyright: ignore[reportIncompatibleVariableOverride]
    truth: Word = "expected"
    prediction: Word = "actual"
    positive: bool | int | float | str | None = None
    per_label: bool = False
    confidence: Word | None = None

    @field_validator("positive")
    @classmethod
    def _as_labels_are(cls, value: object) -> object:
        if value is not None and not _is_label(value):
            raise ValueError(f"{value} is not a label")
        return _canonical(value)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.per_label and (self.positive is not None or self.confidence is not None):
            raise ValueError("per_label goes with neither positive nor confidence: each label is true or false")
        return self


class ClassificationMetric(FieldMetric[ClassificationMetricConfig]):
    """Scores 1 for a correct prediction, else 0, so that the mean is the accuracy."""

    Config = ClassificationMetricConfig
    names_fields = ("truth", "prediction")

    def __init__(self, name: str, config: ClassificationMetricConfig) -> None:
        super().__init__(name, config)
        sure = config.confidence is not None
        self.figures = FigureSpec(
            "classification", positive=config.positive, per_label=config.per_label, confidence=sure
        )

    def needed(self, fields: Mapping[str, object], answer: Answer) -> Sequence[str]:
        """All `needs`, except a prediction that the target gave as null."""
        prediction = self.config.prediction
        return [need for need in self.config.needs if need != prediction or not is_null(prediction, fields, answer)]

    async def compare(self, fields: dict[str, object]) -> Outcome:
        config = self.config
        truth, prediction = (look_up(field, fields) for field in (config.truth, config.prediction))
        if config.per_label:
            return _compare_labels((config.truth, truth), (config.prediction, prediction))
        if not _is_label(truth):
            raise ValueError(f"{config.truth} is {_shown(truth)}, which is not a label")
        truth, prediction = (_as_positive(config.positive, label) for label in (truth, prediction))
        prediction = read_like(truth, prediction)
        names = [label_name(label) for label in (truth, prediction)]
        right = names[0] == names[1]
        value = {"truth": _canonical(truth), "prediction": _canonical(truth if right else prediction)}
        if config.confidence:
            value["confidence"] = _confidence(config.confidence, fields)
        return scored(float(right), value, f"predicted {names[1]}" + ("" if right else f", but it is {names[0]}"))


def _confidence(field: str, fields: Mapping[str, object]) -> float | None:
    value = look_up(field, fields)
    number = number_of(value)
    if value is None or (number is not None and 0 <= number <= 1):
        return number
    raise ValueError(f"{field} is {value!r}, but a confidence lies in 0..1")


def _as_positive(positive: object, label: object) -> object:
    """A label in the type of the positive one, if that is a boolean or a number; else unchanged."""
    if not isinstance(positive, bool):
        return read_like(positive, label)
    boolean = boolean_of(label)
    return label if boolean is None else boolean


def _canonical(label: object) -> object:
    """One form for equal labels (1.0 becomes 1).

    A value that cannot be a label is replaced by its type's name; null stays null.
    """
    if label is None or isinstance(label, str | bool):
        return label
    return plain_number(label) if is_number(label) else label_name(label)


def _is_label(value: object) -> bool:
    return isinstance(value, str | bool) or is_number(value)


def _shown(value: object) -> str:
    return kind(value) if is_list(value) or is_object(value) else repr(value)


def is_null(prediction: str, fields: Mapping[str, object], answer: Answer) -> bool:
    """Whether the prediction is present and null."""
    if "." not in prediction:
        return prediction == "actual" and is_null_prediction(answer)
    outer, _, name = prediction.rpartition(".")
    around = look_up(outer, fields)
    return is_mapping(around) and name in around and around[name] is None


def _compare_labels(true: tuple[str, object], predicted: tuple[str, object]) -> Outcome:
    """Score 1 if truth and prediction agree on every label.

    A missing label is false. A predicted value that is not true or false is always wrong.
    """
    truth = _truth_marks(*true)
    given = _object_of(predicted[1])
    raw_labels = dict.fromkeys(truth, predicted[1]) if given is None else given
    unread = {label: one for label, one in raw_labels.items() if given is None or boolean_of(one) is None}
    prediction = {label: bool(boolean_of(one)) for label, one in raw_labels.items()}
    prediction |= {label: not truth.get(label, False) for label in unread}
    labels = sorted({*truth, *prediction})
    wrong = [label for label in labels if truth.get(label, False) != prediction.get(label, False)]
    reasons = [
        f"{label}: predicted {label_name(unread.get(label, prediction.get(label, False)))}, "
        f"but it is {label_name(truth.get(label, False))}"
        for label in wrong
    ]
    if given is None:
        reasons.insert(0, f"{predicted[0]} is {kind(predicted[1])}, not an object of labels")
    reasons = reasons or [f"all {len(labels)} labels agree" if labels else "neither side has a label"]
    for field, marks in ((true[0], truth), (predicted[0], prediction)):
        if absent := [label for label in labels if label not in marks]:
            reasons.append(f"{field} leaves out {', '.join(absent)}, taken as false")
    right = not wrong and given is not None
    return scored(float(right), {"truth": truth, "prediction": prediction}, "; ".join(reasons))


def _object_of(value: object) -> dict[str, object] | None:
    """The value as an object, parsed if it is a text."""
    if isinstance(value, str):
        with suppress(ValueError):
            return object_in(value)
    return value if is_object(value) else None


def _truth_marks(field: str, value: object) -> dict[str, bool]:
    """The true marks by label; ValueError if there are none."""
    marks = _object_of(value)
    if marks is None:
        raise ValueError(f"{field} is {kind(value)}, not an object of labels that are true or false")
    for label, holds in marks.items():
        if boolean_of(holds) is None:
            raise ValueError(f"{field}.{label} is {kind(holds)}, not true or false")
    return {label: bool(boolean_of(holds)) for label, holds in marks.items()}


class SetMatchMetricConfig(UnitMetricConfig):
    """Which labels are compared, and when they match.

    Attributes:
        truth: The fields with the true labels; each holds one label, a list, or nothing.
        prediction: The fields with the predicted ones.
        match: `in_order`: the same labels in the same places; `same`: in any order; `any`: at least one shared label.
    """

    kind: Literal["set_match"]  # pyright: ignore[reportIncompatibleVariableOverride]
    truth: list[Word] = Field(min_length=1)
    prediction: list[Word] = Field(min_length=1)
    match: Literal["in_order", "same", "any"]


class SetMatchMetric(FieldMetric[SetMatchMetricConfig]):
    """Scores 1 for a match, else 0, so that the mean is a rate. Needs no judge.

    If no label is expected, predicting none is right. The score is undefined if the case has no field in `truth`.
    """

    Config = SetMatchMetricConfig

    @classmethod
    def fields_read(cls, config: SetMatchMetricConfig) -> Mapping[str, str]:
        paths = {"truth": config.truth, "prediction": config.prediction}
        fields = {f"{key}[{at}]": path for key, listed in paths.items() for at, path in enumerate(listed)}
        return {key: path if path in config.needs else root(path) for key, path in fields.items()}

    async def compare(self, fields: dict[str, object]) -> Outcome:
        true = [(path, label) for path in self.config.truth for label in _listed(list_in, look_up(path, fields))]
        for path, label in true:
            if not _is_label(label) and label is not None:
                raise ValueError(f"{path}: expected a label, got {kind(label)}")
        truth = [_name_or_none(label) for _, label in true]
        if not any(truth) and not any(_is_given(path, fields) for path in self.config.truth):
            return Outcome(status="undefined", reason="no field says what is expected")
        known = [label for _, label in true if label is not None]
        values = [look_up(path, fields) for path in self.config.prediction]
        predicted = [_name_like(known, label) for one in values for label in _listed(_list_or_none, one)]
        matches = self._matches(truth, predicted) if any(truth) else not any(predicted)
        return scored(float(matches), matches, f"predicted {_in_words(predicted)}, expected {_in_words(truth)}")

    def _matches(self, truth: Sequence[str | None], predicted: Sequence[str | None]) -> bool:
        wanted, given = {label for label in truth if label}, {label for label in predicted if label}
        match self.config.match:
            case "in_order":
                return list(truth) == list(predicted)
            case "same":
                return wanted == given
            case _:
                return bool(wanted & given)


def _is_given(path: str, fields: Mapping[str, object]) -> bool:
    """Whether a field is present. Null counts: somebody recorded that no label fits."""
    outer, _, name = path.rpartition(".")
    around = look_up(outer, fields) if outer else fields
    return is_mapping(around) and name in around


def _listed(read: Callable[[str], list[object] | None], value: object) -> list[object]:
    """The labels in a field, which holds one label, a list, or a text with a list."""
    labels = read(value) if isinstance(value, str) else value
    return labels if is_list(labels) else [value]


def _list_or_none(text: str) -> list[object] | None:
    """The list in a predicted text; None if it is not a valid list, which makes the text a wrong label."""
    with suppress(ValueError):
        return list_in(text)
    return None


def _name_or_none(label: object) -> str | None:
    blank = label is None or (isinstance(label, str) and not label.strip())
    return None if blank else label_name(label)


def _name_like(known: Sequence[object], label: object) -> str | None:
    """The name of a predicted label; that of an equal true label if there is one."""
    names = (label_name(read_like(true, label)) for true in known)
    return next(
        (name for true, name in zip(known, names, strict=True) if name == label_name(true)), _name_or_none(label)
    )


def _in_words(labels: Sequence[str | None]) -> str:
    return " and ".join(label for label in labels if label) or "nothing"
