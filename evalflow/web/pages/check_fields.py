"""What each kind of check is called, and the fields of its parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from nicegui import ui

from evalflow.app.studio.checks import Check
from evalflow.metrics.case_checks import COMPARISONS, PARAMS, meaning_of, starts_program
from evalflow.metrics.json_schema import json_equal
from evalflow.web.pages.group_fields import GroupFields
from evalflow.web.pages.rule_fields import RuleFields, rule_in_words, yaml_map, yaml_text
from evalflow.web.ui import forms
from evalflow.web.ui.parts import button, capitalised, text
from evalflow.web.ui.visitor import may

KINDS: Mapping[str, tuple[str, str, str]] = MappingProxyType({
    "correctness": ("Correctness", "All of the reference is in the answer. More is fine.", "task_alt"),
    "conformity": ("Conformity", "The answer keeps every rule.", "rule"),
    "groundedness": ("Groundedness", "All of the answer is in the context. Leaving things out is fine.", "menu_book"),
    "string_matching": ("String matching", "The answer contains a keyword or sentence.", "text_fields"),
    "regex_matching": ("Pattern", "A regular expression matches in the answer.", "code"),
    "metadata": ("Metadata", "The answer's metadata have the expected values.", "data_object"),
    "semantic_similarity": ("Semantic similarity", "The answer means about the same as a reference.", "compare_arrows"),
    "rule": ("Rule", "The answer fits a rule on its words, length or number.", "checklist_rtl"),
    "group": ("Group", "Several checks together: the share that pass.", "account_tree"),
    "json_schema": ("JSON schema", "The answer is JSON that fits a schema.", "schema"),
    "equals": ("Equals", "The answer equals a value.", "drag_handle"),
    "not_equals": ("Does not equal", "The answer differs from a value.", "block"),
    "less_than": ("Less than", "The answer is a number below a value.", "chevron_left"),
    "less_than_equals": ("At most", "The answer is a number, at most a value.", "chevron_left"),
    "greater_than": ("More than", "The answer is a number above a value.", "chevron_right"),
    "greater_than_equals": ("At least", "The answer is a number, at least a value.", "chevron_right"),
})  # fmt: skip
"""Name, sentence and icon of the built-in checks that have fields of their own."""
_REFERENCE = forms.About("Reference", "The ideal answer.", "Paris is the capital of France.", required=True)
_CONTEXT = forms.About("Context", "What the answer may say. Empty: the earlier turns.", "The licence costs 40 pounds.")
_KEYWORD = forms.About("Keyword", "A word or a sentence.", "Hello", required=True)
_CASED = forms.About("Capital letters count", "“hello” then differs from “Hello”.")
_PATTERN = forms.About("Pattern", "A regular expression.", r"\d+ pounds", required=True, code=True)
_THRESHOLD = forms.About("Threshold", "0 to 1; 0.8 allows other words.", "0.8", required=True)
_SCHEMA = forms.About("Schema", "A JSON Schema.", '{"type": "object"}', required=True, code=True)
_VALUE = forms.About("Expected value", "A text or a number.", "40", required=True)
_FIELD = forms.About("Field", "What is compared; usually the answer.", "answer", required=True, code=True)
_RULE = "The agent should only answer in English."
RULE_TIPS = "One behaviour a rule, that this conversation could break. For many conversations, write a reusable check."
_PARAMS = forms.About("Parameters", "As YAML.", "checks:\n- identifier: greets", required=True, code=True)
_TYPES = {"string": "text contains", "boolean": "true or false", "number": "number equals"}
_CLIPPED = 90
"""Maximum number of characters of a parameter in a sentence."""


def about_kind(kind: str) -> tuple[str, str, str]:
    """Name, sentence and icon of a built-in check."""
    if kind in KINDS:
        return KINDS[kind]
    return capitalised(kind.replace("_", " ")), meaning_of(kind), "rule"


def offered_kinds() -> dict[str, str]:
    """The built-in checks that the application can run, each with its name and sentence."""
    offered = (kind for kind in PARAMS if not starts_program(kind, {}))
    return {kind: f"{title}: {about}" for kind in offered for title, about, _ in [about_kind(kind)]}


def reusable_labels(checks: Iterable[Check]) -> dict[str, str]:
    """The reusable checks by name, as options beside the built-in ones."""
    return {check.name: f"{check.title or check.name} (reusable)" for check in checks}


def in_words(kind: str, params: Mapping[str, Any]) -> str:
    """What a check with these parameters demands, as a sentence."""

    def quoted(key: str) -> str:
        return f"“{_clipped(forms.as_text(params.get(key, '')))}”"

    match kind:
        case "correctness":
            return f"All of {quoted('reference')} is in the answer."
        case "conformity" if params.get("rules"):
            rules = [str(rule) for rule in cast("Sequence[Any]", params["rules"])]
            return " ".join(_clipped(rule) for rule in rules[:3]) + (
                f" And {len(rules) - 3} more." if rules[3:] else ""
            )
        case "groundedness":
            return f"All of the answer is in {quoted('context') if params.get('context') else 'the earlier turns'}."
        case "string_matching":
            cased = "" if params.get("case_sensitive", True) else ", in capital or small letters"
            return f"The answer contains {quoted('keyword')}{cased}."
        case "regex_matching":
            return f"The pattern {quoted('pattern')} matches in the answer."
        case "metadata":
            return f"The answer's metadata: {'; '.join(_paths_in_words(params))}."
        case "semantic_similarity":
            return f"The answer means about the same as {quoted('reference')}."
        case "rule":
            return rule_in_words(params) or about_kind(kind)[1]
        case "group" if isinstance(params.get("checks"), list):
            members = [cast("Mapping[str, Any]", one) for one in params["checks"] if isinstance(one, Mapping)]
            return f"Several checks together: {', '.join(str(one.get('identifier')) for one in members)}."
        case _ if kind in COMPARISONS:
            _, about, _ = about_kind(kind)
            field = str(params.get("field", "answer"))
            subject = "The answer" if field == "answer" else field
            wording = about.removeprefix("The answer").removesuffix(".").removesuffix("a value")
            return f"{subject}{wording}{quoted('expected_value')}."
        case _:
            return about_kind(kind)[1]


def _paths_in_words(params: Mapping[str, Any]) -> list[str]:
    rules = cast("Sequence[Mapping[str, Any]]", params.get("json_path_rules") or ())
    verbs = {"string": "contains", "boolean": "is", "number": "equals"}
    return [
        f"{one.get('json_path')} {verbs.get(str(one.get('expected_value_type')), 'is')} "
        f"{_clipped(forms.as_text(one.get('expected_value')))}"
        for one in rules
    ]


def _clipped(content: str) -> str:
    return content if len(content) <= _CLIPPED else f"{content[:_CLIPPED]}…"


_LISTS = ("rules", "json_path_rules")
"""Parameters with a field for each item; problems are shown at the first one."""


class ParamFields:
    """The fields of a check's parameters; keys without a field are kept.

    `reusable`: the checks of one's own that a group may have, by name.
    """

    def __init__(
        self,
        kind: str,
        params: Mapping[str, Any],
        on_change: Callable[[], object],
        rule_tips: str = RULE_TIPS,
        reusable: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._kind, self._params, self._on_change, self._rule_tips = kind, dict(params), on_change, rule_tips
        self._reusable = reusable
        self._fields: dict[str, forms.Field] = {}
        self._rules: list[str] = [str(rule) for rule in cast("Sequence[Any]", params.get("rules") or [""])]
        self._paths: list[dict[str, Any]] = [
            dict(one) for one in cast("Sequence[Mapping[str, Any]]", params.get("json_path_rules") or [{}])
        ]
        self._within: RuleFields | GroupFields | None = None
        self._build()
        for key, field in self._fields.items():
            if key not in _LISTS:
                field.on_value_change(lambda _: self._on_change())

    @property
    def fields(self) -> dict[str, forms.Field]:
        """The fields by key path."""
        return {**self._fields, **(self._within.fields if self._within else {})}

    def read(self) -> dict[str, Any]:
        """The parameters as they are, whether they are right or not."""
        if self._within is not None:
            return self._within.read()
        if "params" in self._fields:
            return yaml_map(self._fields["params"], "params")
        values = {**self._params, **{key: self._value(key) for key in self._fields if key not in _LISTS}}
        if self._kind == "conformity":
            values["rules"] = [rule.strip() for rule in self._rules if rule.strip()]
        if self._kind == "metadata":
            values["json_path_rules"] = [self._path_rule(one) for one in self._paths if one.get("json_path")]
        return {key: value for key, value in values.items() if value is not None}

    def _value(self, key: str) -> Any:
        field = self._fields[key]
        if key == "case_sensitive":
            return bool(field.value)
        if key == "threshold":
            return field.value
        written = forms.written(field)
        if key == "schema":
            try:
                return json.loads(written or "")
            except ValueError:
                return written
        return forms.as_value(written) if key == "expected_value" and written else written

    def _build(self) -> None:
        value = self._params.get
        match self._kind:
            case "correctness":
                self._fields["reference"] = forms.area(_REFERENCE, value("reference"))
            case "conformity":
                text(self._rule_tips, classes="help")
                self._place = ui.element("div").classes("stack rules")
                self._show_rules()
            case "groundedness":
                self._fields["context"] = forms.area(_CONTEXT, value("context"))
            case "string_matching":
                self._fields["keyword"] = forms.line(_KEYWORD, value("keyword"))
                self._fields["case_sensitive"] = cast("Any", forms.tick(_CASED, bool(value("case_sensitive", True))))
            case "regex_matching":
                self._fields["pattern"] = forms.line(_PATTERN, value("pattern"))
            case "metadata":
                self._place = ui.element("div").classes("stack rules")
                self._show_paths()
            case "semantic_similarity":
                self._fields["reference"] = forms.area(_REFERENCE, value("reference"))
                self._fields["threshold"] = forms.number_field(_THRESHOLD, value("threshold", 0.8)).props("step=0.05")
            case "rule":
                self._within = RuleFields(self._params, self._on_change)
            case "group":
                self._build_group()
            case "json_schema":
                given = value("schema")
                self._fields["schema"] = forms.area(_SCHEMA, json.dumps(given, indent=2) if given else "")
            case _ if self._kind in COMPARISONS:
                given = value("expected_value")
                self._fields["expected_value"] = forms.line(_VALUE, None if given is None else forms.as_text(given))
                self._fields["field"] = forms.line(_FIELD, value("field", "answer"))
            case _:
                self._fields["params"] = forms.area(_PARAMS, yaml_text(self._params))

    def _build_group(self) -> None:
        def member(kind: str, params: Mapping[str, Any]) -> ParamFields | None:
            return ParamFields(kind, params, self._on_change, reusable=self._reusable) if kind in PARAMS else None

        with ui.element("div").classes("stack") as built:
            offered = {**offered_kinds(), **self._reusable}
            self._within = GroupFields(self._params, offered, member, self._on_change)
        if self._params and not json_equal(self._within.read(), self._params):  # as of an invalid member
            built.delete()
            self._within = None
            self._fields["params"] = forms.area(_PARAMS, yaml_text(self._params))

    def _show_rules(self) -> None:
        self._place.clear()
        self._fields.pop("rules", None)
        with self._place:
            for number, rule in enumerate(self._rules):
                with ui.element("div").classes("rule-row"):
                    field = ui.textarea(value=rule, placeholder=_RULE).props("outlined dense autogrow dir=auto")
                    field.props["aria-label"] = f"Rule {number + 1}"
                    field.on_value_change(lambda event, n=number: self._set_rule(n, str(event.value or "")))
                    self._fields.setdefault("rules", field)
                    if len(self._rules) > 1 and may("edit"):
                        _remove(f"Remove rule {number + 1}", lambda n=number: self._drop(self._rules, n))
            if may("edit"):
                button("Add a rule", lambda: self._more(self._rules, ""), kind="quiet", icon="add")

    def _set_rule(self, number: int, rule: str) -> None:
        self._rules[number] = rule
        self._on_change()

    def _show_paths(self) -> None:
        self._place.clear()
        self._fields.pop("json_path_rules", None)
        with self._place:
            for number, rule in enumerate(self._paths):
                with ui.element("div").classes("path-row"):
                    self._path_fields(number, rule)
                    if len(self._paths) > 1 and may("edit"):
                        _remove(f"Remove value {number + 1}", lambda n=number: self._drop(self._paths, n))
            if may("edit"):
                button("Add a value", lambda: self._more(self._paths, {}), kind="quiet", icon="add")

    def _path_fields(self, number: int, rule: dict[str, Any]) -> None:
        path = ui.input(value=rule.get("json_path", ""), placeholder="$.user.name").classes("code")
        expected = rule.get("expected_value")
        kind = rule.get("expected_value_type") or (
            "boolean" if isinstance(expected, bool) else "number" if isinstance(expected, int | float) else "string"
        )
        rule["expected_value_type"] = kind
        choice = ui.select(_TYPES, value=kind)
        shown = "" if expected is None else expected if isinstance(expected, str) else json.dumps(expected)
        value = ui.input(value=shown, placeholder="John")
        self._fields.setdefault("json_path_rules", path)
        for field, key, label in (
            (path, "json_path", "JSON path"),
            (choice, "expected_value_type", "Kind"),
            (value, "expected_value", "Value"),
        ):
            field.props("outlined dense").props["aria-label"] = f"{label} {number + 1}"
            field.on_value_change(lambda event, key=key: self._set_path(rule, key, event.value))

    def _set_path(self, rule: dict[str, Any], key: str, value: Any) -> None:
        rule[key] = value.strip() if isinstance(value, str) else value
        self._on_change()

    def _path_rule(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        value, kind = rule.get("expected_value"), rule.get("expected_value_type")
        if isinstance(value, str) and kind in ("boolean", "number"):
            value = forms.as_value(value)
        return {**rule, "expected_value": "" if value is None else value}

    def _drop(self, rows: list[Any], number: int) -> None:
        del rows[number]
        self._again()

    def _more(self, rows: list[Any], row: Any) -> None:
        rows.append(row)
        self._again()

    def _again(self) -> None:
        (self._show_rules if self._kind == "conformity" else self._show_paths)()
        self._on_change()


def _remove(label: str, on_click: Callable[[], object]) -> None:
    button("", on_click, kind="quiet", icon="close").props["aria-label"] = label
