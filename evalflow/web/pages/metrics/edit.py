"""A new metric of a bot, or another definition of one that is there: the form, or the same as YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bots import Bot, get_bot
from evalflow.app.workspace.datasets import list_datasets
from evalflow.app.workspace.library import endpoint_judges, own_prompts
from evalflow.app.workspace.metric_trial import WrittenSteps, write_steps
from evalflow.app.workspace.metrics import (
    Metric,
    MetricDraft,
    create_metric,
    delete_metric,
    get_library,
    get_metric,
    update_metric,
    with_prompts_of,
)
from evalflow.errors import EvalflowError, UserError
from evalflow.web.pages.address import page
from evalflow.web.pages.deleting import Deleting
from evalflow.web.pages.faults import attempt, show
from evalflow.web.pages.frame import frame
from evalflow.web.pages.metrics.as_yaml import YamlForm
from evalflow.web.pages.metrics.form import MetricForm, has_form
from evalflow.web.pages.metrics.trial import MetricTrial
from evalflow.web.pages.parts import button, link_button
from evalflow.web.pages.saving import Saving
from evalflow.web.pages.unsaved import form, leave


def add(workspace: Workspace) -> None:
    """Register the pages."""

    @page("/bots/{bot}/metrics/new")
    async def new(bot: str, source: str = "", view: str = "") -> None:
        around = await to_thread.run_sync(_around, workspace, bot)
        shown = await to_thread.run_sync(get_library, workspace, source) if source else None
        definition: Mapping[str, Any] = {"kind": "g_eval"} if view != "yaml" else {}
        prompts: Mapping[str, str] = {}
        if shown is not None:
            definition, prompts = await to_thread.run_sync(own_prompts, shown.name, shown.definition)
        title = f"Copy of {source}" if source else "New metric"
        with frame(title, place="Bots", trail=[(f"Metrics of {bot}", f"/bots/{bot}/metrics")]) as actions:
            editor = _New(workspace, around, definition, prompts, view, source)
            with actions:
                if not source:
                    link_button("From the library", f"/library?bot={bot}")
                editor.other_view(f"/bots/{bot}/metrics/new?source={source}&")

    @page("/bots/{bot}/metrics/{metric}")
    async def edit(bot: str, metric: str, view: str = "") -> None:
        around = await to_thread.run_sync(_around, workspace, bot)
        there = await to_thread.run_sync(get_metric, workspace, bot, metric)
        with frame(there.name, place="Bots", trail=[(f"Metrics of {bot}", f"/bots/{bot}/metrics")]) as actions:
            editor = _Edit(workspace, around, there, view)
            with actions:
                editor.other_view(f"/bots/{bot}/metrics/{metric}?")
                asked = editor.deletion()
                button("Delete", asked.open, kind="danger")


@dataclass(frozen=True, slots=True)
class _Around:
    """What an editor needs to know beside the metric."""

    bot: Bot
    datasets: Sequence[str]
    judges: Sequence[str]


def _around(workspace: Workspace, bot: str) -> _Around:
    datasets = [one.name for one in list_datasets(workspace)]
    return _Around(get_bot(workspace, bot), datasets, endpoint_judges())


class _Editor:
    """The form with what can be done with it."""

    def __init__(
        self,
        workspace: Workspace,
        around: _Around,
        definition: Mapping[str, Any],
        prompts: Mapping[str, str],
        view: str,
        name: str | None,
        proposed: str = "",
    ) -> None:
        self._workspace, self._bot, self._prompts = workspace, around.bot, prompts
        self._source = proposed
        self._has_form = has_form(definition, prompts)
        self._as_yaml = view == "yaml" or not self._has_form
        with form():
            self._form = (
                YamlForm(definition, prompts, name, proposed)
                if self._as_yaml
                else MetricForm(around.bot, around.judges, definition, name, self._write, proposed)
            )
        with ui.element("div").classes("section"):
            MetricTrial(
                workspace, self._bot.name, around.datasets, lambda: self._draft("new_metric"), self._form.fields
            )
        with ui.element("div").classes("section actions"):
            self._saving = button("Save", self._save, kind="primary")
            link_button("Cancel", self._path)

    def other_view(self, path: str) -> None:
        """A link to the same metric in the other view, where there is one."""
        if not self._as_yaml:
            link_button("As YAML", f"{path}view=yaml")
        elif self._has_form:
            link_button("As a form", path.rstrip("?&"))

    async def keep(self, draft: MetricDraft) -> None:
        """Store it and go on, or show why not."""
        raise NotImplementedError

    @property
    def _path(self) -> str:
        return f"/bots/{self._bot.name}/metrics"

    def _draft(self, unnamed: str = "") -> MetricDraft:
        prompts = self._form.prompts() if isinstance(self._form, YamlForm) else self._prompts
        draft = MetricDraft(self._form.named() or unnamed, self._form.read(), prompts)
        return with_prompts_of(draft, self._source) if self._source else draft

    async def _save(self) -> None:
        try:
            draft = self._draft()
        except UserError as error:
            show(error, self._form.fields)
            return
        await self.keep(draft)

    async def _write(self, by: ui.button) -> WrittenSteps | None:
        for field in self._form.fields.values():
            field.error = None
        by.props("loading")
        try:
            draft = self._draft("new_metric")
            return await self._workspace.ask(lambda: write_steps(self._workspace, self._bot.name, draft))
        except EvalflowError as error:
            show(error, self._form.fields)
            return None
        finally:
            by.props(remove="loading")


class _New(_Editor):
    def __init__(
        self,
        workspace: Workspace,
        around: _Around,
        definition: Mapping[str, Any],
        prompts: Mapping[str, str],
        view: str,
        source: str,
    ) -> None:
        super().__init__(workspace, around, definition, prompts, view, None, source)

    async def keep(self, draft: MetricDraft) -> None:
        work = lambda: create_metric(self._workspace, self._bot.name, draft)  # noqa: E731
        if await attempt(work, self._form.fields, self._saving):
            leave(self._path)


class _Edit(_Editor):
    def __init__(self, workspace: Workspace, around: _Around, metric: Metric, view: str) -> None:
        self._metric = metric
        super().__init__(workspace, around, metric.definition, metric.prompts, view, metric.name)
        query = "?view=yaml" if view == "yaml" else ""
        self._conflict = Saving[Metric](self._there, metric.version, f"{self._path}/{metric.name}{query}")

    def _there(self) -> tuple[Mapping[str, Any], int]:
        found = get_metric(self._workspace, self._bot.name, self._metric.name)
        return {**found.definition, **found.prompts}, found.version

    async def keep(self, draft: MetricDraft) -> None:
        prompts = self._metric.prompts if draft.prompts is None else draft.prompts
        await self._conflict.save(
            lambda version: update_metric(self._workspace, self._bot.name, draft, version),
            {**draft.definition, **prompts},
            self._form.fields,
            self._saving,
            lambda _: leave(self._path),
        )

    def deletion(self) -> Deleting:
        """Asks before the metric is deleted."""
        metric = self._metric
        return Deleting(
            f"Delete {metric.name}?",
            "Runs that used it stay, with their scores.",
            lambda version: delete_metric(self._workspace, self._bot.name, metric.name, version),
            ({**metric.definition, **metric.prompts}, metric.version),
            self._there,
            self._path,
        )
