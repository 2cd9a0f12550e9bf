"""The library: the metrics that conf/ declares, by family, to be read and copied."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bots import list_bots
from evalflow.app.workspace.metric_yaml import metric_yaml
from evalflow.app.workspace.metrics import Metric, get_library, list_library
from evalflow.web.pages.address import page
from evalflow.web.pages.forms import About, line, pick
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import badge, button, empty, facts, link_button, message, section, text


def add(workspace: Workspace) -> None:
    """Register the pages."""

    @page("/library")
    async def library(bot: str = "") -> None:
        found = await to_thread.run_sync(list_library)
        about = "Metrics that are ready to use, each as it stands in conf/. A run takes them as they are."
        trail = [(f"Metrics of {bot}", f"/bots/{bot}/metrics")] if bot else []
        with frame("Metrics", place="Metrics", about=about, trail=trail):
            _Library(found, bot)

    @page("/library/{metric}")
    async def one(metric: str, bot: str = "") -> None:
        found = await to_thread.run_sync(get_library, workspace, metric)
        bots = [one.name for one in await to_thread.run_sync(list_bots, workspace) if one.origin == "workspace"]
        trail = [("Metrics", f"/library?bot={quote(bot)}" if bot else "/library")]
        with frame(found.name, place="Metrics", about=str(found.definition.get("description", "")), trail=trail):
            _facts(found.definition)
            _copying(found.name, bots, bot)
            with section("YAML", "As conf/ declares it, read-only."):
                text(metric_yaml(found.definition), "pre", "card code-block")
            for name, source in found.prompts.items():
                with section(name, "A template that it sends, read-only."):
                    text(source, "pre", "card code-block")


class _Library:
    """All metrics by family, of which those are shown that have every word of the search."""

    def __init__(self, metrics: list[Metric], bot: str) -> None:
        query = f"?bot={quote(bot)}" if bot else ""
        self._families: list[tuple[ui.element, list[tuple[ui.element, str]]]] = []
        with ui.element("div").classes("filters"):
            self._search = line(
                About("Search", "By name, description, family, or what a metric needs.", "faithful, contexts")
            )
            self._search.props("clearable type=search").on_value_change(self._filter)
        self._number = text("", classes="muted small").props("role=status")
        for family, members in groupby(sorted(metrics, key=_order), key=_family):
            with ui.element("div") as block, section(_words(family)), ui.element("div").classes("cards"):
                cards = [(_card(metric, query), _searched(metric)) for metric in members]
            self._families.append((block, cards))
        with ui.element("div") as self._nothing, empty("search_off", "No matching metrics", "Try other words."):
            button("Show all metrics", lambda: self._search.set_value(""))
        self._filter()

    def _filter(self) -> None:
        words = str(self._search.value or "").lower().split()
        number = 0
        for block, cards in self._families:
            fitting = [card for card, said in cards if all(word in said for word in words)]
            for card, _ in cards:
                card.set_visibility(card in fitting)
            block.set_visibility(bool(fitting))
            number += len(fitting)
        self._nothing.set_visibility(not number)
        self._number.set_text(f"{number} {'metric' if number == 1 else 'metrics'}")


def _card(metric: Metric, query: str) -> ui.element:
    with ui.link(target=f"/library/{metric.name}{query}").classes("card") as card:
        text(metric.name, "h3")
        text(str(metric.definition.get("description", "")), "p", "muted small clamp")
        with ui.element("div").classes("foot"):
            badge(str(metric.definition.get("kind")), "accent")
            needs = ", ".join(metric.definition.get("needs") or [])
            if needs:
                badge(f"needs {needs}")
    return card


def _searched(metric: Metric) -> str:
    """All of a metric in which the words of a search are looked for."""
    definition = metric.definition
    family = _family(metric)
    parts = [metric.name, definition.get("description") or "", definition.get("kind") or "", family, _words(family)]
    return " ".join(map(str, [*parts, *(definition.get("needs") or [])])).lower()


def _facts(definition: Mapping[str, Any]) -> None:
    threshold = definition.get("threshold")
    with ui.element("div").classes("card"):
        facts([
            ("Kind", str(definition.get("kind"))),
            ("Family", _words(str(definition.get("family") or ""))),
            ("Needs", ", ".join(definition.get("needs") or [])),
            ("Threshold", "" if threshold is None else f"{threshold:g}"),
            ("Direction", _words(str(definition.get("direction", "higher_is_better")))),
        ])  # fmt: skip


def _copying(metric: str, bots: list[str], bot: str) -> None:
    with section("Make it yours", "A copy can be changed; its templates come along."):
        if not bots:
            message("You have no bot yet that could have it.", "Describe one first.")
            link_button("New bot", "/bots/new", primary=True)
            return
        with ui.element("div").classes("form"):
            about = About("For the bot", "The copy belongs to it; other bots have copies of their own.", required=True)
            chosen = pick(about, bots, bot if bot in bots else bots[0])
            with ui.element("div").classes("actions"):
                button(
                    "Copy",
                    lambda: ui.navigate.to(f"/bots/{chosen.value}/metrics/new?source={metric}"),
                    kind="primary",
                )


def _family(metric: Metric) -> str:
    return str(metric.definition.get("family") or "others")


def _order(metric: Metric) -> tuple[bool, str, str]:
    family = _family(metric)
    return family == "others", family, metric.name


def _words(name: str) -> str:
    return "G-Eval" if name == "g_eval" else name.replace("_", " ").capitalize()
