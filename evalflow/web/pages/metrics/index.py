"""The metrics of a bot: how its answers become scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bots import get_bot
from evalflow.app.workspace.metrics import Metric, list_metrics
from evalflow.web.pages.address import page
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import badge, empty, link_button, text


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/bots/{bot}/metrics")
    async def metrics(bot: str) -> None:
        owner = await to_thread.run_sync(get_bot, workspace, bot)
        found = await to_thread.run_sync(list_metrics, workspace, bot)
        about = "What good means for this bot. Runs may also take any metric of the library as it is."
        with frame(f"Metrics of {bot}", place="Bots", about=about, trail=[(bot, f"/bots/{bot}")]) as actions:
            if owner.origin == "conf":
                _of_conf(bot)
            elif found:
                with actions:
                    link_button("From the library", f"/library?bot={bot}")
                    link_button("New metric", f"/bots/{bot}/metrics/new", primary=True)
                _cards(bot, found)
            else:
                _none_yet(bot)


def _cards(bot: str, metrics: list[Metric]) -> None:
    with ui.element("div").classes("cards"):
        for metric in metrics:
            definition = metric.definition
            with ui.link(target=f"/bots/{bot}/metrics/{metric.name}").classes("card"):
                text(metric.name, "h3")
                said = definition.get("criteria") or definition.get("description") or ""
                text(str(said), "p", "muted small clamp")
                with ui.element("div").classes("foot"):
                    badge(str(definition.get("kind")), "accent")
                    if definition.get("threshold") is not None:
                        badge(f"passes at {definition['threshold']:g}")
                    if definition.get("steps") and definition.get("kind") == "g_eval":
                        badge("steps frozen")
                    judge = cast("Mapping[str, Any]", definition.get("judge") or {})
                    if judge.get("model"):
                        badge(f"judge {judge['model']}")


def _none_yet(bot: str) -> None:
    about = "Say in words what a good answer is, and try it on a case; or begin with one of the library."
    with empty("rule", "Say what good means", about):
        link_button("New metric", f"/bots/{bot}/metrics/new", primary=True)
        link_button("From the library", f"/library?bot={bot}")


def _of_conf(bot: str) -> None:
    about = "This bot is declared in conf/, and runs of it use the library. A copy has metrics of its own."
    with empty("content_copy", "Metrics belong to your own bots", about):
        link_button("Copy this bot", f"/bots/new?source={bot}", primary=True)
        link_button("See the library", "/library")
