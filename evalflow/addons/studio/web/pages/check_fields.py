"""The name of each kind of check, and the fields of its parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from nicegui import ui

from evalflow.addons.studio.web.pages.rule_fields import (
    CASED,
    PATTERN,
    Param,
    RuleFields,
    area_param,
    json_param,
    line_param,
    number_param,
    rule_in_words,
    yaml_map,
    yaml_text,
)
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import button, capitalised, clipped, icon_button, text
from evalflow.addons.studio.web.ui.rows import RowList
from evalflow.addons.studio.work.checks import Check
from evalflow.metrics.case_checks import COMPARISONS, PARAMS, meaning_of, starts_program
from evalflow.metrics.json_schema import json_equal
from evalflow.values.jsonvalues import as_list, as_map, is_list, is_mapping

KINDS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "correctness": ("Correctness", "All of the reference is in the answer. More is fine.", "task_alt"),
        "conformity": ("Conformity", "The answer keeps every rule.", "rule"),
        "groundedness": (
            "Groundedness",
            "All of the answer is in the context. Leaving things out is fine.",
            "menu_book",
        ),
        "string_matching": ("String matching", "The answer contains a keyword or sentence.", "text_fields"),
        "regex_matching": ("Pattern", "A regular expression matches in the answer.", "code"),
        "metadata": ("Metadata", "The answer's metadata have the expected values.", "data_object"),
        "semantic_similarity": (
            "Semantic similarity",
            "The answer means about the same as a reference.",
            "compare_arrows",
        ),
        "rule": ("Rule", "The answer fits a rule on its words, length or number.", "checklist_rtl"),
        "group": ("Group", "Several checks together: the share that pass.", "account_tree"),
        "json_schema": ("JSON schema", "The answer is JSON that fits a schema.", "schema"),
        "equals": ("Equals", "The answer equals a value.", "drag_handle"),
        "not_equals": ("Does not equal", "The answer differs from a value.", "block"),
        "less_than": ("Less than", "The answer is a number below a value.", "chevron_left"),
        "less_than_equals": ("At most", "The answer is a number, at most a value.", "chevron_left"),
        "greater_than": ("More than", "The answer is a number above a value.", "chevron_right"),
        "greater_than_equals": ("At least", "The answer is a number, at least a value.", "chevron_right"),
    }
)
"""Name, sentence and icon of the built-in checks that have a form."""
_IDEAL = forms.About(
    "Reference", "The ideal answer, or a JSON list of several.", "Paris is the capital of France.", required=True
)
_CONTEXT = forms.About("Context", "What the answer may say. Empty: the earlier turns.", "The licence costs 40 pounds.")
_THRESHOLD = forms.About("Threshold", "0 to 1; 0.8 allows other words.", "0.8", required=True)
_SCHEMA = forms.About("Schema", "A JSON Schema.", '{"type": "object"}', required=True, code=True)
_VALUE = forms.About("Expected value", "A text or a number.", "40", required=True)
_FIELD = forms.About("Field", "What is compared; usually the answer.", "answer", required=True, code=True)


def _value_field(about: forms.About, given: Any) -> forms.Field:
    return forms.line(about, None if given is None else forms.as_text(given))


def _value_of(field: forms.Field) -> Any:
    written = forms.written(field)
    return written and forms.as_value(written)


def _reference_field(about: forms.About, given: Any) -> forms.Field:
    return forms.area(about, given if isinstance(given, str) else None if given is None else forms.as_text(given))


def _reference_of(field: forms.Field) -> Any:
    written = forms.written(field)
    value: Any = forms.as_value(written) if written else None
    return value if is_list(value) else written


_REFERENCE = Param(_IDEAL, _reference_field, _reference_of)
_COMPARED = {"expected_value": Param(_VALUE, _value_field, _value_of), "field": line_param(_FIELD, "answer")}
_FIELDS: Mapping[str, Mapping[str, Param]] = MappingProxyType(
    {
        "correctness": {"reference": _REFERENCE},
        "groundedness": {"context": area_param(_CONTEXT)},
        "string_matching": {
            "keyword": line_param(forms.About("Keyword", "A word or a sentence.", "Hello", required=True)),
            "case_sensitive": CASED,
        },
        "regex_matching": {"pattern": line_param(PATTERN)},
        "semantic_similarity": {"reference": _REFERENCE, "threshold": number_param(_THRESHOLD, 0.8)},
        "json_schema": {"schema": json_param(_SCHEMA)},
        **dict.fromkeys(COMPARISONS, _COMPARED),
    }
)
"""The parameters of each kind that have a field."""
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


def _grounded(context: object, shown: str) -> str:
    if context is not None and not str(context).strip():
        return "The answer states nothing, since nothing was retrieved."
    return f"All of the answer is in {'the earlier turns' if context is None else shown}."


def in_words(kind: str, params: Mapping[str, Any]) -> str:
    """What a check with these parameters requires, as a sentence."""

    def quoted(key: str) -> str:
        return f"“{clipped(forms.as_text(params.get(key, '')), _CLIPPED)}”"

    match kind:
        case "correctness":
            return f"All of {quoted('reference')} is in the answer."
        case "conformity" if params.get("rules"):
            rules = [str(rule) for rule in as_list(params["rules"])]
            return " ".join(clipped(rule, _CLIPPED) for rule in rules[:3]) + (
                f" And {len(rules) - 3} more." if rules[3:] else ""
            )
        case "groundedness":
            return _grounded(params.get("context"), quoted("context"))
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
            members = [member for member in params["checks"] if is_mapping(member)]
            return f"Several checks together: {', '.join(str(member.get('identifier')) for member in members)}."
        case _ if kind in COMPARISONS:
            _, about, _ = about_kind(kind)
            field = str(params.get("field", "answer"))
            subject = "The answer" if field == "answer" else field
            wording = about.removeprefix("The answer").removesuffix(".").removesuffix("a value")
            return f"{subject}{wording}{quoted('expected_value')}."
        case _:
            return about_kind(kind)[1]


def _paths_in_words(params: Mapping[str, Any]) -> list[str]:
    rules = map(as_map, as_list(params.get("json_path_rules")))
    verbs = {"string": "contains", "boolean": "is", "number": "equals"}
    return [
        f"{one.get('json_path')} {verbs.get(str(one.get('expected_value_type')), 'is')} "
        f"{clipped(forms.as_text(one.get('expected_value')), _CLIPPED)}"
        for one in rules
    ]


class ParamFields:
    """The fields of a check's parameters; keys without a field are kept.

    `reusable`: the project's checks that a group may have, by name.
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
        self._reusable, self._own = reusable, _FIELDS.get(kind, {})
        self._fields: dict[str, forms.Field] = {}
        self._rows: RowList[_RuleRow] | RowList[_PathRow] | None = None
        self._within: RuleFields | GroupFields | None = None
        self._build()
        for field in self._fields.values():
            field.on_value_change(lambda _: self._on_change())

    @property
    def fields(self) -> dict[str, forms.Field]:
        """The fields by key path."""
        if self._rows is not None:
            return {"rules" if self._kind == "conformity" else "json_path_rules": self._rows.rows[0].field}
        return self._within.fields if self._within else self._fields

    def read(self) -> dict[str, Any]:
        """The parameters as they are, whether they are right or not."""
        if self._within is not None:
            return self._within.read()
        if "params" in self._fields:
            return yaml_map(self._fields["params"], "params")
        values = {**self._params, **{key: param.read(self._fields[key]) for key, param in self._own.items()}}
        if self._kind == "conformity":
            values["rules"] = [rule.strip() for rule in cast("Any", self._rows).read() if rule.strip()]
        if self._kind == "metadata":
            values["json_path_rules"] = [rule for rule in cast("Any", self._rows).read() if rule["json_path"]]
        return {key: value for key, value in values.items() if value is not None}

    def _build(self) -> None:
        for key, param in self._own.items():
            self._fields[key] = param.build(self._params.get(key))
        match self._kind:
            case "conformity":
                text(self._rule_tips, classes="help")
                self._rows = RowList(self._rule_row, "", "rule", self._on_change, place="stack rules")
                self._rows.show([str(rule) for rule in as_list(self._params.get("rules")) or [""]])
            case "metadata":
                self._rows = RowList(
                    self._path_row, {}, "value", self._on_change, classes="path-row", place="stack rules"
                )
                self._rows.show(self._params.get("json_path_rules") or [{}])
            case "rule":
                self._within = RuleFields(self._params, self._on_change)
            case "group":
                self._build_group()
            case _ if not self._own:
                self._fields["params"] = forms.area(_PARAMS, yaml_text(self._params))
            case _:
                pass

    def _build_group(self) -> None:
        with ui.element("div").classes("stack") as built:
            self._within = GroupFields(self._params, self._reusable, self._on_change)
        if self._params and not json_equal(self._within.read(), self._params):  # as in an invalid member
            built.delete()
            self._within = None
            self._fields["params"] = forms.area(_PARAMS, yaml_text(self._params))

    def _rule_row(self, number: int, rule: str) -> _RuleRow:
        field = ui.textarea(value=rule, placeholder=_RULE).props("outlined dense autogrow dir=auto")
        field.props["aria-label"] = f"Rule {number + 1}"
        field.on_value_change(lambda _: self._on_change())
        return _RuleRow(field)

    def _path_row(self, number: int, given: Mapping[str, Any]) -> _PathRow:
        return _PathRow(number, given, self._on_change)


