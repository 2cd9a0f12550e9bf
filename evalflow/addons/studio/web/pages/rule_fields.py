"""The fields of a check of the type `rule`: an operation on the answer or another field, and nested operations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import yaml
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import capitalised
from evalflow.addons.studio.web.ui.rows import RowList
from evalflow.config.yaml_text import safe_yaml
from evalflow.metrics.json_schema import json_equal
from evalflow.values.jsonvalues import as_list, as_map, is_list, is_mapping

OPERATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "contains": ("contains", ("other_text", "case_sensitive")),
        "not_contains": ("does not contain", ("other_text", "case_sensitive")),
        "contains_any": ("contains one of", ("values", "case_sensitive")),
        "contains_all": ("contains all of", ("values", "case_sensitive")),
        "starts_with": ("starts with", ("other_text", "case_sensitive")),
        "ends_with": ("ends with", ("other_text", "case_sensitive")),
        "equals": ("equals", ("other_text", "case_sensitive")),
        "not_equals": ("does not equal", ("other_text", "case_sensitive")),
        "one_of": ("is one of", ("values", "case_sensitive")),
        "regex": ("matches the pattern", ("pattern", "case_sensitive")),
        "not_regex": ("does not match the pattern", ("pattern", "case_sensitive")),
        "length": ("has a length", ("unit", "min", "max")),
        "count": ("has so many matches of the pattern", ("pattern", "min", "max", "case_sensitive")),
        "less_than": ("is a number below", ("other_number",)),
        "less_than_equals": ("is a number, at most", ("other_number",)),
        "greater_than": ("is a number above", ("other_number",)),
        "greater_than_equals": ("is a number, at least", ("other_number",)),
        "close_to": ("is a number close to", ("other_number", "tolerance")),
        "jsonpath": ("has a value at a JSON path", ("path", "wanted")),
        "json_schema": ("is JSON that fits a schema", ("schema", "anywhere")),
        "xml": ("is XML", ("elements",)),
        "html": ("is HTML", ("elements",)),
        "not": ("does not fit a rule", ("rule",)),
        "any": ("fits at least one of several rules", ("rules",)),
        "all": ("fits all of several rules", ("rules",)),
    }
)
"""The operations, with their phrase in a sentence and their fields."""
PROGRAMS = {"javascript": "passes a script", "sql": "is a statement of SQL"}
"""Operations that are edited as YAML, with their phrase in a sentence."""
_FIRST, _OTHER = "not_contains", ""
_LABELS = {**{op: label for op, (label, _) in OPERATIONS.items()}, _OTHER: "another rule, as YAML"}
_WANTED = {
    "equals": "equals",
    "contains": "contains",
    "matches": "matches the pattern",
    "exists": "is there",
    "absent": "is not there",
    "rule": "fits a rule",
}
"""Ways to compare the value at a JSON path."""
_OTHERS = {"other_text": "a text", "other_number": "a number"}
"""The value to compare with, unless it is another field: `value` or `against` in the YAML."""
_COMPARED = forms.About("Compared with", required=True)
_AGAINST = forms.About("Other field", "A field of the test case.", "reference", required=True, code=True)
_OPERATION = forms.About("Rule", "The answer …", required=True)
_UNITS = ("characters", "words", "lines", "items")
_TEXT = forms.About("Text", example="refund", required=True)
_NUMBER = forms.About("Number", example="40", required=True)
PATTERN = forms.About("Pattern", "A regular expression.", r"\d+ pounds", required=True, code=True)
_HOW = forms.About("The value there", required=True)
_EXPECTED = {
    "equals": forms.About("Value", "A text, a number, or JSON.", "21", required=True, code=True),
    "contains": forms.About("Text", example="refund", required=True),
    "matches": PATTERN,
}
_LIMIT_WORDS = (("min", "at least"), ("max", "at most"))
_KEPT = ("normalize", "trim", "letter_case", "relative")
"""Keys without a field, which are kept unchanged."""
_FIELD = forms.About("Field", "What the rule looks at; empty: the answer.", "metadata.language", code=True)
_YAML = forms.About("Rule", "As YAML.", "op: contains\nvalue: refund", required=True, code=True)


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter with a field.

    Attributes:
        make: Builds the field for a value.
        read: The value of the field.
        default: The value if there is none.
    """

    about: forms.About
    make: Callable[[forms.About, Any], forms.Field]
    read: Callable[[forms.Field], Any]
    default: Any = None

    def build(self, given: Any) -> forms.Field:
        """The field for a value; None: the default."""
        return self.make(self.about, self.default if given is None else given)


