"""The library: the metrics that ship, by purpose."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.nicegui_core import TextElement
from evalflow.addons.studio.web.pages.metric_prompt import shared_texts
from evalflow.addons.studio.web.pages.metrics import GraphDrawing
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.metric_words import kind_in_words, needs_in_words, purpose_of, purposes
from evalflow.addons.studio.web.ui.parts import (
    address,
    button,
    empty,
    facts,
    filled,
    fold,
    link_button,
    markup,
    message,
    section,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, root_path, title_of
from evalflow.addons.studio.work.bots import list_bots
from evalflow.addons.studio.work.metric_yaml import metric_yaml
from evalflow.addons.studio.work.metrics import MetricDefinition, get_library, keyless_metrics, list_library
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import counted

_IDENTIFIER = re.compile(r"\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b")
_SEARCH = forms.About("Search", "By name, description, purpose, or what a metric needs.", "faithful, context")
_FREE = forms.About("Works without a key", "By rules, text overlap or meaning, without a language model.")


@guarded_page("/library")
async def _library_page(workspace: Workspace, bot: str = "") -> None:
    metrics = await to_thread.run_sync(list_library, workspace)
    keyless = await to_thread.run_sync(keyless_metrics, workspace)
    about = "Metrics that are ready to use, samples to copy and change."
    trail = [(f"Metrics of {title_of('bot', bot)}", f"/bots/{bot}/metrics")] if bot else []
    with frame("Metrics", place="Metrics", about=about, trail=trail):
        _Library(metrics, keyless, bot)


@guarded_page("/library/{metric}")
async def _one_page(workspace: Workspace, metric: str, bot: str = "") -> None:
    entry = await to_thread.run_sync(get_library, workspace, metric)
    known = await to_thread.run_sync(list_bots, workspace)
    bots = {one.name: one.title for one in known if one.origin == "workspace"}
    trail = [("Metrics", address("/library", {"bot": bot}))]
    with frame(entry.title, place="Metrics", about=str(entry.definition.get("description", "")), trail=trail):
        _facts(entry.definition)
        if may("edit"):
            _copying(entry.name, bots, bot)
        GraphDrawing(entry.definition)
        shared = await to_thread.run_sync(_shared, entry.prompts)
        for name, source in entry.prompts.items():
            step = name.rpartition("/")[2].removesuffix(".jinja").replace("_", " ")
            with section(f"Prompt: {step}", "A prompt template, read-only."):
                text(source, "pre", "card code-block").props("tabindex=0")
                if shared[name]:
                    with fold("Shared texts that it includes"):
                        for part, content in shared[name].items():
                            text(part.rpartition("/")[2].removesuffix(".jinja"), "h3")
                            text(content, "pre", "card code-block").props("tabindex=0")
        with ui.element("div").classes("section"), fold("As YAML, read-only"):
            text(metric_yaml(entry.definition), "pre", "card code-block").props("tabindex=0")


def _shared(prompts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {name: shared_texts(name, source) for name, source in prompts.items()}


class _Library:
    """All metrics by purpose, folded; a search unfolds those that contain all of its words."""

    def __init__(self, metrics: Sequence[MetricDefinition], keyless: Collection[str], bot: str) -> None:
        query = address("", {"bot": bot})
        self._keyless = keyless
        self._purposes: list[tuple[ui.element, TextElement, list[tuple[ui.element, MetricDefinition]]]] = []
        with ui.element("div").classes("filters"):
            self._search = forms.line(_SEARCH)
            self._search.props("clearable type=search").on_value_change(self._filter)
            self._free = forms.tick(_FREE)
            self._free.on_value_change(self._filter)
        self._number = text("", classes="muted small").props("role=status")
        with ui.element("div").classes("stack library"):
            for purpose, about in purposes().items():
                members = [one for one in metrics if purpose_of(_family(one)) == purpose]
                if members:
                    self._purpose(purpose, about, sorted(members, key=self._order), query)
        with ui.element("div") as self._nothing, empty("search_off", "No matching metrics", "Try other words."):
            button("Show all metrics", self._show_all)
        self._filter()

    def _order(self, metric: MetricDefinition) -> tuple[bool, str]:
        """The sort key: metrics that work without an API key come first."""
        return metric.name not in self._keyless, metric.title

    def _purpose(self, purpose: str, about: str, members: Sequence[MetricDefinition], query: str) -> None:
        with fold(purpose).classes("card") as block, ui.element("ul").classes("metrics"):
            rows = [(self._row(metric, query), metric) for metric in members]
        block.default_slot.children[0].classes("purpose")
        with block.default_slot.children[0]:
            text(about, "span", "muted small")
            count = text("", "span", "muted small count")
        self._purposes.append((block, count, rows))

    def _row(self, metric: MetricDefinition, query: str) -> ui.element:
        """One element, since a page with a hundred of them is large."""
        foot: list[Markup] = []
        if metric.name in self._keyless:
            foot.append(markup("span", "no key needed", cls="badge pass"))
        if needs := needs_in_words(metric.definition.get("needs") or []):
            foot.append(markup("span", f"needs {needs}", cls="muted small"))
        name = markup("span", metric.title, cls="name")
        about = markup("span", *_coded(str(metric.definition.get("description") or "")), cls="muted small")
        what = markup("span", name, about, cls="what")
        path = f"{root_path()}/library/{metric.name}{query}"
        return filled("li", markup("a", what, markup("span", *foot, cls="foot"), cls="nicegui-link metric", href=path))

    def _show_all(self) -> None:
        self._search.set_value("")
        self._free.set_value(False)

    def _filter(self) -> None:
        words = str(self._search.value or "").lower().split()
        total = 0
        for block, count, rows in self._purposes:
            number = 0
            for row, metric in rows:
                fits = (metric.name in self._keyless or not self._free.value) and _contains(metric, words)
                row.set_visibility(fits)
                number += fits
            block.set_visibility(number > 0)
            count.set_text(counted(number, "metric"))
            block.props["open"] = bool(words)
            block.update()
            total += number
        self._nothing.set_visibility(not total)
        self._number.set_text(counted(total, "metric"))


def _coded(content: str) -> list[Markup]:
    """A description, with the names of columns and metrics in it as code."""
    return [markup("code" if number % 2 else "span", part) for number, part in enumerate(_IDENTIFIER.split(content))]


def _contains(metric: MetricDefinition, words: Sequence[str]) -> bool:
    definition = metric.definition
    needs = [str(need) for need in definition.get("needs") or ()]
    parts = [metric.title, metric.name, definition.get("description") or "", definition.get("kind") or ""]
    parts += [_family(metric), purpose_of(_family(metric)), *needs, needs_in_words(needs)]
    content = " ".join(map(str, parts)).lower()
    return all(word in content for word in words)


def _family(metric: MetricDefinition) -> str:
    return str(metric.definition.get("family") or "")


def _facts(definition: Mapping[str, Any]) -> None:
    threshold = definition.get("threshold")
    with ui.element("div").classes("card"):
        facts(
            [
                ("Kind", kind_in_words(str(definition.get("kind"))).capitalize()),
                ("Purpose", purpose_of(str(definition.get("family") or ""))),
                ("Needs", needs_in_words(definition.get("needs") or [])),
                ("Threshold", "" if threshold is None else f"{threshold:g}"),
                ("Direction", str(definition.get("direction", "higher_is_better")).replace("_", " ").capitalize()),
            ]
        )


def _copying(metric: str, bots: Mapping[str, str], bot: str) -> None:
    with section("Copy it to a bot", "You can change the copy; its templates are copied too."):
        if not bots:
            message("You have no bots yet.", "Create one first.")
            link_button("New bot", "/bots/new", primary=True)
            return
        with ui.element("div").classes("form"):
            about = forms.About("For the bot", "The copy belongs to this bot only.", required=True)
            chosen = forms.pick(about, bots, bot if bot in bots else next(iter(bots)))
            with ui.element("div").classes("actions"):
                copy = lambda: ui.navigate.to(f"/bots/{chosen.value}/metrics/new?source={metric}")  # noqa: E731
                button("Copy", copy, kind="primary")
