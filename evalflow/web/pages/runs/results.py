"""What a run found: each metric over all cases, the gates, the tags, and every score."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.web.pages.parts import section, text
from evalflow.web.pages.runs.gates import gates
from evalflow.web.pages.runs.metric_card import MetricCard
from evalflow.web.pages.runs.overview import overview
from evalflow.web.pages.runs.score_filter import Wanted
from evalflow.web.pages.runs.score_list import ScoreList
from evalflow.web.pages.runs.tag_table import TagTable
from evalflow.web.pages.runs.words import ACTIVE

Tags = Sequence[tuple[str, int]]


class Results:
    """The parts of a page of results, which know of each other: a threshold moves the list of scores too.

    The list is there from the first score on, and stays as it is when the run ends: it may just be read.

    Args:
        workspace: The door to what is stored.
        run: As it is now.
        wanted: Which scores are to be seen at first.
        tags: What there is to choose from.
    """

    def __init__(self, workspace: Workspace, run: Run, wanted: Wanted, tags: Tags) -> None:
        self._workspace = workspace
        self._thresholds: dict[str, float] = {}
        self._cards: list[MetricCard] = []
        self._tags: TagTable | None = None
        self._overall = ui.element("div")
        with ui.element("section").classes("section") as self._each:
            self._heading = text("", "h2")
            text("Every score with its reason; a question leads to its whole case.", "p", "muted")
            self._list = ScoreList(workspace, run, wanted, tags, lambda: self._thresholds)
        self.show(run, tags)

    def show(self, run: Run, tags: Tags) -> None:
        """Go on with the run as it is now; what takes a look at many scores follows with `fill`."""
        self._heading.set_text("Scored so far" if run.state in ACTIVE else "Each case")
        self._each.set_visibility(bool(run.state in ACTIVE or run.facts or run.progress.done))
        self._list.follow(run, tags)
        self._overall.clear()
        self._cards, self._tags = [], None
        if run.facts:
            with self._overall:
                self._build(run, tags)

    def _build(self, run: Run, tags: Tags) -> None:
        overview(run)
        about = "Each metric over all cases, with its 95 % interval. Moving a threshold asks nobody anything."
        with section("Overall", about), ui.element("div").classes("metrics"):
            self._cards = [
                MetricCard(self._workspace, run, metric, self._moved, self._pick)
                for metric in run.facts.get("metrics", [])
            ]
        gates(run.facts.get("gates", []))
        if tags:
            self._tags = TagTable(self._workspace, run, self._pick)

    async def fill(self) -> None:
        """Show what takes a look at many scores; after the first paint."""
        await self._list.load()
        for card in self._cards:
            await card.load()
        if self._tags is not None:
            await self._tags.load()

    async def add(self) -> None:
        """Show what has been scored since."""
        await self._list.load()

    async def _moved(self, metric: str, threshold: float | None) -> None:
        if threshold is None:
            self._thresholds.pop(metric, None)
        else:
            self._thresholds[metric] = threshold
        await self._list.rejudge()

    async def _pick(self, **values: str) -> None:
        self._list.bar.focus()
        await self._list.bar.set(**values)