def line_param(about: forms.About, default: str | None = None) -> Param:
    """A text of one line."""
    return Param(about, lambda about, given: forms.line(about, _as_str(given)), forms.written, default)


def area_param(about: forms.About) -> Param:
    """A text of several lines."""
    return Param(about, lambda about, given: forms.area(about, _as_str(given)), forms.written)


def number_param(about: forms.About, default: float | None = None) -> Param:
    """A number; empty is None."""
    return Param(about, _number_field, forms.number_of, default)


def tick_param(about: forms.About, *, default: bool) -> Param:
    """Yes or no."""
    make: Any = forms.tick
    return Param(about, lambda about, given: make(about, given is True), lambda field: bool(field.value), default)


def json_param(about: forms.About) -> Param:
    """JSON in several lines; anything else is read as text."""

    def make(about: forms.About, given: Any) -> forms.Field:
        return forms.area(about, "" if given is None else json.dumps(given, ensure_ascii=False, indent=2))

    def read(field: forms.Field) -> Any:
        written = forms.written(field)
        return None if written is None else forms.as_value(written)

    return Param(about, make, read)


def _lines_param(about: forms.About, default: list[str] | None = None) -> Param:
    def make(about: forms.About, given: Any) -> forms.Field:
        return forms.area(about, "\n".join(map(str, as_list(given))))

    return Param(about, make, forms.lines_of, default)


def _unit_field(about: forms.About, given: Any) -> forms.Field:
    return forms.pick(about, _UNITS, given if given in _UNITS else _UNITS[0])


def _number_field(about: forms.About, given: Any) -> forms.Field:
    return forms.number_field(about, given if isinstance(given, int | float) else None)


def _as_str(given: Any) -> str | None:
    return None if given is None else str(given)


CASED = tick_param(forms.About("Capital letters count", "“hello” then differs from “Hello”."), default=True)
_PARAMS: Mapping[str, Param] = {
    "values": _lines_param(forms.About("Texts", "One a line.", "refund\nmoney back", required=True)),
    "elements": _lines_param(
        forms.About("Elements", "That it must have, each as its path from the root, one a line.", "loan.days"), []
    ),
    "case_sensitive": CASED,
    "pattern": line_param(PATTERN),
    "unit": Param(forms.About("Counted", required=True), _unit_field, lambda field: field.value, _UNITS[0]),
    "min": number_param(forms.About("At least", example="1")),
    "max": number_param(forms.About("At most", example="50")),
    "tolerance": number_param(forms.About("Difference allowed", example="0.5")),
    "path": line_param(forms.About("JSON path", "Where the value is.", "$.days", required=True, code=True)),
    "schema": json_param(forms.About("Schema", "A JSON Schema.", '{"required": ["days"]}', required=True, code=True)),
    "anywhere": tick_param(
        forms.About("One object in the text is enough", "Otherwise the whole text must be JSON."), default=False
    ),
}
"""The keys of `OPERATIONS` with one field each."""


