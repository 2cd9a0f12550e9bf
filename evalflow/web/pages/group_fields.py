"""The fields of a group of checks: its members with their weights, and the share with which it passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, cast

from nicegui import ui

from evalflow.web.ui import forms
from evalflow.web.ui.parts import button, text
from evalflow.web.ui.visitor import may

_CHECK = forms.About("Check", required=True)
_NAME = forms.About("Called", "In the group's reason; empty: the check's own name.")
_WEIGHT = forms.About("Weight", "How much it counts; 0: it is shown only.", required=True)
_THRESHOLD = forms.About("Passes from", "A share of 0 to 1; empty: the score is the share that pass.", "0.6")
_FIRST = "string_matching"


class Params(Protocol):
    """The fields of a member's parameters."""

    @property
    def fields(self) -> Mapping[str, forms.Field]: ...

    def read(self) -> dict[str, Any]: ...


class GroupFields:
    """The fields of a group.

    `offered` are the checks that it may have, by name; `make` builds a member's parameters, None for one that has none;
    `on_change` is called with each change.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        offered: Mapping[str, str],
        make: Callable[[str, Mapping[str, Any]], Params | None],
        on_change: Callable[[], object],
    ) -> None:
        self._params, self._offered, self._make, self._on_change = dict(params), offered, make, on_change
        self._members: list[_Member] = []
        self._place = ui.element("div").classes("stack")
        given = params.get("threshold")
        self._threshold = forms.number_field(_THRESHOLD, given if isinstance(given, int | float) else None)
        self._threshold.props("step=0.05").on_value_change(lambda _: on_change())
        given = params.get("checks")
        self._show(cast("Sequence[Any]", given) if isinstance(given, list) else ())

    @property
    def fields(self) -> dict[str, forms.Field]:
        """The fields by key path, such as `checks[0].params.keyword`."""
        members = {
            f"checks[{number}].{key}": field
            for number, member in enumerate(self._members)
            for key, field in member.fields.items()
        }
        first = {"checks": next(iter(members.values()))} if members else {"checks": self._threshold}
        return {"threshold": cast("forms.Field", self._threshold), **members, **first}

    def read(self) -> dict[str, Any]:
        """The parameters as they are, whether they are right or not."""
        threshold = forms.number_of(self._threshold)
        kept = {key: value for key, value in self._params.items() if key not in ("checks", "threshold")}
        limited = {} if threshold is None and "threshold" not in self._params else {"threshold": threshold}
        return {**kept, "checks": [member.read() for member in self._members], **limited}

    def _show(self, members: Sequence[Any]) -> None:
        self._place.clear()
        self._members.clear()
        with self._place:
            for number, one in enumerate(members):
                check = cast("Mapping[str, Any]", one) if isinstance(one, Mapping) else {"identifier": one}
                with ui.element("div").classes("nested stack"):
                    self._members.append(_Member(check, self._offered, self._make, self._on_change))
                    if may("edit"):
                        self._foot(number)
            if may("edit"):
                button("Add a check to the group", self._added, kind="quiet", icon="add")

    def _foot(self, number: int) -> None:
        with ui.element("div").classes("actions"):
            for icon, label, step in (("arrow_upward", "Move up", -1), ("arrow_downward", "Move down", 1)):
                moving = button("", partial(self._moved, number, step), kind="quiet", icon=icon)
                moving.props["aria-label"] = f"{label} check {number + 1} of the group"
            removing = button("Remove", lambda: self._removed(number), kind="quiet", icon="close")
            removing.props["aria-label"] = f"Remove check {number + 1} of the group"

    def _checks(self) -> list[dict[str, Any]]:
        return [member.read() for member in self._members]

    def _added(self) -> None:
        self._again([*self._checks(), {"identifier": _FIRST, "params": {}}])

    def _removed(self, number: int) -> None:
        checks = self._checks()
        self._again([*checks[:number], *checks[number + 1 :]])

    def _moved(self, number: int, step: int) -> None:
        checks = self._checks()
        if 0 <= number + step < len(checks):
            checks.insert(number + step, checks.pop(number))
            self._again(checks)

    def _again(self, checks: Sequence[Mapping[str, Any]]) -> None:
        self._show(checks)
        self._on_change()


class _Member:
    """The fields of one check of a group; keys without a field are kept."""

    def __init__(
        self,
        check: Mapping[str, Any],
        offered: Mapping[str, str],
        make: Callable[[str, Mapping[str, Any]], Params | None],
        on_change: Callable[[], object],
    ) -> None:
        self._check, self._make, self._on_change = dict(check), make, on_change
        self._params: Params | None = None
        self._identifier = str(check.get("identifier", _FIRST))
        gone = {} if self._identifier in offered else {self._identifier: f"{self._identifier}: does not exist"}
        self._kind = forms.pick(_CHECK, {**gone, **offered}, self._identifier)
        self._place = ui.element("div").classes("stack params")
        with forms.pair():
            weight = check.get("weight", 1)
            self._weight = forms.number_field(_WEIGHT, weight if isinstance(weight, int | float) else None)
            self._name = forms.line(_NAME, check.get("name"))
        self._on = forms.tick(forms.About("On"), check.get("enabled", True) is not False)
        self._show(cast("Mapping[str, Any]", check.get("params") or {}))
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
            self._params = self._make(self._identifier, params)
            if self._params is None:
                text("A reusable check, with its own parameters.", classes="muted small")

    def _retyped(self) -> None:
        self._identifier = str(self._kind.value)
        self._check.pop("params", None)
        self._show({})
        self._on_change()
