"""A metric: define or change it, as a form or as YAML."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.metric_form import NEW, MetricForm, YamlForm, why_no_form
from evalflow.addons.studio.web.pages.metric_trial import TrialCard, case_sources
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Edited, Saving, delete_button
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.naming import TitleField
from evalflow.addons.studio.web.ui.parts import address, button, link_button, message, plain_button, text
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work import metrics
from evalflow.addons.studio.work.bots import Bot, get_bot
from evalflow.addons.studio.work.judges import StoredJudge, has_models, list_judges
from evalflow.addons.studio.work.metric_trial import write_steps
from evalflow.addons.studio.work.reruns import changeable_metrics, run_with_metric, uses_cache
from evalflow.addons.studio.work.runs import changed_request, get_run
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.trial_process import WrittenSteps
from evalflow.errors import Problem, UserError


@guarded_page("/bots/{bot}/metrics/new", "edit")
async def _new_page(workspace: Workspace, bot: str, source: str = "", view: str = "", run: str = "") -> None:
    around = await to_thread.run_sync(_read_around, workspace, bot)
    definition: Mapping[str, Any] = NEW if view != "yaml" else {}
    prompts: Mapping[str, str] = {}
    if source:
        copied = await to_thread.run_sync(metrics.get_library, workspace, source)
        definition, prompts = await to_thread.run_sync(metrics.own_prompts, copied.name, copied.definition)
    again = await to_thread.run_sync(_read_again, workspace, bot, run, source) if run else None
    title = f"Copy of {title_of('metric', source)}" if source else "New metric"
    with frame(title, place="Bots", trail=around.trail) as actions:
        _MetricEditor(workspace, around, definition, prompts, view, source=source, again=again)
        if not source:
            with actions:
                link_button("From the library", f"/library?bot={bot}")


@guarded_page("/bots/{bot}/metrics/{metric}")
async def _edit_page(workspace: Workspace, bot: str, metric: str, view: str = "", run: str = "") -> None:
    around = await to_thread.run_sync(_read_around, workspace, bot)
    stored = await to_thread.run_sync(metrics.get_metric, workspace, bot, metric)
    again = await to_thread.run_sync(_read_again, workspace, bot, run, metric) if run and may("edit") else None
    with frame(stored.title, place="Bots", trail=around.trail) as actions:
        editor = _MetricEditor(workspace, around, stored.definition, stored.prompts, view, stored=stored, again=again)
        if may("edit"):
            with actions:
                editor.delete_button(stored)


@dataclass(frozen=True, slots=True)
class _Around:
    """The context of the form: the bot, the names of its metrics, datasets, and the judges to choose from."""

    bot: Bot
    metrics: Sequence[str]
    datasets: Mapping[str, str]
    judges: Sequence[StoredJudge]

    @property
    def trail(self) -> list[tuple[str, str]]:
        return [(f"Metrics of {self.bot.title}", f"/bots/{self.bot.name}/metrics")]


def _read_around(workspace: Workspace, bot: str) -> _Around:
    judges = [one for one in list_judges(workspace) if has_models(one)]
    own = [one.name for one in metrics.list_metrics(workspace, bot)]
    return _Around(get_bot(workspace, bot), own, case_sources(workspace), judges)


@dataclass(frozen=True, slots=True)
class _Again:
    """A run to repeat once the metric is saved; `instead` is the metric's name in it."""

    run: str
    instead: str
    is_cached: bool


def _read_again(workspace: Workspace, bot: str, run: str, metric: str) -> _Again:
    changeable = changeable_metrics(workspace, run).get(metric)
    if changeable is None or changeable.bot != bot:
        what = f"run {run} cannot be graded again with another metric instead of {metric or 'none'}"
        raise UserError(Problem(what, "run", "open the metric from the page of the run"))
    return _Again(run, metric, uses_cache(workspace, changed_request(get_run(workspace, run))))


