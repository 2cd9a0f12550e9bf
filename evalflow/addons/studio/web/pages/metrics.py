"""The metrics of a bot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.metric_words import kind_in_words, way_of
from evalflow.addons.studio.web.ui.parts import (
    Tone,
    card,
    empty,
    link_button,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work.bots import get_bot
from evalflow.addons.studio.work.metrics import MetricDefinition, list_metrics
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.graphs import drawing_of


@guarded_page("/bots/{bot}/metrics")
async def _metrics_page(workspace: Workspace, bot: str) -> None:
    owner = await to_thread.run_sync(get_bot, workspace, bot)
    metrics = await to_thread.run_sync(list_metrics, workspace, bot)
    about = "What a good answer of this bot is. Runs can also use any metric of the library."
    trail = [(owner.title, f"/bots/{bot}")]
    with frame(f"Metrics of {owner.title}", place="Bots", about=about, trail=trail) as actions:
        if owner.origin == "conf":
            about = "This bot is from files of this server; its runs use the library. A copy can have its own metrics."
            copy = [("Copy this bot", f"/bots/new?source={bot}")] if may("edit") else []
            with empty("content_copy", "Metrics belong to your own bots", about, *copy):
                link_button("See the library", "/library")
        elif metrics:
            if may("edit"):
                with actions:
                    link_button("From the library", f"/library?bot={bot}")
                    link_button("New metric", f"/bots/{bot}/metrics/new", primary=True)
            _cards(bot, metrics)
        elif not may("edit"):
            with empty("rule", "No metrics yet", "Editors of the project say what a good answer of this bot is."):
                link_button("See the library", "/library")
        else:
            about = "Describe a good answer in words and try it on a case, or start from the library."
            steps = ("New metric", f"/bots/{bot}/metrics/new"), ("From the library", f"/library?bot={bot}")
            empty("rule", "Define a good answer", about, *steps)


def _cards(bot: str, metrics: list[MetricDefinition]) -> None:
    with ui.element("div").classes("cards"):
        for metric in metrics:
            definition = metric.definition
            badges: list[tuple[str, Tone]] = [(kind_in_words(way_of(definition, metric.prompts)), "accent")]
            if definition.get("threshold") is not None:
                badges.append((f"passes at {definition['threshold']:g}", ""))
            if definition.get("steps") and definition.get("kind") == "g_eval":
                badges.append(("steps frozen", ""))
            judge = cast("str | Mapping[str, Any]", definition.get("judge") or {})
            if named := judge if isinstance(judge, str) else judge.get("model"):
                badges.append((f"judge {title_of('judge', named) if isinstance(judge, str) else named}", ""))
            about = str(definition.get("criteria") or definition.get("description") or "")
            card(metric.title, f"/bots/{bot}/metrics/{metric.name}", about, badges)


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
