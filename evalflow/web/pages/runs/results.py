"""What a run found: each metric over all cases, the gates, the tags, and every score."""

from __future__ import annotations

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.scores import run_tags
from evalflow.web.pages.parts import section
from evalflow.web.pages.runs.gates import gates
from evalflow.web.pages.runs.metric_card import MetricCard
from evalflow.web.pages.runs.overview import overview
from evalflow.web.pages.runs.score_filter import Wanted
from evalflow.web.pages.runs.score_list import ScoreList
from evalflow.web.pages.runs.tag_table import TagTable


class Results:
    """The parts of a page of results, which know of each other: a threshold moves the list of scores too."""

    def __init__(self, workspace: Workspace, run: Run, wanted: Wanted, tags: list[tuple[str, int]]) -> None:
        self._thresholds: dict[str, float] = {}
        overview(run)
        about = "Each metric over all cases, with its 95 % interval. Moving a threshold asks nobody anything."
        with section("Overall", about), ui.element("div").classes("metrics"):
            self._cards = [
                MetricCard(workspace, run, metric, self._moved, self._pick) for metric in run.facts.get("metrics", [])
            ]
        gates(run.facts.get("gates", []))
        self._tags = TagTable(workspace, run, self._pick) if tags else None
        with section("Each case", "Every score with its reason; a question leads to its whole case."):
            self._list = ScoreList(workspace, run, wanted, tags, lambda: self._thresholds)
        ui.timer(0, self._fill, once=True)

    async def _fill(self) -> None:
        """After the first paint, what takes a look at many scores."""
        await self._list.load()
        for card in self._cards:
            await card.load()
        if self._tags is not None:
            await self._tags.load()

    async def _moved(self, metric: str, threshold: float | None) -> None:
        if threshold is None:
            self._thresholds.pop(metric, None)
        else:
            self._thresholds[metric] = threshold
        await self._list.rejudge()

    async def _pick(self, **values: str) -> None:
        self._list.bar.focus()
        await self._list.bar.set(**values)


async def results(workspace: Workspace, run: Run, wanted: Wanted) -> None:
    """Build the results of a run that has ended at least once."""
    tags = await to_thread.run_sync(run_tags, workspace, run.run_id)
    Results(workspace, run, wanted, tags)