class _RuleRow:
    """A rule in words."""

    def __init__(self, field: forms.Field) -> None:
        self.field = field

    def read(self) -> str:
        return str(self.field.value or "")


class _PathRow:
    """The expected value at a JSON path of the metadata; keys without a field are kept."""

    def __init__(self, number: int, given: Mapping[str, Any], on_change: Callable[[], object]) -> None:
        self._given, expected = given, given.get("expected_value")
        kind = given.get("expected_value_type") or (
            "boolean" if isinstance(expected, bool) else "number" if isinstance(expected, int | float) else "string"
        )
        shown = "" if expected is None else expected if isinstance(expected, str) else json.dumps(expected)
        self.field: forms.Field = ui.input(value=given.get("json_path", ""), placeholder="$.user.name").classes("code")
        self._kind = ui.select(_TYPES, value=kind)
        self._value = ui.input(value=shown, placeholder="John")
        for field, label in ((self.field, "JSON path"), (self._kind, "Kind"), (self._value, "Value")):
            field.props("outlined dense").props["aria-label"] = f"{label} {number + 1}"
            field.on_value_change(lambda _: on_change())

    def read(self) -> dict[str, Any]:
        kind, written = str(self._kind.value), forms.written(self._value) or ""
        value = forms.as_value(written) if kind in ("boolean", "number") else written
        path = forms.written(self.field) or ""
        return {**self._given, "json_path": path, "expected_value_type": kind, "expected_value": value}


