"""Which scores a page shows, and the fields that say so."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, cast
from urllib.parse import urlencode

from nicegui import ui
from nicegui.elements.mixins.value_element import ValueElement

from evalflow.app.studio.scores import ScoreFilter
from evalflow.web.ui.parts import button, text, tie

STATUSES = {
    "": "Every state",
    "failed": "Failed",
    "passed": "Passed",
    "scored": "Scored",
    "undefined": "Undefined",
    "error": "Error",
    "skipped": "Skipped",
}
ORDERS = {"": "As in the data", "score": "Lowest first", "-score": "Highest first"}
MOST_PAGES = 2000
"""How far an address leads into a list: what stands before it is gone through."""
TYPING_MS = 300
"""How long after the last key a text counts as written."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for, as the address of the page says it; empty: whatever it is."""

    metric: str = ""
    status: str = ""
    tag: str = ""
    search: str = ""
    low: str = ""
    high: str = ""
    sort: str = ""
    page: str = ""

    @property
    def query(self) -> str:
        """For an address, with its question mark; empty where nothing is asked for."""
        said = {name: value for name, value in asdict(self).items() if value}
        return f"?{urlencode(said)}" if said else ""

    @property
    def number(self) -> int:
        """Of the page, from 1."""
        said = int(self.page) if self.page.isdecimal() and len(self.page) < 9 else 1
        return max(1, min(said, MOST_PAGES))

    def filter(self) -> ScoreFilter:
        """For the workspace."""
        passed = {"passed": True, "failed": False}.get(self.status)
        return ScoreFilter(
            metric=self.metric or None,
            status=self.status or None if passed is None else None,
            tag=self.tag or None,
            text=self.search or None,
            low=_number(self.low),
            high=_number(self.high),
            passed=passed,
        )


class FilterBar:
    """The fields above a list of scores.

    Args:
        wanted: What they say at first.
        metrics, tags: What there is to choose from; tags with how many answers have them.
        changed: Is called with what they say then.
    """

    def __init__(
        self,
        wanted: Wanted,
        metrics: Sequence[str],
        tags: Sequence[tuple[str, int]],
        changed: Callable[[Wanted], Awaitable[None]],
    ) -> None:
        self._changed = changed
        self._fields: dict[str, ValueElement[Any]] = {}
        with ui.element("div").classes("filter").props('role=search aria-label="Which scores"'):
            self._select("Metric", "metric", _metrics(metrics), wanted)
            self._select("State", "status", STATUSES, wanted)
            self._select("Tag", "tag", _tags(tags), wanted)
            self._line("Search", "search", "question, answer or id", wanted)
            self._line("Score from", "low", "0", wanted)
            self._line("to", "high", "1", wanted)
            self._select("Order", "sort", ORDERS, wanted)
            button("Clear", self.clear, kind="quiet")
        self.wanted = self._said()
        self._order()

    def offer(self, metrics: Sequence[str], tags: Sequence[tuple[str, int]]) -> None:
        """Have other metrics and tags to choose from; what is chosen stays."""
        for name, options in (("metric", _metrics(metrics)), ("tag", _tags(tags))):
            field = cast("ui.select", self._fields[name])
            chosen = str(field.value or "")
            field.set_options({**options, chosen: options.get(chosen, chosen)})  # pyright: ignore - untyped in NiceGUI

    async def set(self, **values: str) -> None:
        """Ask for something else; what is not named stays."""
        for name, value in values.items():
            self._fields[name].set_value(value)
        await self._tell()

    async def clear(self) -> None:
        """Ask for everything."""
        await self.set(**dict.fromkeys(self._fields, ""))

    def focus(self) -> None:
        """Go there with the cursor."""
        self._fields["metric"].run_method("focus")

    async def _tell(self) -> None:
        """Pass on what has changed, once, however many fields have."""
        self._order()
        said = self._said()
        if said != self.wanted:
            self.wanted = said
            await self._changed(said)

    def _said(self) -> Wanted:
        said = {name: str(field.value or "").strip() for name, field in self._fields.items()}
        wanted = Wanted(**said)
        return wanted if wanted.metric else replace(wanted, sort="")

    def _order(self) -> None:
        """Only scores of one metric can be put in order."""
        self._fields["sort"].props["disable"] = not self._fields["metric"].value

    def _select(self, label: str, name: str, options: Mapping[str, str], wanted: Wanted) -> None:
        value = getattr(wanted, name)
        known = dict(options)
        with _labelled(label) as around:
            self._place(name, around, ui.select(known, value=value if value in known else ""))

    def _line(self, label: str, name: str, example: str, wanted: Wanted) -> None:
        with _labelled(label, name) as around:
            made = ui.input(value=getattr(wanted, name), placeholder=example)
            self._place(name, around, made.props(f"debounce={TYPING_MS}"))

    def _place(self, name: str, label: ui.element, made: ValueElement[Any]) -> None:
        made.props("outlined dense")
        tie(label, made)
        made.on_value_change(self._tell)
        self._fields[name] = made


@contextmanager
def _labelled(label: str, classes: str = "") -> Generator[ui.element]:
    with ui.element("div").classes(f"one {classes}"):
        around = text(label, "label", "small muted")
        yield around


def _metrics(names: Sequence[str]) -> dict[str, str]:
    return {"": "Every metric", **{name: name for name in names}}


def _tags(found: Sequence[tuple[str, int]]) -> dict[str, str]:
    return {"": "Every tag", **{name: f"{name} ({n:,})" for name, n in found}}


def _number(said: str) -> float | None:
    try:
        value = float(said.replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
