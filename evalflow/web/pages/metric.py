"""A metric: define or change it, as a form or as YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio import metrics
from evalflow.app.studio.bots import Bot, get_bot
from evalflow.app.studio.datasets import list_datasets
from evalflow.app.studio.judges import list_judges
from evalflow.app.studio.metric_trial import WrittenSteps, write_steps
from evalflow.app.studio.metric_yaml import KEY, metric_yaml, read_metric_yaml
from evalflow.app.studio.space import Workspace
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.registry import METRIC_KINDS
from evalflow.web.pages.metric_fields import JudgeFields, ScaleFields, StepsFields, WriteSteps
from evalflow.web.pages.metric_trial import TrialCard
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import Deleting, Saving, State
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import button, link_button, message, plain_button, text
from evalflow.web.ui.visitor import may


def add() -> None:
    """Register the pages."""

    @guarded_page("/bots/{bot}/metrics/new", "edit")
    async def new(workspace: Workspace, bot: str, source: str = "", view: str = "") -> None:
        around = await to_thread.run_sync(_read_around, workspace, bot)
        definition: Mapping[str, Any] = {"kind": "g_eval"} if view != "yaml" else {}
        prompts: Mapping[str, str] = {}
        if source:
            copied = await to_thread.run_sync(metrics.get_library, workspace, source)
            definition, prompts = await to_thread.run_sync(metrics.own_prompts, copied.name, copied.definition)
        title = f"Copy of {source}" if source else "New metric"
        with frame(title, place="Bots", trail=[(f"Metrics of {bot}", f"/bots/{bot}/metrics")]) as actions:
            _MetricEditor(workspace, around, definition, prompts, view, source=source)
            if not source:
                with actions:
                    link_button("From the library", f"/library?bot={bot}")

    @guarded_page("/bots/{bot}/metrics/{metric}")
    async def edit(workspace: Workspace, bot: str, metric: str, view: str = "") -> None:
        around = await to_thread.run_sync(_read_around, workspace, bot)
        stored = await to_thread.run_sync(metrics.get_metric, workspace, bot, metric)
        with frame(stored.name, place="Bots", trail=[(f"Metrics of {bot}", f"/bots/{bot}/metrics")]) as actions:
            editor = _MetricEditor(workspace, around, stored.definition, stored.prompts, view, stored=stored)
            if may("edit"):
                with actions:
                    button("Delete", editor.deletion(stored).open, kind="danger")


@dataclass(frozen=True, slots=True)
class _Around:
    """The context of the form: the bot, and names of datasets and judges."""

    bot: Bot
    datasets: Sequence[str]
    judges: Sequence[str]


def _read_around(workspace: Workspace, bot: str) -> _Around:
    datasets = [one.name for one in list_datasets(workspace)]
    return _Around(
        get_bot(workspace, bot), datasets, [judge.name for judge in list_judges(workspace) if judge.config.get("model")]
    )


class _MetricEditor:
    """The form or the YAML of a metric, with its trial. `source`: the metric of the library that a new one copies."""

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
    ) -> None:
        self._workspace, self._around, self._bot, self._prompts = workspace, around, around.bot.name, prompts
        self._stored, self._source = stored, source
        self._path = f"/bots/{self._bot}/metrics"
        self._form: YamlForm | MetricForm
        self._fields: dict[str, forms.Field] = {}
        self._name: forms.NameField | None = None
        why = why_no_form(definition, prompts)
        with ui.element("div").classes("metric-editor"):
            with forms.form(locked=not may("edit")) as self._left:
                if stored is None:
                    self._name = forms.NameField("Factual Accuracy", source)
                with ui.element("div").classes("actions views").props('role=group aria-label="Show as"'):
                    self._views = {
                        "form": plain_button("Form", lambda: self._switch("form")),
                        "yaml": plain_button("YAML", lambda: self._switch("yaml")),
                    }
                self._why = ui.element("div").props("aria-live=polite")
                self._place = ui.element("div").classes("form")
                if why or view == "yaml":
                    self._build("yaml", definition, why)
                else:
                    self._build("form", definition)
            if may("edit"):
                TrialCard(workspace, self._bot, around.datasets, lambda: self._draft("new_metric"), self._fields)
        if not may("edit"):
            return
        with ui.element("div").classes("section actions"):
            self._button = button("Save", self._save, kind="primary")
            link_button("Cancel", self._path)
        name, version = (stored.name, stored.version) if stored else ("", 0)
        self._saving = Saving[metrics.MetricDefinition](
            lambda: self._read_stored(name), version, f"{self._path}/{name}"
        )

    def _build(self, view: str, definition: Mapping[str, Any], why: str = "") -> None:
        """Show a definition as the form or as YAML; `why` it has no form."""
        self._fields.clear()
        if self._name:
            self._fields["metric.name"] = self._name.field
        self._place.clear()
        self._why.clear()
        with self._why:
            if why:
                message("This metric has no form.", why)
        with self._place:
            if view == "yaml":
                self._form = YamlForm(definition, self._prompts, self._fields)
            else:
                self._form = MetricForm(self._around, definition, self._fields, self._write)
        for name, pressed in self._views.items():
            pressed.props["aria-pressed"] = "true" if name == view else "false"

    def _switch(self, view: str) -> None:
        """Show what is entered in the other view; it stays as it is if it is wrong, or has no form."""
        if (view == "yaml") == isinstance(self._form, YamlForm):
            return
        with forms.faults_shown(self._fields):
            definition = self._form.read()
            if isinstance(self._form, YamlForm):
                self._prompts = self._form.prompts()
            why = why_no_form(definition, self._prompts) if view == "form" else ""
            self._build("yaml" if why else view, definition, why)
            if not why:
                query = "?view=yaml" if view == "yaml" else ""
                ui.run_javascript(f"history.replaceState(null, '', location.pathname + {query!r})")

    def deletion(self, metric: metrics.MetricDefinition) -> Deleting:
        """A dialog that asks before the metric is deleted."""
        return Deleting(
            f"Delete {metric.name}?",
            "Runs that used it stay, with their scores.",
            lambda version: metrics.delete_metric(self._workspace, self._bot, metric.name, version),
            lambda: self._read_stored(metric.name),
            ({**metric.definition, **metric.prompts}, metric.version),
            self._path,
        )

    def _read_stored(self, name: str) -> State:
        found = metrics.get_metric(self._workspace, self._bot, name)
        return {**found.definition, **found.prompts}, found.version

    def _draft(self, unnamed: str = "") -> metrics.MetricDraft:
        prompts = self._form.prompts() if isinstance(self._form, YamlForm) else self._prompts
        name = self._stored.name if self._stored else self._name.read() if self._name else ""
        draft = metrics.MetricDraft(name or unnamed, self._form.read(), prompts)
        return metrics.with_prompts_of(draft, self._source) if self._source else draft

    async def _save(self) -> None:
        with forms.faults_shown(self._fields):
            draft = self._draft()

            def work(version: int) -> metrics.MetricDefinition:
                if self._stored is None:
                    return metrics.create_metric(self._workspace, self._bot, draft)
                return metrics.update_metric(self._workspace, self._bot, draft, version)

            mine = {**draft.definition, **(self._prompts if draft.prompts is None else draft.prompts)}
            await self._saving.save(work, mine, self._fields, self._button, lambda _: forms.leave(self._path))

    async def _write(self, by: ui.button) -> WrittenSteps | None:
        with forms.faults_shown(self._fields, by):
            draft = self._draft("new_metric")
            return await self._workspace.ask(lambda: write_steps(self._workspace, self._bot, draft))
        return None


class YamlForm:
    """A field with the YAML, and one for each template; they are added to the fields by key."""

    def __init__(
        self, definition: Mapping[str, Any], prompts: Mapping[str, str], fields: dict[str, forms.Field]
    ) -> None:
        self.fields = fields
        help = "The content of the metric's file, below its package line. Checked as on the command line."
        about = forms.About("YAML", help, "kind: check", required=True, code=True)
        fields[KEY] = forms.area(about, metric_yaml(definition) if definition else "")
        help = "The prompt for the judge, with fields of the case in braces, e.g. {{ question }}."
        self._prompts = {
            file: forms.area(forms.About(file, help, required=True, code=True), source)
            for file, source in prompts.items()
        }
        if not prompts:
            text("A metric copied from the library has its templates here.", classes="aside")
        # By file name, because a copy's templates are in another folder.
        fields |= {Path(file).name: field for file, field in self._prompts.items()}

    def read(self) -> dict[str, Any]:
        """The definition."""
        return read_metric_yaml(str(self.fields[KEY].value or ""))

    def prompts(self) -> dict[str, str]:
        """The templates by name."""
        return {file: str(field.value or "") for file, field in self._prompts.items()}


_WAYS = (
    forms.FormOption("g_eval", "G-Eval", "Criteria in words, evaluation steps, a weighted grade.", "checklist_rtl"),
    forms.FormOption("rubric", "Rubric", "One criterion and a scale: yes or no, words, grades.", "straighten"),
)
_CASE_FIELDS = MappingProxyType({
    "question": "Question",
    "answer": "Answer",
    "reference": "Expected answer",
    "contexts": "Context",
    "history": "Earlier turns",
    "messages": "Whole conversation",
    "metadata": "Metadata of the answer",
    "expected": "Expected label",
    "actual": "Predicted label",
})  # fmt: skip
"""Case fields that can be shown to a judge."""
_DIRECTIONS = MappingProxyType({"higher_is_better": "Higher is better", "lower_is_better": "Lower is better"})
_CRITERION_KEY = MappingProxyType({"g_eval": "criteria", "rubric": "description"})
_SPOKEN_OF = MappingProxyType({
    "reference": (r"\b(expected|reference|ideal|model) answer|\breference\b|\bground truth\b", "expected answer"),
    "contexts": (r"\b(contexts?|passages?|sources?|documents?)\b", "context"),
})  # fmt: skip
"""Words of criteria that speak of a case field, and what it is called."""
_INPUTS = "vars"
_GRADED = ("criteria", "description", "steps", "needs", "optional", _INPUTS)
"""Fields that depend on the kind."""


def why_no_form(definition: Mapping[str, Any], prompts: Mapping[str, str]) -> str:
    """Why the form cannot show a metric; empty if it can."""
    key = _CRITERION_KEY.get(str(definition.get("kind")))
    if key is None:
        return f"The form is for the kinds g_eval and rubric. This one is of the kind {definition.get('kind')}."
    if prompts and not any(key in template for template in prompts.values()):
        return f"Its prompts do not use {key}."
    if unknown := [
        name for name in definition if name not in METRIC_KINDS.config(str(definition["kind"])).model_fields
    ]:
        near = did_you_mean(unknown[0], METRIC_KINDS.config(str(definition["kind"])).model_fields)
        return f"It has an unknown key {unknown[0]!r}; {near}."
    return ""


class MetricForm:
    """The form of a G-Eval or rubric metric; keys without a field are kept. It adds its fields to `fields`, by key."""

    def __init__(
        self,
        around: _Around,
        definition: Mapping[str, Any],
        fields: dict[str, forms.Field],
        write: WriteSteps,
    ) -> None:
        self._definition = dict(definition)
        self._kind: str = definition.get("kind", "g_eval")
        self._write = write
        self.fields = fields
        self._criterion = self._build_criterion()
        self._offers = ui.element("div").classes("actions").props("aria-live=polite")
        self._criterion.on_value_change(self._offer)
        self._folds: dict[str, ui.expansion] = {}
        with self._fold("kind"):
            forms.choices("How it is graded", _WAYS, self._kind, self._choose)
        self._graded = ui.element("div").classes("folds")
        self._fill()
        with self._fold("passes"):
            self._build_threshold()
        with self._fold("judge"):
            self._judge = JudgeFields(around.bot, around.judges, definition.get("judge"), self.fields)
        self._show_values()
        ui.timer(0.7, self._show_values)

    def _fold(self, name: str) -> ui.expansion:
        self._folds[name] = ui.expansion().classes("more")
        return self._folds[name]

    def _show_values(self) -> None:
        """Say the present values in the titles of the folds."""
        shown = [_CASE_FIELDS.get(name, name) for name in self._chosen_inputs("needs")]
        threshold = self.fields["threshold"].value
        is_lower = self.fields["direction"].value == "lower_is_better"
        passing = (
            "Passes: no threshold" if threshold is None else f"Passes {'up to' if is_lower else 'from'} {threshold:g}"
        )
        titles = {
            "kind": f"Kind: {'G-Eval' if self._kind == 'g_eval' else 'rubric'}",
            "inputs": f"The judge sees: {', '.join(shown).lower() or 'nothing'}",
            "scale": f"Scale: {self._scale.summary()}",
            "passes": passing,
            "judge": f"Judge: {self._judge.summary()}",
        }
        if self._kind == "g_eval":
            steps = self._steps.read() or []
            titles["steps"] = f"Steps: {len(steps)}" if steps else "Steps: written by the judge at each run"
        for name, title in titles.items():
            self._folds[name].set_text(title)

    def _offer(self) -> None:
        """Offer the judge what the criteria speak of."""
        self._offers.clear()
        chosen = [*self._chosen_inputs("needs"), *self._chosen_inputs("optional")]
        for name, (pattern, what) in _SPOKEN_OF.items():
            if name not in chosen and re.search(pattern, str(self._criterion.value or ""), re.IGNORECASE):
                with self._offers:
                    text(f"Your criteria mention the {what}.", "span", "small muted")
                    button(f"Give the judge the {what}", partial(self._give, name))

    def _give(self, name: str) -> None:
        field = self.fields["needs"]
        field.value = [*(field.value or []), name]
        self._offer()

    def _chosen_inputs(self, key: str) -> list[str]:
        return list(cast("list[str]", self.fields[key].value or [])) if key in self.fields else []

    def read(self) -> dict[str, Any]:
        """The definition."""
        is_same = self._definition.get("kind") == self._kind
        kept = {
            key: value for key, value in self._definition.items() if is_same or key in ("family", "version", "gate")
        }
        key = _CRITERION_KEY[self._kind]
        values: dict[str, Any] = {key: forms.written(self._criterion) or ""}
        needs, inputs = list(self.fields["needs"].value or []), self._inputs()
        if not needs and not inputs:
            what = "the judge would be shown nothing"
            raise UserError(Problem(what, hint="such as the question and the answer", key="needs"))
        if self._kind == "g_eval":
            optional: list[str] = [*(self.fields["optional"].value or []), *inputs]
            values |= {"needs": needs, "optional": [name for name in optional if name not in needs]}
            values |= {"steps": self._steps.read(), "strict": bool(self._strict.value)}
            if values["steps"]:
                values["steps_from"] = None
        else:
            values["needs"] = [*needs, *inputs]
        values |= self._scale.read()
        values |= {name: self.fields[name].value for name in ("direction", "threshold")}
        values |= {"verbose": bool(self._verbose.value), "judge": self._judge.read()}
        return {**kept, "kind": self._kind, **values}

    def _choose(self, kind: str) -> None:
        self._kind = kind
        self._fill()

    def _fill(self) -> None:
        for key in [key for key in self.fields if key in _GRADED or key.startswith(("scale", "rubric"))]:
            del self.fields[key]
        self.fields[_CRITERION_KEY[self._kind]] = self._criterion
        self._graded.clear()
        with self._graded:
            if self._kind == "g_eval":
                with self._fold("steps"):
                    self._steps = StepsFields(self._of_kind().get("steps") or [], self.fields, self._write)
            with self._fold("inputs"):
                self._build_inputs()
            with self._fold("scale"):
                self._scale = ScaleFields(self._of_kind(), self.fields, weighted=self._kind == "g_eval")
                if self._kind == "g_eval":
                    help = "1 only if perfect, else 0; the threshold becomes 1."
                    self._strict = forms.tick(forms.About("Strict", help), bool(self._of_kind().get("strict")))
        self._offer()

    def _of_kind(self) -> Mapping[str, Any]:
        """The initial definition if it is of the chosen kind, else empty."""
        return self._definition if self._definition.get("kind") == self._kind else {}

    def _build_criterion(self) -> forms.Field:
        help = "What a good answer is, in your words; the judge reads exactly this."
        example = "Assess factual correctness based on the context provided."
        key = _CRITERION_KEY[self._kind]
        criterion = self._definition.get(key) or self._definition.get("criteria") or self._definition.get("description")
        return forms.area(forms.About("Criteria", help, example, required=True), criterion)

    def _build_inputs(self) -> None:
        needs = list(self._of_kind().get("needs") or ["question", "answer"])
        optional = list(self._of_kind().get("optional") or [])
        named = [name for name in (*needs, *optional) if not name.startswith(f"{_INPUTS}.")]
        options = {**_CASE_FIELDS, **{name: _CASE_FIELDS.get(name, name) for name in named}}
        help = "What the judge must see. A case without one of them is skipped."
        about = forms.About("Needed", help, required=True)
        self.fields["needs"] = forms.several(about, options, [name for name in needs if name in options])
        if self._kind == "g_eval":
            about = forms.About("Shown if available", "E.g. the expected answer. A case without it is still scored.")
            self.fields["optional"] = forms.several(about, options, [name for name in optional if name in options])
        extra = [name.partition(".")[2] for name in (*needs, *optional) if name not in options]
        help = "Other columns of your test cases, separated by commas."
        self.fields[_INPUTS] = forms.line(forms.About("Additional inputs", help, "audience, product"), ", ".join(extra))

    def _inputs(self) -> list[str]:
        names = re.split(r"[,\s]+", forms.written(self.fields[_INPUTS]) or "")
        return [f"{_INPUTS}.{name}" for name in dict.fromkeys(names) if name]

    def _build_threshold(self) -> None:
        with forms.pair():
            about = forms.About("Threshold", "From 0 to 1. This score or a better one passes.", "0.5")
            self.fields["threshold"] = forms.number_field(about, self._definition.get("threshold", 0.5))
            about = forms.About("Direction", "Choose lower for what should be rare, e.g. mistakes.", required=True)
            direction = self._definition.get("direction", "higher_is_better")
            self.fields["direction"] = forms.pick(about, _DIRECTIONS, direction)
        help = "Also log the judge's steps with each score. The results have them in any case."
        self._verbose = forms.tick(forms.About("Verbose", help), bool(self._definition.get("verbose")))
