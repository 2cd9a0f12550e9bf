"""The filter of results, as in the address, and the bar of fields that changes it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from nicegui import ui

from evalflow.addons.studio.web.nicegui_core import ValueElement
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.naming import TagCounts, tag_options
from evalflow.addons.studio.web.ui.parts import AddressQuery, button, text
from evalflow.addons.studio.work.scores import ScoreFilter

TYPING_MS = 300
"""Milliseconds without a key press after which the search starts."""
_STATUSES = {
    "": "All results",
    "failed": "Failed",
    "passed": "Passed",
    "scored": "Scored",
    "error": "Error",
    "undefined": "Undefined",
    "skipped": "Skipped",
}


@dataclass(frozen=True, slots=True)
class ResultQuery(AddressQuery):
    """Filter, order, page and opened case of the results, as in the query of a URL; an empty value is not set."""

    metric: str = ""
    status: str = ""
    tag: str = ""
    search: str = ""
    low: str = ""
    high: str = ""
    sort: str = ""
    case: str = ""

    @property
    def position(self) -> int | None:
        """The position of the opened case."""
        return int(self.case) if self.case.isdecimal() and len(self.case) < 10 else None

    @property
    def order(self) -> str:
        """The order for the workspace; the default if the address has no known order."""
        by, _, metric = self.sort.partition(":")
        return self.sort if by == "input" or (by in ("low", "high") and metric) else "worst"

    def filter(self) -> ScoreFilter:
        """The filter for the workspace."""
        passed = {"passed": True, "failed": False}.get(self.status)
        return ScoreFilter(
            metric=self.metric or None,
            status=self.status or None if passed is None else None,
            tag=self.tag or None,
            text=self.search or None,
            low=_bound(self.low),
            high=_bound(self.high),
            passed=passed,
        )

    def narrowed(self) -> ResultQuery:
        """The filter alone, without order, page and case."""
        return replace(self, sort="", page="", case="")


def _bound(content: str) -> float | None:
    try:
        value = float(content.replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class FilterBar:
    """The fields above the results; `query` is their state."""

    def __init__(
        self, query: ResultQuery, metrics: Mapping[str, str], tags: TagCounts, on_change: Callable[[], Awaitable[None]]
    ) -> None:
        self._on_change = on_change
        self._fields: dict[str, ValueElement[Any]] = {}
        with ui.element("div").classes("filter").props('role=search aria-label="Which results"'):
            self._line("Search", "search", "question, answer or id", query)
            self._select("Metric", "metric", _metric_options(metrics), query)
            self._select("Result", "status", _STATUSES, query)
            self._select("Tag", "tag", tag_options(tags), query)
            self._line("Score from", "low", "0", query)
            self._line("to", "high", "1", query)
            self._select("Order", "sort", _orders(metrics), query)
            button("Clear", self.clear, kind="quiet")
        self.query = self._read()

    def offer(self, metrics: Mapping[str, str], tags: TagCounts) -> None:
        """Change the options and keep the choices."""
        offered = {"metric": _metric_options(metrics), "tag": tag_options(tags), "sort": _orders(metrics)}
        for name, options in offered.items():
            field = cast("ui.select", self._fields[name])
            chosen = str(field.value or "")
            field.set_options({**options, chosen: options.get(chosen, chosen)})  # pyright: ignore - untyped in NiceGUI

    async def set(self, **values: str) -> None:
        """Change some of the fields."""
        for name, value in values.items():
            self._fields[name].set_value(value)
        await self._changed()

    def show(self, query: ResultQuery) -> None:
        """Show a query without reporting a change."""
        for name, field in self._fields.items():
            field.set_value(getattr(query, name))
        self.query = self._read()

    async def clear(self) -> None:
        """Empty all fields."""
        await self.set(**dict.fromkeys(self._fields, ""))

    def focus(self) -> None:
        """Focus the search field."""
        self._fields["metric"].run_method("focus")

    async def _changed(self) -> None:
        """Report a change once, even if several fields have changed."""
        query = self._read()
        if query != self.query:
            self.query = query
            await self._on_change()

    def _read(self) -> ResultQuery:
        return ResultQuery(**{name: str(field.value or "").strip() for name, field in self._fields.items()})

    def _select(self, label: str, name: str, options: Mapping[str, str], query: ResultQuery) -> None:
        value, known = getattr(query, name), dict(options)
        self._add(label, name, lambda: ui.select(known, value=value if value in known else ""))

    def _line(self, label: str, name: str, example: str, query: ResultQuery) -> None:
        def make() -> ui.input:
            made = ui.input(value=getattr(query, name), placeholder=example).props(f"debounce={TYPING_MS}")
            return made.props("data-key=/") if name == "search" else made

        self._add(label, name, make)

    def _add(self, label: str, name: str, make: Callable[[], ValueElement[Any]]) -> None:
        with ui.element("div").classes(f"one of-{name}"):
            around = text(label, "label", "small muted")
            field = make().props("outlined dense")
        forms.tie(around, field)
        field.on_value_change(self._changed)
        self._fields[name] = field


def _metric_options(metrics: Mapping[str, str]) -> dict[str, str]:
    return {"": "All metrics", **metrics}


def _orders(metrics: Mapping[str, str]) -> dict[str, str]:
    options = {"": "Worst first", "input": "As in the data"}
    for name, title in metrics.items():
        options |= {f"low:{name}": f"{title}, lowest first", f"high:{name}": f"{title}, highest first"}
    return options