class RuleFields:
    """The fields of an operation and of nested operations; `on_change` is called with each change.

    An operation that they would not give back as it is, such as one with further keys, is shown as YAML. `has_field`:
    whether it may name the case field that it looks at.
    """

    def __init__(self, params: Mapping[str, Any], on_change: Callable[[], object], *, has_field: bool = True) -> None:
        self._params: dict[str, Any] = dict(params)
        self._on_change, self._has_field = on_change, has_field
        self._fields: dict[str, forms.Field] = {}
        self._inner: RuleFields | None = None
        self._rules: RowList[RuleFields] | None = None
        given = params.get("op", _FIRST)
        self._op: str = given if given in OPERATIONS else _OTHER
        choice = forms.pick(_OPERATION, _LABELS, self._op)
        self._place = ui.element("div").classes("stack")
        self._show()
        if params and self._op != _OTHER and not json_equal(self.read(), params):
            choice.value = self._op = _OTHER
            self._show()
        choice.on_value_change(lambda event: self._chosen(str(event.value or "")))

    @property
    def fields(self) -> dict[str, forms.Field]:
        """The fields by key path, such as `value`, or `rules[1].value` of an operation within it."""
        inner = {"rule": self._inner} if self._inner else {}
        inner |= {f"rules[{number}]": one for number, one in enumerate(self._rules.rows if self._rules else ())}
        within = {f"{name}.{key}": field for name, one in inner.items() for key, field in one.fields.items()}
        return {**self._fields, **within}

    def read(self) -> dict[str, Any]:
        """The current operation, valid or not."""
        if self._op == _OTHER:
            return yaml_map(self._fields["op"], "op")
        values: dict[str, Any] = {}
        for key in OPERATIONS[self._op][1]:
            values |= self._values(key)
        if "field" in self._fields:
            values["field"] = forms.written(self._fields["field"])
        kept = {key: self._params[key] for key in _KEPT if key in self._params}
        given = {key: value for key, value in values.items() if value is not None or key == "equals"}
        return {"op": self._op, **kept, **given}

    def _values(self, key: str) -> dict[str, Any]:
        """The values of one key of `OPERATIONS`; a default is left out unless it was written."""
        if key in _PARAMS:
            value = _PARAMS[key].read(self._fields[key])
            return {key: value} if value != _PARAMS[key].default or key in self._params else {}
        match key:
            case "rule" if self._inner:
                return {key: self._inner.read()}
            case "rules" if self._rules:
                return {key: self._rules.read()}
            case "wanted":
                return self._expected()
            case _ if "against" in self._fields:
                return {"against": forms.written(self._fields["against"])}
            case _:
                field = self._fields["value"]
                return {"value": forms.written(field) if key == "other_text" else forms.number_of(field)}

    def _expected(self) -> dict[str, Any]:
        how = str(self._fields["wanted"].value)
        match how:
            case "exists" | "absent":
                return {"missing": how == "absent"}
            case "rule" if self._inner:
                return {"rule": self._inner.read()}
            case "equals":
                return {how: forms.as_value(str(self._fields[how].value or ""))}
            case _:
                return {how: forms.written(self._fields[how])}

    def _chosen(self, op: str) -> None:
        """Show the fields of another operation; values of common keys are kept."""
        self._params = {**self._params, **self.read(), "op": op}
        if op == "length":
            self._params.setdefault("unit", "words")
        if op == _OTHER:
            self._params = self.read()
        self._op = op
        self._show()
        self._on_change()

    def _show(self) -> None:
        self._place.clear()
        self._fields.clear()
        self._inner = self._rules = None
        with self._place:
            if self._op == _OTHER:
                self._put("op", forms.area(_YAML, yaml_text(self._params)))
                return
            for key in OPERATIONS[self._op][1]:
                self._build(key)
            if self._has_field:
                self._put("field", forms.line(_FIELD, self._params.get("field")))

    def _put(self, key: str, field: forms.Field) -> None:
        self._fields[key] = field
        field.on_value_change(lambda _: self._on_change())

    def _build(self, key: str) -> None:
        given = self._params.get(key)
        if key in _PARAMS:
            self._put(key, _PARAMS[key].build(given))
        elif key == "rule":
            self._inner = self._nested(given)
        elif key == "rules":
            self._rules = RowList(lambda _, rule: self._nested(rule), {}, "rule", self._on_change)
            self._rules.show(given if is_list(given) else ({},))
        elif key == "wanted":
            self._build_expected()
        else:
            self._build_other(key)

    def _build_other(self, key: str) -> None:
        given = self._params.get("value")
        how = "against" if "against" in self._params else "value"
        choice = forms.pick(_COMPARED, {"value": _OTHERS[key], "against": "another field"}, how)
        if "against" in self._params:
            self._put("against", forms.line(_AGAINST, self._params["against"]))
        elif key == "other_number":
            self._put("value", _number_field(_NUMBER, given))
        else:
            self._put("value", forms.line(_TEXT, _as_str(given)))

        def chosen() -> None:
            before = {**self._params, **self.read()}
            kept = {name: value for name, value in before.items() if name not in ("value", "against")}
            self._params = {**kept, str(choice.value): None}
            self._show()
            self._on_change()

        choice.on_value_change(chosen)

    def _build_expected(self) -> None:
        missing = self._params.get("missing")
        given = next((key for key in ("equals", "contains", "matches", "rule") if key in self._params), "equals")
        how = given if missing is None else "absent" if missing else "exists"
        choice = forms.pick(_HOW, _WANTED, how)
        self._put("wanted", choice)
        if how == "rule":
            self._inner = self._nested(self._params.get("rule"), has_field=False)
        elif how in _EXPECTED:
            expected = self._params.get(how, "")
            shown = forms.as_text(expected) if how == "equals" else str(expected or "")
            self._put(how, forms.line(_EXPECTED[how], shown))

        def chosen() -> None:
            key = str(choice.value)
            kept = {name: value for name, value in self._params.items() if name not in (*_EXPECTED, "missing", "rule")}
            value: Any = {} if key == "rule" else ""
            wanted: dict[str, Any] = {"missing": key == "absent"} if key in ("exists", "absent") else {key: value}
            self._params = {**kept, "path": forms.written(self._fields["path"]), **wanted}
            self._show()

        choice.on_value_change(chosen)

    def _nested(self, params: Any, *, has_field: bool | None = None) -> RuleFields:
        with ui.element("div").classes("nested stack"):
            return RuleFields(
                as_map(params), self._on_change, has_field=self._has_field if has_field is None else has_field
            )