class _MetricEditor:
    """The form or the YAML of a metric, with its trial.

    `source`: the metric of the library that a new one copies.
    """

    def __init__(
        self,
        workspace: Workspace,
        around: _Around,
        definition: Mapping[str, Any],
        prompts: Mapping[str, str],
        view: str,
        *,
        stored: metrics.MetricDefinition | None = None,
        source: str = "",
        again: _Again | None = None,
    ) -> None:
        self._workspace, self._around, self._bot, self._prompts = workspace, around, around.bot.name, prompts
        self._stored, self._source, self._again = stored, source, again
        self._key = f"metric-{uuid.uuid4().hex}"
        self._folder = stored.name if stored else source or _UNNAMED  # of its own templates, until it is saved
        self._path = f"/bots/{self._bot}/metrics"
        self._form: YamlForm | MetricForm
        self._fields: dict[str, forms.Field] = {}
        why = why_no_form(definition, prompts)
        with ui.element("div").classes("metric-editor"):
            with forms.form(kept=True):
                title = stored.title if stored else title_of("metric", source) if source else ""
                name = stored.name if stored else ""
                self._title = TitleField("metric", "Factual accuracy", around.metrics, title, name)
                with ui.element("div").classes("actions views").props('role=group aria-label="Show as"'):
                    self._views = {
                        "form": plain_button("Form", lambda: self._switch("form")),
                        "yaml": plain_button("YAML", lambda: self._switch("yaml")),
                    }
                self._why = ui.element("div").props("aria-live=polite")
                self._place = ui.element("div").classes("form")
            if may("edit"):
                draft = lambda: self._draft(_UNNAMED)  # noqa: E731
                self._trial = TrialCard(workspace, self._bot, around.datasets, draft, self._fields)
            with forms.unsaved(kept=True) as self._rest:
                self._rest.classes("form rest")
        self._build("yaml" if why or view == "yaml" else "form", definition, why)
        if not may("edit"):
            return
        if again and not again.is_cached:
            message("This run does without saved replies.", _PAID_AGAIN, "warn")
        self._unstarted = ui.element("div").props("aria-live=polite")
        with ui.element("div").classes("section actions"):
            if again:
                label, done = _GRADE_AGAIN, partial(self._compare, again)
                if not again.is_cached:
                    label, done = "Save and see the estimate", partial(self._estimate, again)
                grading = button(label, lambda: self._save(grading, partial(done, grading)), kind="primary")
            saving = button("Save", lambda: self._save(saving, self._leave), kind="" if again else "primary")
            self._cancel = link_button("Cancel", f"/runs/{again.run}" if again else self._path)
        self._saving = Saving(self._edited(), f"{self._path}/{stored.name if stored else ''}")

    def _build(self, view: str, definition: Mapping[str, Any], why: str = "") -> None:
        """Show a definition as form or YAML; `why` says why there is no form."""
        self._fields.clear()
        self._fields |= self._title.fields
        for place in (self._place, self._rest, self._why):
            place.clear()
        with self._why:
            if why:
                message("This metric has no form.", why)
        with self._place:
            if view == "yaml":
                self._form = YamlForm(definition, self._prompts, self._fields)
            else:
                bot, judges = self._around.bot, self._around.judges
                self._form = MetricForm(
                    bot,
                    judges,
                    definition,
                    self._prompts,
                    self._fields,
                    self._write,
                    self._rest,
                    folder=self._folder,
                    followed=self._follow,
                )
        if self._stored is None and not self._source:
            with self._form.kinds if isinstance(self._form, MetricForm) else self._why:
                _examples(self._bot)
        if not may("edit"):
            forms.lock(self._place, self._rest)
        for name, pressed in self._views.items():
            pressed.props["aria-pressed"] = "true" if name == view else "false"

    def _switch(self, view: str) -> None:
        """Switch to the other view, unless the entries are invalid or have no form."""
        if (view == "yaml") == isinstance(self._form, YamlForm):
            return
        with forms.faults_shown(self._fields):
            definition, self._prompts = self._form.read(), self._form.prompts()
            why = why_no_form(definition, self._prompts) if view == "form" else ""
            self._build("yaml" if why else view, definition, why)
            if not why:
                ui.run_javascript(_SHOW_AS.format(view="yaml" if view == "yaml" else ""))

    def delete_button(self, metric: metrics.MetricDefinition) -> None:
        """A button that asks before the metric is deleted."""
        about = "Runs that used it stay, with their scores."
        delete = partial(metrics.delete_metric, self._workspace, self._bot, metric.name)
        delete_button(self._edited(), metric.title, about, delete, self._path)

    def _edited(self) -> Edited[metrics.MetricDefinition]:
        def read() -> metrics.MetricDefinition:
            return metrics.get_metric(self._workspace, self._bot, self._stored.name if self._stored else "")

        return Edited(read, _content, self._stored)

    def _draft(self, unnamed: str = "") -> metrics.MetricDraft:
        typed = self._title.name or unnamed, self._title.title or None
        name, title = typed if unnamed else self._title.read(self._fields)
        draft = metrics.MetricDraft(name, self._form.read(), self._form.prompts(), title)
        return metrics.with_prompts_of(draft, self._folder)

    def _leave(self, _: metrics.MetricDefinition) -> None:
        forms.leave(self._path)

    async def _compare(self, again: _Again, by: ui.button, saved: metrics.MetricDefinition) -> None:
        """Repeat the run with the saved metric, and show what has changed."""
        self._keep(saved)
        work = partial(run_with_metric, self._workspace, again.run, saved.name, again.instead, self._key)
        if (started := await forms.attempt(work, self._fields, by)) is not None:
            both = {"a": again.run, "b": started.run_id, "allow": "metric,prompt,judge"}
            forms.leave(address("/compare", both))
            return
        self._cancel.set_text("Back to the run")
        with self._unstarted:
            message(
                "The metric is saved; the run could not be started.", f"Press “{_GRADE_AGAIN}” to try again.", "warn"
            )

    def _estimate(self, again: _Again, _: ui.button, saved: metrics.MetricDefinition) -> None:
        """Show what the run with the saved metric costs, before it is started."""
        forms.leave(address("/runs/new", {"source": again.run, "metric": saved.name, "instead": again.instead}))

    def _keep(self, saved: metrics.MetricDefinition) -> None:
        """Stay on the page with a metric that was saved, so that the next press changes it."""
        self._stored = saved
        self._saving.renew(saved.version, f"{self._path}/{saved.name}")
        self._title.keep()
        forms.saved()

    async def _save(self, by: ui.button, done: Callable[[metrics.MetricDefinition], Awaitable[None] | None]) -> None:
        self._unstarted.clear()
        with forms.faults_shown(self._fields):
            draft = self._draft()

            def work(version: int) -> metrics.MetricDefinition:
                if self._stored is None:
                    return metrics.create_metric(self._workspace, self._bot, draft)
                return metrics.update_metric(self._workspace, self._bot, draft, version)

            mine = {"title": draft.title, **draft.definition, **(draft.prompts or {})}
            await self._saving.save(work, mine, self._fields, by, done)

    async def _follow(self) -> None:
        if may("edit"):
            await self._trial.follow()

    async def _write(self, by: ui.button) -> WrittenSteps | None:
        with forms.faults_shown(self._fields, by):
            draft = self._draft(_UNNAMED)
            return await self._workspace.ask(lambda: write_steps(self._workspace, self._bot, draft))
        return None


_GRADE_AGAIN = "Save, grade again and compare"
_PAID_AGAIN = "Its cache is off or refreshed, so everything that it asks is paid again. Look at the estimate first."
_SHOW_AS = """const here = new URL(location), view = "{view}";
if (view) here.searchParams.set("view", view); else here.searchParams.delete("view");
history.replaceState(null, "", here);"""
_UNNAMED = "new_metric"
"""The name of a metric that has none yet."""
_EXAMPLES = {
    "criteria": "Several criteria in one call",
    "sql_equivalence": "SQL, by running it",
    "answerability": "A decision graph",
    "faithfulness": "Steps of a judge",
}
"""Metrics of the library to start from, of kinds without a form."""


def _examples(bot: str) -> None:
    with ui.element("p").classes("small muted"):
        text("Other kinds, from an example as YAML: ", "span")
        for number, (name, about) in enumerate(_EXAMPLES.items()):
            if number:
                text(" · ", "span")
            ui.link(about, f"/bots/{bot}/metrics/new?source={name}")


def _content(metric: metrics.MetricDefinition) -> dict[str, Any]:
    return {"title": metric.title, **metric.definition, **metric.prompts}