_MEMBER = forms.About("Check", required=True)
_CALLED = forms.About("Called", "In the group's reason; empty: the check's own name.")
_WEIGHT = forms.About("Weight", "How much it counts; 0: it is shown only.", required=True)
_PASSES_FROM = forms.About("Passes from", "A share of 0 to 1; empty: the score is the share that pass.", "0.6")
_FIRST = "string_matching"


class GroupFields:
    """The fields of a group.

    `reusable` are the project's checks that it may have, by name; `on_change` is called with each change.
    """

    def __init__(self, params: Mapping[str, Any], reusable: Mapping[str, str], on_change: Callable[[], object]) -> None:
        self._params, self._reusable, self._on_change = dict(params), reusable, on_change
        new: dict[str, Any] = {"identifier": _FIRST, "params": {}}
        self._members = RowList(
            self._build, new, "check to the group", on_change, classes="nested stack", foot=self._foot
        )
        given = params.get("threshold")
        self._threshold = forms.number_field(_PASSES_FROM, given if isinstance(given, int | float) else None)
        self._threshold.props("step=0.05").on_value_change(lambda _: on_change())
        self._members.show(as_list(params.get("checks")))

    @property
    def fields(self) -> dict[str, forms.Field]:
        """The fields by key path, such as `checks[0].params.keyword`."""
        members = {
            f"checks[{number}].{key}": field
            for number, member in enumerate(self._members.rows)
            for key, field in member.fields.items()
        }
        first = {"checks": next(iter(members.values()))} if members else {"checks": self._threshold}
        return {"threshold": cast("forms.Field", self._threshold), **members, **first}

    def read(self) -> dict[str, Any]:
        """The parameters as they are, whether they are right or not."""
        threshold = forms.number_of(self._threshold)
        kept = {key: value for key, value in self._params.items() if key not in ("checks", "threshold")}
        limited = {} if threshold is None and "threshold" not in self._params else {"threshold": threshold}
        return {**kept, "checks": self._members.read(), **limited}

    def _build(self, _: int, one: Any) -> _Member:
        check = one if is_mapping(one) else {"identifier": one}
        return _Member(check, self._reusable, self._on_change)

    def _foot(self, number: int) -> None:
        with ui.element("div").classes("actions"):
            for icon, label, step in (("arrow_upward", "Move up", -1), ("arrow_downward", "Move down", 1)):
                move = partial(self._members.move, number, step)
                icon_button(icon, f"{label} check {number + 1} of the group", move)
            removing = button("Remove", partial(self._members.remove, number), kind="quiet", icon="close")
            removing.props["aria-label"] = f"Remove check {number + 1} of the group"


