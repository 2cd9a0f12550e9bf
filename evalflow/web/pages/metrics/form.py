"""The evaluation panel: what good means, in words, and how it is graded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nicegui import ui

from evalflow.app.workspace.bots import Bot
from evalflow.errors import Problem, UserError
from evalflow.web.pages.forms import (
    About,
    Choice,
    Field,
    area,
    choices,
    fieldset,
    line,
    number,
    pick,
    several,
    tick,
    written,
)
from evalflow.web.pages.metrics.judge import JudgeFields
from evalflow.web.pages.metrics.scale import ScaleFields
from evalflow.web.pages.metrics.steps import StepsFields, Write
from evalflow.web.pages.naming import NameField

WAYS = (
    Choice("g_eval", "G-Eval", "Criteria in words, steps to work through, a weighted grade.", "checklist_rtl"),
    Choice("rubric", "Rubric", "One criterion and a scale: yes or no, words, grades.", "straighten"),
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
            with fieldset("What the judge is shown", "group"):
                self._shown()
            with fieldset("How a grade is given", "group"):
                self._scale = ScaleFields(self._of_kind(), self.fields, weighted=self._kind == "g_eval")
                if self._kind == "g_eval":
                    help = (
                        "All or nothing: 1 where the judge has nothing to object to, else 0; the threshold becomes 1."
                    )
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
        help = "What the judge must see, such as the question and the answer; a case that lacks one is skipped."
        about = About("Needed", help, required=True)
        self.fields["needs"] = several(about, options, [name for name in needs if name in options])
        if self._kind == "g_eval":
            help = "Shown too where a case has it, such as the expected answer; a case without it is still scored."
            about = About("Where there is one", help)
            self.fields["optional"] = several(about, options, [name for name in optional if name in options])
        help = "Names of further columns of your test cases, separated by commas, such as audience, product."
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
            about = About("Threshold", "From 0 to 1, such as 0.5: this score or a better one passes.", "0.5")
            self.fields["threshold"] = number(about, self._definition.get("threshold", 0.5))
            direction = self._definition.get("direction", "higher_is_better")
            about = About(
                "Direction",
                "Which end is the good one; lower for what should be rare, such as mistakes.",
                required=True,
            )
            self.fields["direction"] = pick(about, DIRECTIONS, direction)
        help = "The log shows the judge's steps with each score as it is made; the results keep them either way."
        self._verbose = tick(About("Verbose", help), bool(self._definition.get("verbose")))


_GRADED = ("criteria", "description", "steps", "needs", "optional", _INPUTS)
