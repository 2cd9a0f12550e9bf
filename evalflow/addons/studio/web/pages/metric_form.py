"""The content of a metric as a form, or as YAML; each converts into the other without loss."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from nicegui import ui
from pydantic import ValidationError

from evalflow.addons.studio.web.pages.metric_fields import JudgeFields, ScaleFields, StepsFields, WriteSteps
from evalflow.addons.studio.web.pages.metric_prompt import FILE, PromptField, mentioned, start_of
from evalflow.addons.studio.web.pages.metrics import GraphDrawing
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.metric_words import CASE_FIELDS, OWN_PROMPT, kind_in_words, way_of
from evalflow.addons.studio.web.ui.parts import button, text
from evalflow.addons.studio.work.bots import Bot
from evalflow.addons.studio.work.first_case import SPOKEN_OF
from evalflow.addons.studio.work.judges import StoredJudge
from evalflow.addons.studio.work.metric_yaml import KEY, metric_yaml, read_metric_yaml
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.registry import METRIC_KINDS


class YamlForm:
    """A field with the YAML, and one for each template; they are added to the fields by key."""

    def __init__(
        self, definition: Mapping[str, Any], prompts: Mapping[str, str], fields: dict[str, forms.Field]
    ) -> None:
        self.fields = fields
        drawing = GraphDrawing(definition)
        help = "The content of the metric's file, below its package line. Comments are not saved."
        about = forms.About("YAML", help, "kind: check", required=True, code=True)
        fields[KEY] = forms.area(about, metric_yaml(definition) if definition else "")
        fields[KEY].on_value_change(lambda _: self._draw(drawing))
        help = "The prompt for the judge, with fields of the case in braces, e.g. {{ question }}."
        self._prompts = {
            file: forms.area(forms.About(file, help, required=True, code=True), source)
            for file, source in prompts.items()
        }
        if not prompts:
            text("A metric copied from the library has its templates here.", classes="aside")
        fields[""] = fields[KEY]  # where all that is wrong in it is shown
        # By file name, because a copy's templates are in another folder.
        fields |= {Path(file).name: field for file, field in self._prompts.items()}

    def _draw(self, drawing: GraphDrawing) -> None:
        try:
            drawing.show(self.read())
        except UserError:
            drawing.show({})

    def read(self) -> dict[str, Any]:
        """The definition."""
        return read_metric_yaml(str(self.fields[KEY].value or ""))

    def prompts(self) -> dict[str, str]:
        """The templates by name."""
        return {file: str(field.value or "") for file, field in self._prompts.items()}


NEW: Mapping[str, Any] = {"kind": "g_eval", "needs": ["question", "answer"], "threshold": 0.5}
"""The definition that the form of a new metric begins with."""
_WAYS = (
    forms.FormOption("g_eval", "G-Eval", "Criteria in words, evaluation steps, a weighted grade.", "checklist_rtl"),
    forms.FormOption("rubric", "Rubric", "One criterion and a scale: yes or no, words, grades.", "straighten"),
    forms.FormOption(
        OWN_PROMPT, "Own prompt", "You write all that the judge reads; it grades on a scale.", "edit_note"
    ),
)
_DIRECTIONS = MappingProxyType({"higher_is_better": "Higher is better", "lower_is_better": "Lower is better"})
_CRITERION_KEY = MappingProxyType({"g_eval": "criteria", "rubric": "description"})
_INPUTS = "vars"
_GRADED = ("criteria", "description", "steps", "needs", "optional", _INPUTS)
"""Fields that depend on the kind."""
_SHOWN = (
    "prompt",
    "needs",
    "optional",
    "steps",
    "scale",
    "rubric",
    "strict",
    "direction",
    "threshold",
    "verbose",
    "judge",
)
"""Keys with a field, beside the criterion."""
_UNFINISHED = ("value_error", "missing", "too_short", "too_long", "greater_than_equal", "less_than_equal")
"""Faults of a value that its field can show anyway."""


def why_no_form(definition: Mapping[str, Any], prompts: Mapping[str, str]) -> str:
    """Why the form cannot show a metric; empty if it can."""
    kind = str(definition.get("kind") or "not chosen yet")
    key = _CRITERION_KEY.get(kind)
    if key is None:
        return f"The form is for G-Eval and rubrics. This metric is of another kind: {kind_in_words(kind)}."
    if kind == "rubric" and definition.get("criteria"):
        return "It has several criteria, and the form has one."
    own = way_of(definition, prompts) == OWN_PROMPT
    if prompts and not own and not any(key in template for template in prompts.values()):
        return f"Its prompts do not use {key}."
    known = METRIC_KINDS.config(kind).model_fields
    if unknown := next((name for name in definition if name not in known), None):
        return f"It has an unknown key {unknown!r}; {did_you_mean(unknown, known)}"
    return _misshapen(kind, definition, (key, *_SHOWN))


def _misshapen(kind: str, definition: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The first value of these keys that is not of the type that its field has."""
    is_named = isinstance(definition.get("judge"), str)
    values = {**definition, "judge": None} if is_named else definition
    try:
        METRIC_KINDS.config(kind).model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        for fault in error.errors():
            place = [str(part) for part in fault["loc"]]
            is_unfinished = fault["type"] in (_UNFINISHED if place[:1] != ["rubric"] else _UNFINISHED[:1])
            is_unfinished = is_unfinished and not isinstance(fault["input"], bool)
            is_grade = place[-1:] == ["[key]"] and str(fault["input"]).removeprefix("-").isdecimal()
            if place and place[0] in keys and not (is_unfinished or is_grade):
                return f"The form cannot show the value of {'.'.join(place)}: {fault['msg']}."
    return ""


