"""The fields of a check of the type `rule`: one operation on the answer or another field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from nicegui import ui

from evalflow.web.ui import forms

OPERATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType({
    "contains": ("contains", ("value", "case_sensitive")),
    "not_contains": ("does not contain", ("value", "case_sensitive")),
    "contains_any": ("contains one of", ("values", "case_sensitive")),
    "contains_all": ("contains all of", ("values", "case_sensitive")),
    "starts_with": ("starts with", ("value", "case_sensitive")),
    "ends_with": ("ends with", ("value", "case_sensitive")),
    "equals": ("equals", ("value", "case_sensitive")),
    "not_equals": ("does not equal", ("value", "case_sensitive")),
    "one_of": ("is one of", ("values", "case_sensitive")),
    "regex": ("matches the pattern", ("pattern", "case_sensitive")),
    "not_regex": ("does not match the pattern", ("pattern", "case_sensitive")),
    "length": ("has a length", ("unit", "min", "max")),
    "less_than": ("is a number below", ("number",)),
    "less_than_equals": ("is a number, at most", ("number",)),
    "greater_than": ("is a number above", ("number",)),
    "greater_than_equals": ("is a number, at least", ("number",)),
    "close_to": ("is a number close to", ("number", "tolerance")),
})  # fmt: skip
"""The operations with fields of their own: how a sentence says them, and their fields."""
_FIRST, _OTHER = "not_contains", ""
_LABELS = {**{op: label for op, (label, _) in OPERATIONS.items()}, _OTHER: "another operation, as JSON"}
_OPERATION = forms.About("Rule", "The answer …", required=True)
_UNITS = ("characters", "words", "lines", "items")
_VALUES = forms.About("Texts", "One a line.", "refund\nmoney back", required=True)
_CASED = forms.About("Capital letters count", "“hello” then differs from “Hello”.")
_TEXTS = {
    "value": forms.About("Text", example="refund", required=True),
    "pattern": forms.About("Pattern", "A regular expression.", r"\d+ pounds", required=True, code=True),
}
_NUMBERS = {
    "number": forms.About("Number", example="40", required=True),
    "tolerance": forms.About("Difference allowed", example="0.5"),
    "min": forms.About("At least", example="1"),
    "max": forms.About("At most", example="50"),
}
_LIMIT_WORDS = (("min", "at least"), ("max", "at most"))
_UNIT = forms.About("Counted", required=True)
_KEPT = ("normalize", "trim", "relative")
"""Keys without a field, which stay as they are."""
_FIELD = forms.About("Field", "What is looked at; empty: the answer.", "metadata.language", code=True)
_JSON = forms.About(
    "Operation", "As JSON.", '{"op": "jsonpath", "path": "$.ok", "equals": true}', required=True, code=True
)


class RuleFields:
    """The fields of an operation, which are kept in `fields`, by key; `on_change` is called with each change."""

    def __init__(
        self, params: Mapping[str, Any], fields: dict[str, forms.Field], on_change: Callable[[], object]
    ) -> None:
        self._params, self._fields, self._on_change = dict(params), fields, on_change
        self._op = str(params.get("op", _FIRST)) if _has_fields(params) else _OTHER
        choice = forms.pick(_OPERATION, _LABELS, self._op)
        self._place = ui.element("div").classes("stack")
        choice.on_value_change(lambda event: self._chosen(str(event.value or "")))
        self._show()

    def read(self) -> dict[str, Any]:
        """The operation as it is, whether it is right or not."""
        if self._op == _OTHER:
            written = forms.as_value(forms.written(self._fields["op"]) or "{}")
            return cast("dict[str, Any]", written) if isinstance(written, dict) else {"op": written}
        values: dict[str, Any] = {key: self._value(key) for key in OPERATIONS[self._op][1]}
        if "number" in values:
            values["value"] = values.pop("number")
        values |= {"op": self._op, "field": forms.written(self._fields["field"])}
        kept = {key: self._params[key] for key in _KEPT if key in self._params}
        return {key: value for key, value in {**kept, **values}.items() if value is not None}

    def _value(self, key: str) -> Any:
        field = self._fields["value" if key == "number" else key]
        match key:
            case "values":
                return forms.lines_of(field)
            case "case_sensitive":
                return bool(field.value)
            case "min" | "max" | "number" | "tolerance":
                given = field.value
                return int(given) if isinstance(given, float) and given.is_integer() else given
            case _:
                return forms.written(field)

    def _chosen(self, op: str) -> None:
        self._params = {**self._params, **self.read()}
        self._op = op
        self._show()
        self._on_change()

    def _show(self) -> None:
        self._place.clear()
        self._fields.clear()
        with self._place:
            if self._op == _OTHER:
                written = json.dumps(self._params, ensure_ascii=False, indent=2) if self._params else ""
                self._fields["op"] = forms.area(_JSON, written)
            else:
                for key in OPERATIONS[self._op][1]:
                    self._fields["value" if key == "number" else key] = self._field(key)
                self._fields["field"] = forms.line(_FIELD, self._params.get("field"))
        for field in self._fields.values():
            field.on_value_change(lambda _: self._on_change())

    def _field(self, key: str) -> forms.Field:
        given = self._params.get("value" if key == "number" else key)
        match key:
            case "values":
                return forms.area(_VALUES, "\n".join(str(one) for one in cast("Sequence[Any]", given or ())))
            case "case_sensitive":
                return cast("Any", forms.tick(_CASED, given is not False))
            case "unit":
                return forms.pick(_UNIT, _UNITS, given if given in _UNITS else "words")
            case "min" | "max" | "number" | "tolerance":
                return forms.number_field(_NUMBERS[key], given if isinstance(given, int | float) else None)
            case _:
                return forms.line(_TEXTS[key], None if given is None else str(given))


def _has_fields(params: Mapping[str, Any]) -> bool:
    op = params.get("op", _FIRST)
    known = OPERATIONS.get(op, ("", ()))[1] if isinstance(op, str) else ()
    return bool(known) and params.keys() <= {"op", "field", "value", *known, *_KEPT}


def rule_in_words(params: Mapping[str, Any]) -> str:
    """What an operation demands, as a sentence; empty for those without fields of their own."""
    op = str(params.get("op"))
    if not _has_fields(params) or op not in OPERATIONS:
        return ""
    field = str(params.get("field") or "answer")
    subject = "The answer" if field == "answer" else field
    if op == "length":
        limits = [f"{word} {params[key]:,}" for key, word in _LIMIT_WORDS if isinstance(params.get(key), int | float)]
        return f"{subject} has {' and '.join(limits)} {params.get('unit', 'characters')}."
    given: Any = next((params[key] for key in ("value", "values", "pattern") if params.get(key) is not None), "")
    shown = ", ".join(f"“{one}”" for one in cast("Sequence[Any]", given)) if isinstance(given, list) else f"“{given}”"
    return f"{subject} {OPERATIONS[op][0]} {shown}."