class _Member:
    """The fields of one check of a group; keys without a field are kept."""

    def __init__(self, check: Mapping[str, Any], reusable: Mapping[str, str], on_change: Callable[[], object]) -> None:
        self._check, self._reusable, self._on_change = dict(check), reusable, on_change
        self._params: ParamFields | None = None
        offered = {**offered_kinds(), **reusable}
        self._identifier = str(check.get("identifier", _FIRST))
        gone = {} if self._identifier in offered else {self._identifier: f"{self._identifier}: does not exist"}
        self._kind = forms.pick(_MEMBER, {**gone, **offered}, self._identifier)
        self._place = ui.element("div").classes("stack params")
        with forms.pair():
            weight = check.get("weight", 1)
            self._weight = forms.number_field(_WEIGHT, weight if isinstance(weight, int | float) else None)
            self._name = forms.line(_CALLED, check.get("name"))
        self._on = forms.tick(forms.About("On"), check.get("enabled", True) is not False)
        self._show(as_map(check.get("params")))
        self._kind.on_value_change(self._retyped)
        for field in (self._weight, self._name, self._on):
            field.on_value_change(lambda _: on_change())

    @property
    def fields(self) -> dict[str, forms.Field]:
        own: dict[str, forms.Field] = {"identifier": self._kind, "weight": self._weight, "name": self._name}
        params: Mapping[str, forms.Field] = self._params.fields if self._params else {}
        return {**own, **{f"params.{key}": field for key, field in params.items()}}

    def read(self) -> dict[str, Any]:
        params = self._params.read() if self._params else self._check.get("params") or {}
        values: dict[str, Any] = {"params": params, "weight": forms.number_of(self._weight)}
        values |= {"name": forms.written(self._name), "enabled": bool(self._on.value)}
        default: dict[str, Any] = {"params": {}, "weight": 1, "name": None, "enabled": True}
        given = {key: value for key, value in values.items() if key in self._check or value != default[key]}
        return {**self._check, "identifier": self._identifier, **given}

    def _show(self, params: Mapping[str, Any]) -> None:
        self._place.clear()
        with self._place:
            if self._identifier in PARAMS:
                self._params = ParamFields(self._identifier, params, self._on_change, reusable=self._reusable)
            else:
                self._params = None
                text("A reusable check, with its own parameters.", classes="muted small")

    def _retyped(self) -> None:
        self._identifier = str(self._kind.value)
        self._check.pop("params", None)
        self._show({})
        self._on_change()
