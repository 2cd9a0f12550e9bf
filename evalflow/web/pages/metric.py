"""A metric: define or change it, as a form or as YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.bots import Bot, get_bot
from evalflow.app.studio.datasets import list_datasets
from evalflow.app.studio.library import endpoint_judges, own_prompts
from evalflow.app.studio.metric_trial import WrittenSteps, write_steps
from evalflow.app.studio.metrics import (
    KEY,
    MetricDefinition,
    MetricDraft,
    create_metric,
    delete_metric,
    get_library,
    get_metric,
    metric_yaml,
    read_metric_yaml,
    update_metric,
    with_prompts_of,
)
from evalflow.app.studio.space import Workspace
from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.web.pages.metric_fields import JudgeFields, ScaleFields, StepsFields, Write
from evalflow.web.pages.metric_trial import TrialCard
from evalflow.web.ui.dialogs import Deleting, Saving, form, leave
from evalflow.web.ui.fields import NameField
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import (
    About,
    Field,
    FormOption,
    area,
    attempt,
    button,
    choices,
    fieldset,
    line,
    link_button,
    number_field,
    pick,
    several,
    show,
    text,
    tick,
    written,
)


class YamlForm:
    """A field with the YAML, and one for each template.

    Args:
        definition: What to begin with.
        prompts: Its own templates by name.
        name: None for a new metric, which may still choose one.
        proposed: A name for a new metric.
    """

    def __init__(
        self, definition: Mapping[str, Any], prompts: Mapping[str, str], name: str | None, proposed: str = ""
    ) -> None:
        self._name, self._naming = name, None
        self.fields: dict[str, Field] = {}
        if name is None:
            self._naming = NameField("ISO date", proposed)
            self.fields["metric.name"] = self._naming.field
        help = "The content of the metric's file, below its package line. Checked as on the command line."
        about = About("YAML", help, "kind: check", required=True, code=True)
        self.fields[KEY] = area(about, metric_yaml(definition) if definition else "")
        self._prompts = {
            file: area(
                About(
                    file,
                    "The prompt for the judge, with fields of the case in braces, e.g. {{ question }}.",
                    required=True,
                    code=True,
                ),
                source,
            )
            for file, source in prompts.items()
        }
        if not prompts:
            text("A metric copied from the library has its templates here.", classes="aside")
        self.fields |= {Path(file).name: field for file, field in self._prompts.items()}  # a copy's folder is another

    def named(self) -> str:
        """What the metric is called, or will be."""
        return self._naming.read() if self._naming else self._name or ""

    def read(self) -> dict[str, Any]:
        """The definition.

        Raises:
            UserError: It is no YAML.
        """
        return read_metric_yaml(str(self.fields[KEY].value or ""))

    def prompts(self) -> dict[str, str]:
        """The templates as they stand in their fields."""
        return {file: str(field.value or "") for file, field in self._prompts.items()}


WAYS = (
    FormOption("g_eval", "G-Eval", "Criteria in words, evaluation steps, a weighted grade.", "checklist_rtl"),
    FormOption("rubric", "Rubric", "One criterion and a scale: yes or no, words, grades.", "straighten"),
)
SHOWN = MappingProxyType({
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
"""Case fields that a judge can be shown, and what people call them."""
DIRECTIONS = MappingProxyType({"higher_is_better": "Higher is better", "lower_is_better": "Lower is better"})
_SAID = MappingProxyType({"g_eval": "criteria", "rubric": "description"})
"""Where a kind keeps the criterion in words."""
_INPUTS = "vars"


def has_form(definition: Mapping[str, Any], prompts: Mapping[str, str]) -> bool:
    """Whether a metric can be shown as this form: not where templates of its own leave no place for the criteria."""
    key = _SAID.get(str(definition.get("kind")))
    return key is not None and (not prompts or any(key in text for text in prompts.values()))


class MetricForm:
    """The fields, and what they say as a definition.

    Args:
        bot: Whose metric it is.
        judges: Names of conf/ that a judge can start from.
        definition: What to begin with, of the kind g_eval or rubric. Keys that have no field here are kept.
        name: None for a new metric, which may still choose one.
        write: Has the judge write steps.
        proposed: A name for a new metric.
    """

    def __init__(
        self,
        bot: Bot,
        judges: Sequence[str],
        definition: Mapping[str, Any],
        name: str | None,
        write: Write,
        proposed: str = "",
    ) -> None:
        self._definition = dict(definition)
        self._kind: str = definition.get("kind", "g_eval")
        self._write = write
        self._name, self._naming = name, None
        self.fields: dict[str, Field] = {}
        if name is None:
            self._naming = NameField("Factual Accuracy", proposed)
            self.fields["metric.name"] = self._naming.field
        choices("How it is graded", WAYS, self._kind, self._choose)
        self._graded = ui.element("div").classes("form")
        self._fill()
        with fieldset("When it passes", "group"):
            self._passes()
        self._judge = JudgeFields(bot, judges, definition.get("judge"), self.fields)

    def named(self) -> str:
        """What the metric is called, or will be."""
        return self._naming.read() if self._naming else self._name or ""

    def read(self) -> dict[str, Any]:
        """The definition that the fields say.

        Raises:
            UserError: A field holds what cannot be read at all; all else is for the workspace to judge.
        """
        weighted = self._kind == "g_eval"
        same = self._definition.get("kind") == self._kind
        kept = {key: value for key, value in self._definition.items() if same or key in ("family", "version", "gate")}
        values: dict[str, Any] = {_SAID[self._kind]: written(self.fields[_SAID[self._kind]]) or ""}
        needs, inputs = self._chosen("needs"), self._inputs()
        if not [*needs, *inputs]:
            what = "the judge would be shown nothing"
            raise UserError(Problem(what, hint="such as the question and the answer", key="needs"))
        if weighted:
            optional: list[str] = [*self._chosen("optional"), *inputs]
            values |= {"needs": needs, "optional": [name for name in optional if name not in needs]}
            values |= {"steps": self._steps.read(), "strict": bool(self._strict.value)}
            if values["steps"]:
                values["steps_from"] = None
        else:
            values["needs"] = [*needs, *inputs]
        values |= self._scale.read()
        values["direction"] = self.fields["direction"].value
        values["threshold"] = self.fields["threshold"].value
        values["verbose"] = bool(self._verbose.value)
        values["judge"] = self._judge.read()
        return {**kept, "kind": self._kind, **values}

    def _choose(self, kind: str) -> None:
        self._kind = kind
        self._fill()

    def _fill(self) -> None:
        for key in [key for key in self.fields if key in _GRADED or key.startswith(("scale", "rubric"))]:
            del self.fields[key]
        self._graded.clear()
        with self._graded:
            self._criterion()
            with fieldset("What the judge sees", "group"):
                self._shown()
            with fieldset("Grades", "group"):
                self._scale = ScaleFields(self._of_kind(), self.fields, weighted=self._kind == "g_eval")
                if self._kind == "g_eval":
                    help = "1 only if perfect, else 0; the threshold becomes 1."
                    self._strict = tick(About("Strict", help), bool(self._of_kind().get("strict")))

    def _of_kind(self) -> Mapping[str, Any]:
        """What to begin with, as far as it is of the kind that is chosen."""
        return self._definition if self._definition.get("kind") == self._kind else {}

    def _criterion(self) -> None:
        help = "What a good answer is, in your words; the judge reads exactly this."
        example = "Assess factual correctness based on the context provided."
        key = _SAID[self._kind]
        said = self._definition.get(key) or self._definition.get("criteria") or self._definition.get("description")
        self.fields[key] = area(About("Criteria", help, example, required=True), said)
        if self._kind == "g_eval":
            self._steps = StepsFields(self._of_kind().get("steps") or [], self.fields, self._write)

    def _shown(self) -> None:
        needs, optional = self._listed("needs", ["question", "answer"]), self._listed("optional", [])
        options = {**SHOWN, **{name: name for name in (*needs, *optional) if not name.startswith(f"{_INPUTS}.")}}
        options = {name: SHOWN.get(name, name) for name in options}
        help = "What the judge must see. A case without one of them is skipped."
        about = About("Needed", help, required=True)
        self.fields["needs"] = several(about, options, [name for name in needs if name in options])
        if self._kind == "g_eval":
            help = "E.g. the expected answer. A case without it is still scored."
            about = About("Shown if available", help)
            self.fields["optional"] = several(about, options, [name for name in optional if name in options])
        help = "Other columns of your test cases, separated by commas."
        extra = [name.partition(".")[2] for name in (*needs, *optional) if name not in options]
        self.fields[_INPUTS] = line(About("Additional inputs", help, "audience, product"), ", ".join(extra))

    def _listed(self, key: str, default: Sequence[str]) -> list[str]:
        return list(self._of_kind().get(key) or default)

    def _chosen(self, key: str) -> list[str]:
        return list(self.fields[key].value or [])

    def _inputs(self) -> list[str]:
        names = re.split(r"[,\s]+", written(self.fields[_INPUTS]) or "")
        return [f"{_INPUTS}.{name}" for name in dict.fromkeys(names) if name]

    def _passes(self) -> None:
        with ui.element("div").classes("pair"):
            about = About("Threshold", "From 0 to 1. This score or a better one passes.", "0.5")
            self.fields["threshold"] = number_field(about, self._definition.get("threshold", 0.5))
            direction = self._definition.get("direction", "higher_is_better")
            about = About(
                "Direction",
                "Choose lower for what should be rare, e.g. mistakes.",
                required=True,
            )
            self.fields["direction"] = pick(about, DIRECTIONS, direction)
        help = "Also log the judge's steps with each score. The results have them in any case."
        self._verbose = tick(About("Verbose", help), bool(self._definition.get("verbose")))


_GRADED = ("criteria", "description", "steps", "needs", "optional", _INPUTS)


def add_metric_edit(workspace: Workspace) -> None:
    """Register the pages."""

    @guarded_page("/bots/{bot}/metrics/new")
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

    @guarded_page("/bots/{bot}/metrics/{metric}")
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
            TrialCard(workspace, self._bot.name, around.datasets, lambda: self._draft("new_metric"), self._form.fields)
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
    def __init__(self, workspace: Workspace, around: _Around, metric: MetricDefinition, view: str) -> None:
        self._metric = metric
        super().__init__(workspace, around, metric.definition, metric.prompts, view, metric.name)
        query = "?view=yaml" if view == "yaml" else ""
        self._conflict = Saving[MetricDefinition](self._there, metric.version, f"{self._path}/{metric.name}{query}")

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
