"""The metrics of a bot, and the library."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import (
    Tone,
    address,
    button,
    card,
    empty,
    facts,
    link_button,
    message,
    section,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work.bots import get_bot, list_bots
from evalflow.addons.studio.work.metric_yaml import metric_yaml
from evalflow.addons.studio.work.metrics import MetricDefinition, get_library, list_library, list_metrics
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.graphs import drawing_of
from evalflow.report.wording import counted


def add() -> None:
    """Register the pages."""

    @guarded_page("/bots/{bot}/metrics")
    async def metrics(workspace: Workspace, bot: str) -> None:
        owner = await to_thread.run_sync(get_bot, workspace, bot)
        found = await to_thread.run_sync(list_metrics, workspace, bot)
        about = "What a good answer of this bot is. Runs can also use any metric of the library."
        trail = [(owner.title, f"/bots/{bot}")]
        with frame(f"Metrics of {owner.title}", place="Bots", about=about, trail=trail) as actions:
            if owner.origin == "conf":
                about = (
                    "This bot is from files of this server; its runs use the library. A copy can have its own metrics."
                )
                copy = [("Copy this bot", f"/bots/new?source={bot}")] if may("edit") else []
                with empty("content_copy", "Metrics belong to your own bots", about, *copy):
                    link_button("See the library", "/library")
            elif found:
                if may("edit"):
                    with actions:
                        link_button("From the library", f"/library?bot={bot}")
                        link_button("New metric", f"/bots/{bot}/metrics/new", primary=True)
                _cards(bot, found)
            elif not may("edit"):
                with empty("rule", "No metrics yet", "Editors of the project say what a good answer of this bot is."):
                    link_button("See the library", "/library")
            else:
                about = "Describe a good answer in words and try it on a case, or start from the library."
                steps = ("New metric", f"/bots/{bot}/metrics/new"), ("From the library", f"/library?bot={bot}")
                empty("rule", "Define a good answer", about, *steps)

    @guarded_page("/library")
    async def library(workspace: Workspace, bot: str = "") -> None:
        found = await to_thread.run_sync(list_library, workspace)
        about = "Metrics that are ready to use, samples to copy and change."
        trail = [(f"Metrics of {title_of('bot', bot)}", f"/bots/{bot}/metrics")] if bot else []
        with frame("Metrics", place="Metrics", about=about, trail=trail):
            _MetricSearch(found, bot)

    @guarded_page("/library/{metric}")
    async def one(workspace: Workspace, metric: str, bot: str = "") -> None:
        found = await to_thread.run_sync(get_library, workspace, metric)
        known = await to_thread.run_sync(list_bots, workspace)
        bots = {one.name: one.title for one in known if one.origin == "workspace"}
        trail = [("Metrics", address("/library", {"bot": bot}))]
        with frame(found.title, place="Metrics", about=str(found.definition.get("description", "")), trail=trail):
            _facts(found.definition)
            if may("edit"):
                _copying(found.name, bots, bot)
            GraphDrawing(found.definition)
            with section("YAML", "As its file has it, read-only."):
                text(metric_yaml(found.definition), "pre", "card code-block").props("tabindex=0")
            for name, source in found.prompts.items():
                with section(name, "A prompt template, read-only."):
                    text(source, "pre", "card code-block").props("tabindex=0")


def _cards(bot: str, metrics: list[MetricDefinition]) -> None:
    with ui.element("div").classes("cards"):
        for metric in metrics:
            definition = metric.definition
            badges: list[tuple[str, Tone]] = [(str(definition.get("kind")), "accent")]
            if definition.get("threshold") is not None:
                badges.append((f"passes at {definition['threshold']:g}", ""))
            if definition.get("steps") and definition.get("kind") == "g_eval":
                badges.append(("steps frozen", ""))
            judge = cast("str | Mapping[str, Any]", definition.get("judge") or {})
            if named := judge if isinstance(judge, str) else judge.get("model"):
                badges.append((f"judge {title_of('judge', named) if isinstance(judge, str) else named}", ""))
            about = str(definition.get("criteria") or definition.get("description") or "")
            card(metric.title, f"/bots/{bot}/metrics/{metric.name}", about, badges)


class _MetricSearch:
    """All metrics by family; a search finds those that contain all of its words."""

    def __init__(self, metrics: list[MetricDefinition], bot: str) -> None:
        query = address("", {"bot": bot})
        self._families: list[tuple[ui.element, list[tuple[ui.element, str]]]] = []
        with ui.element("div").classes("filters"):
            self._search = forms.line(
                forms.About("Search", "By name, description, family, or what a metric needs.", "faithful, contexts")
            )
            self._search.props("clearable type=search").on_value_change(self._filter)
        self._number = text("", classes="muted small").props("role=status")
        for family, members in groupby(sorted(metrics, key=_order), key=_family):
            with ui.element("div") as block, section(FAMILIES.get(family, family)), ui.element("div").classes("cards"):
                cards = [(_card(metric, query), _searched(metric)) for metric in members]
            self._families.append((block, cards))
        with ui.element("div") as self._nothing, empty("search_off", "No matching metrics", "Try other words."):
            button("Show all metrics", lambda: self._search.set_value(""))
        self._filter()

    def _filter(self) -> None:
        words = str(self._search.value or "").lower().split()
        number = 0
        for block, cards in self._families:
            fitting = [shown for shown, content in cards if all(word in content for word in words)]
            for shown, _ in cards:
                shown.set_visibility(shown in fitting)
            block.set_visibility(bool(fitting))
            number += len(fitting)
        self._nothing.set_visibility(not number)
        self._number.set_text(counted(number, "metric"))


def _card(metric: MetricDefinition, query: str) -> ui.element:
    badges: list[tuple[str, Tone]] = [(str(metric.definition.get("kind")), "accent")]
    if needs := ", ".join(metric.definition.get("needs") or []):
        badges.append((f"needs {needs}", ""))
    return card(
        metric.title, f"/library/{metric.name}{query}", str(metric.definition.get("description", "")), badges, "h3"
    )


def _searched(metric: MetricDefinition) -> str:
    definition = metric.definition
    family = _family(metric)
    parts = [
        metric.title,
        metric.name,
        definition.get("description") or "",
        definition.get("kind") or "",
        family,
        FAMILIES.get(family, family),
    ]
    return " ".join(map(str, [*parts, *(definition.get("needs") or [])])).lower()


def _facts(definition: Mapping[str, Any]) -> None:
    threshold, family = definition.get("threshold"), str(definition.get("family") or "")
    with ui.element("div").classes("card"):
        facts(
            [
                ("Kind", str(definition.get("kind"))),
                ("Family", FAMILIES.get(family, family)),
                ("Needs", ", ".join(definition.get("needs") or [])),
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


def _family(metric: MetricDefinition) -> str:
    return str(metric.definition.get("family") or "others")


def _order(metric: MetricDefinition) -> tuple[bool, str, str]:
    family = _family(metric)
    return family == "others", family, metric.name


_CAPITALISED = (
    *("agents", "answer", "checks", "citations", "coherence", "composite", "context", "conversation", "factual"),
    *("faithfulness", "guardrails", "match", "others", "preference", "relevance", "retrieval", "routing", "safety"),
    *("summarisation", "task", "text", "topics"),
)
FAMILIES: Mapping[str, str] = MappingProxyType(
    {"g_eval": "G-Eval", "rag": "RAG", **{name: name.capitalize() for name in _CAPITALISED}}
)
"""The headings of the families that ship; other people's are as they wrote them."""


class GraphDrawing:
    """Draws the graph of a metric of kind `graph`; nothing for another kind, and while the graph has a mistake."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self._place = ui.element("figure").classes("graph")
        self.show(definition)

    def show(self, definition: Mapping[str, Any]) -> None:
        """Draw another definition instead."""
        lines = drawing_of(definition)
        self._place.clear()
        self._place.set_visibility(bool(lines))
        if lines:
            with self._place:
                text("The way of a case", "figcaption", "label")
                text("\n".join(lines), "pre", "card code-block").props("tabindex=0")