def yaml_text(values: Mapping[str, Any]) -> str:
    """Values as YAML, or empty."""
    return yaml.safe_dump(dict(values), allow_unicode=True, sort_keys=False, width=100) if values else ""


def yaml_map(field: forms.Field, key: str) -> dict[str, Any]:
    """Parse a field's YAML map. Anything else becomes the value of `key`, which the check then refuses."""
    written = forms.written(field) or ""
    try:
        content = safe_yaml(written)
        json.dumps(content, allow_nan=False)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return {key: written}
    if not is_mapping(content):
        return {} if content is None else {key: content}
    return {str(name): value for name, value in content.items()}


def rule_in_words(params: Mapping[str, Any]) -> str:
    """What an operation requires, as a sentence; empty if it is incomplete."""
    op = params.get("op")
    field = str(params.get("field") or "answer")
    subject = "The answer" if field == "answer" else field
    if isinstance(op, str) and op in PROGRAMS:
        return f"{subject} {PROGRAMS[op]}."
    if not isinstance(op, str) or op not in OPERATIONS:
        return ""
    match op:
        case "not" | "any" | "all":
            given: Any = [params.get("rule")] if op == "not" else params.get("rules")
            inner = [_clause(rule) for rule in (given if is_list(given) else [None])]
            condition = (" and " if op == "all" else " or ").join(inner)
            return capitalised(f"{'not: ' if op == 'not' else ''}{condition}.") if all(inner) else ""
        case "jsonpath":
            return _path_in_words(subject, params)
        case "length" | "count":
            given = [(word, params.get(key)) for key, word in _LIMIT_WORDS]
            limits = [f"{word} {limit:,}" for word, limit in given if isinstance(limit, int | float)]
            matches = f"matches of “{params.get('pattern', '')}”"
            what = matches if op == "count" else str(params.get("unit", "characters"))
            return f"{subject} has {' and '.join(limits)} {what}." if limits else ""
        case "json_schema" | "xml" | "html":
            return f"{subject} {OPERATIONS[op][0]}."
        case _:
            if isinstance(params.get("against"), str):
                return f"{subject} {OPERATIONS[op][0]} the {params['against']}."
            given = next((params[key] for key in ("value", "values", "pattern") if params.get(key) is not None), None)
            if given is None:
                return ""
            shown = [f"“{value}”" for value in (given if is_list(given) else [given])]
            return f"{subject} {OPERATIONS[op][0]} {', '.join(shown)}."


def _clause(params: Any) -> str:
    """An operation within a sentence; empty if it is incomplete."""
    return rule_in_words(as_map(params)).removesuffix(".").replace("The answer", "the answer", 1)


def _path_in_words(subject: str, params: Mapping[str, Any]) -> str:
    at = f"{subject} at {params.get('path')}"
    if isinstance(params.get("missing"), bool):
        return f"{at} {_WANTED['absent' if params['missing'] else 'exists']}."
    if "rule" in params:
        inner = _clause(params["rule"])
        return f"{at}: {inner.replace('the answer', 'the value')}." if inner else ""
    how = next((key for key in ("equals", "contains", "matches") if key in params), None)
    return f"{at} {_WANTED[how]} “{forms.as_text(params[how])}”." if how else ""