@dataclass(frozen=True, slots=True)
class _Part:
    """Fields that keys of the definition are read from.

    Attributes:
        now: What the fields hold.
        read: The values of the keys; may raise UserError.
        before: What the fields held when they were built; None if the definition lacks what it needs.
    """

    now: Callable[[], object]
    read: Callable[[], Mapping[str, Any]]
    before: object

    @classmethod
    def of(cls, now: Callable[[], object], read: Callable[[], Mapping[str, Any]], *, is_given: bool = True) -> _Part:
        return cls(now, read, now() if is_given else None)

    @property
    def is_changed(self) -> bool:
        return self.before is None or self.now() != self.before


class MetricForm:
    """The form of a G-Eval or rubric metric: its criteria here, all else in `rest`. It adds its fields to `fields`.

    Keys without a field are kept, and so is each value, as it was written, until its fields are changed. A rubric may
    have its own prompt, which is one of the metric's templates; a new one gets the name `folder`/grade.jinja.
    """

    def __init__(
        self,
        bot: Bot,
        judges: Sequence[StoredJudge],
        definition: Mapping[str, Any],
        prompts: Mapping[str, str],
        fields: dict[str, forms.Field],
        write: WriteSteps,
        rest: ui.element,
        *,
        folder: str = "",
        followed: Callable[[], Any] = lambda: None,
    ) -> None:
        self._definition, self._prompts, self._folder = dict(definition), prompts, folder
        self._way = self._first_way = way_of(definition, prompts)
        self._write, self._followed = write, followed
        self._own: PromptField | None = None
        self._typed = ""
        self.fields = fields
        self._parts: dict[str, _Part] = {}
        self._criterion = self._build_criterion()
        self._offers = ui.element("div").classes("actions").props("aria-live=polite")
        self._criterion.on_value_change(self._offer)
        self._prompt_place = ui.element("div").classes("stack")
        self._folds: dict[str, ui.expansion] = {}
        with rest:
            with self._fold("kind"):
                forms.choices("How it is graded", _WAYS, self._way, self._choose_and_show)
            self._graded = ui.element("div").classes("folds")
            self._fill()
            with self._fold("passes"):
                self._build_threshold()
            with self._fold("judge"):
                self._judge = JudgeFields(bot, judges, definition.get("judge"), self.fields)
                self._parts["judge"] = _Part.of(lambda: (self._judge.read(),), lambda: {"judge": self._judge.read()})
            self._show_values()
            ui.timer(0.7, self._show_values)

    @property
    def kinds(self) -> ui.element:
        """The place where the kind is chosen."""
        return self._folds["kind"]

    def _fold(self, name: str) -> ui.expansion:
        self._folds[name] = ui.expansion().classes("more")
        return self._folds[name]

    def _show_values(self) -> None:
        """Show the current values in the titles of the folds."""
        shown = [CASE_FIELDS.get(name, name) for name in self._chosen_inputs("needs")]
        threshold = self.fields["threshold"].value
        is_lower = self.fields["direction"].value == "lower_is_better"
        passing = (
            "Passes: no threshold" if threshold is None else f"Passes {'up to' if is_lower else 'from'} {threshold:g}"
        )
        titles = {
            "kind": f"Kind: {kind_in_words(self._way)}",
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
        self._offers.clear()
        chosen = [*self._chosen_inputs("needs"), *self._chosen_inputs("optional")]
        for name, (pattern, what) in SPOKEN_OF.items():
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
        known = METRIC_KINDS.config(self._kind).model_fields
        is_same = self._definition.get("kind") == self._kind
        lost = {"prompt"} if self._way != self._first_way else set[str]()
        moved = lost if is_same else {*_CRITERION_KEY.values(), *self._definition.keys() - known.keys(), *lost}
        kept = {key: value for key, value in self._definition.items() if key not in moved}
        parts = [part for part in self._parts.values() if part.is_changed or not is_same]
        values = {key: value for part in parts for key, value in part.read().items()}
        values = {key: value for key, value in values.items() if key in kept or not _is_default(known[key], value)}
        own = {} if self._own is None else {"prompt": self._own.file}
        return {**kept, "kind": self._kind, **values, **own}

    def prompts(self) -> dict[str, str]:
        """The metric's own templates by name."""
        if self._own is not None:
            return {**(self._prompts if self._way == self._first_way else {}), self._own.file: self._own.source}
        return dict(self._prompts) if self._way == self._first_way else {}

    @property
    def _kind(self) -> str:
        return "rubric" if self._way == OWN_PROMPT else self._way

    def _choose(self, way: str) -> None:
        self._way = way
        self._fill()

    def _choose_and_show(self, way: str) -> None:
        self._choose(way)
        if self._own is not None:
            forms.focus(self._own.field)

    def _fill(self) -> None:
        prompt = () if self._own is None else [key for key, one in self.fields.items() if one is self._own.field]
        for key in [key for key in self.fields if key in (*_GRADED, *prompt) or key.startswith(("scale", "rubric"))]:
            del self.fields[key]
        for name in ("steps", "strict"):
            self._parts.pop(name, None)
        self.fields[_CRITERION_KEY[self._kind]] = self._criterion
        self._graded.clear()
        self._fill_prompt()
        given = self._of_kind()
        with self._graded:
            if self._kind == "g_eval":
                with self._fold("steps"):
                    self._steps = StepsFields(given.get("steps") or [], self.fields, self._write)
                    self._parts["steps"] = _Part.of(lambda: (self._steps.read(),), self._read_steps)
            with self._fold("inputs"):
                self._build_inputs()
            with self._fold("scale"):
                self._scale = ScaleFields(given, self.fields, weighted=self._kind == "g_eval")
                is_given = "scale" in given or self._kind == "g_eval"
                self._parts["scale"] = _Part.of(self._scale.written, self._scale.read, is_given=is_given)
                if self._kind == "g_eval":
                    help = "1 only if perfect, else 0; the threshold becomes 1."
                    strict = forms.tick(forms.About("Strict", help), bool(given.get("strict")))
                    self._parts["strict"] = _Part.of(lambda: (strict.value,), lambda: {"strict": bool(strict.value)})
        self._offer()

    def _fill_prompt(self) -> None:
        typed = "" if self._own is None else self._own.source
        self._typed, self._own = typed or self._typed, None
        self._prompt_place.clear()
        self._prompt_place.set_visibility(self._way == OWN_PROMPT)
        if self._way == OWN_PROMPT:
            file = str(self._definition["prompt"]) if self._first_way == OWN_PROMPT else f"{self._folder}/{FILE}"
            prompt = self._typed or self._prompts.get(file) or start_of(self._of_kind().get("needs") or NEW["needs"])
            with self._prompt_place:
                self._own = PromptField(file, prompt, self.fields, self._show_mentioned, self._followed)

    def _show_mentioned(self, before: str) -> None:
        """Let the judge see what the prompt shows, and no longer what it showed before."""
        assert self._own is not None
        (old, old_columns), (new, new_columns) = mentioned(before), mentioned(self._own.source)
        chosen, columns = self._chosen_inputs("needs"), self._columns()
        needs, inputs = self.fields["needs"], self.fields[_INPUTS]
        kept = [name for name in chosen if name in new or name not in old]
        needs.value = [*kept, *(name for name in new if name not in kept)]
        kept = [name for name in columns if name in new_columns or name not in old_columns]
        inputs.value = ", ".join(dict.fromkeys([*kept, *new_columns]))

    def _of_kind(self) -> Mapping[str, Any]:
        """The initial definition if it is of the chosen kind, else empty."""
        return self._definition if self._definition.get("kind") == self._kind else {}

    def _build_criterion(self) -> forms.Field:
        help = "What a good answer is, in your words; the judge reads exactly this."
        example = "Assess factual correctness based on the context provided."
        key = _CRITERION_KEY[self._kind]
        criterion = self._definition.get(key) or self._definition.get("criteria") or self._definition.get("description")
        made = forms.area(forms.About("Criteria", help, example, required=True), criterion)
        is_given = bool(self._definition.get(key) or self._definition.get("steps"))
        self._parts["criterion"] = _Part.of(lambda: (made.value or "",), self._read_criterion, is_given=is_given)
        return made

    def _read_criterion(self) -> Mapping[str, Any]:
        criterion = forms.written(self._criterion)
        if criterion is None and self._kind == "g_eval" and self._steps.read():
            return {"criteria": None}  # the steps are enough
        return {_CRITERION_KEY[self._kind]: criterion or ""}

    def _read_steps(self) -> Mapping[str, Any]:
        steps = self._steps.read()
        return {"steps": steps, "steps_from": None} if steps else {"steps": None}

    def _build_inputs(self) -> None:
        given = self._of_kind()
        needs = list(given.get("needs") or NEW["needs"])
        optional = list(given.get("optional") or [])
        named = [name for name in (*needs, *optional) if not name.startswith(f"{_INPUTS}.")]
        options = {**CASE_FIELDS, **{name: CASE_FIELDS.get(name, name) for name in named}}
        help = "What the judge must see. A case without one of them is skipped."
        about = forms.About("Needed", help, required=True)
        self.fields["needs"] = forms.several(about, options, [name for name in needs if name in options])
        if self._kind == "g_eval":
            about = forms.About("Shown if available", "E.g. the expected answer. A case without it is still scored.")
            self.fields["optional"] = forms.several(about, options, [name for name in optional if name in options])
        extra = [name.partition(".")[2] for name in (*needs, *optional) if name not in options]
        help = "Other columns of your test cases, separated by commas."
        self.fields[_INPUTS] = forms.line(
            forms.About("Additional inputs", help, "audience, product"), ", ".join(dict.fromkeys(extra))
        )
        shown = [self.fields[key] for key in ("needs", "optional", _INPUTS) if key in self.fields]
        self._parts["inputs"] = _Part.of(
            lambda: (*(str(field.value) for field in shown), *self._may_lack()),
            self._read_inputs,
            is_given=bool(given.get("needs")),
        )

    def _read_inputs(self) -> Mapping[str, Any]:
        needs, inputs = self._chosen_inputs("needs"), self._inputs()
        if not needs and not inputs:
            what = "the judge would be shown nothing"
            raise UserError(Problem(what, hint="such as the question and the answer", key="needs"))
        if self._own is not None:  # without them no case could be shown to the judge
            fields, columns = mentioned(self._own.source)
            needs += [name for name in fields if name not in needs]
            inputs = list(dict.fromkeys([*inputs, *(f"{_INPUTS}.{name}" for name in columns)]))
        if self._kind == "rubric":
            lacking = [name for name in inputs if name in self._may_lack()]
            kept = [*(self._of_kind().get("optional") or ()), *lacking]
            needs += [name for name in inputs if name not in kept]
            optional = [name for name in dict.fromkeys(kept) if name in inputs or not name.startswith(f"{_INPUTS}.")]
            return {"needs": needs, **({"optional": optional} if kept else {})}
        needed = [name for name in inputs if name in (self._of_kind().get("needs") or ())]
        optional = [*self._chosen_inputs("optional"), *inputs]
        needs += needed
        return {"needs": needs, "optional": [name for name in optional if name not in needs]}

    def _may_lack(self) -> list[str]:
        """The columns that the rubric's own prompt does without if a case lacks them."""
        columns = mentioned(self._own.source)[1] if self._own is not None else {}
        return [f"{_INPUTS}.{name}" for name, needed in columns.items() if not needed]

    def _inputs(self) -> list[str]:
        return [f"{_INPUTS}.{name}" for name in self._columns()]

    def _columns(self) -> list[str]:
        names = (name.strip() for name in (forms.written(self.fields[_INPUTS]) or "").split(","))
        return [name for name in dict.fromkeys(names) if name]

    def _build_threshold(self) -> None:
        given, default = self._definition, METRIC_KINDS.config(self._kind).model_fields["threshold"].default
        with forms.pair():
            about = forms.About("Threshold", "From 0 to 1. This score or a better one passes.", "0.5")
            threshold = forms.number_field(about, given.get("threshold", default))
            about = forms.About("Direction", "Choose lower for what should be rare, e.g. mistakes.", required=True)
            direction = forms.pick(about, _DIRECTIONS, given.get("direction", "higher_is_better"))
        help = "Also log the judge's steps with each score. The results have them in any case."
        verbose = forms.tick(forms.About("Verbose", help), bool(given.get("verbose")))
        fields = {"threshold": threshold, "direction": direction}
        self.fields |= fields
        for name, field in {**fields, "verbose": verbose}.items():
            self._parts[name] = _Part.of(partial(_held, field), partial(_value_of, name, field))


def _held(field: Any) -> tuple[object]:
    return (field.value,)


def _value_of(name: str, field: Any) -> Mapping[str, Any]:
    return {name: field.value}


def _is_default(field: Any, value: Any) -> bool:
    default = field.get_default(call_default_factory=True)
    return value == (list(cast("tuple[Any, ...]", default)) if isinstance(default, tuple) else default)
