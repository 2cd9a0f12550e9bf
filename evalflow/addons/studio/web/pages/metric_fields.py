"""Fields of a metric's form: its judge, scale and steps."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.endpoint import judge_labels, missing_key_note
from evalflow.addons.studio.web.ui.parts import badge, button, message, text
from evalflow.addons.studio.web.ui.visitor import title_of
from evalflow.addons.studio.work.bots import Bot
from evalflow.addons.studio.work.judges import StoredJudge
from evalflow.addons.studio.work.trial_process import WrittenSteps
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import as_map


class JudgeFields:
    """The fields of a metric's judge, added to `fields` by key. `judges` are those to choose from."""

    def __init__(self, bot: Bot, judges: Sequence[StoredJudge], judge: Any, fields: dict[str, forms.Field]) -> None:
        self._bot, self._judge = bot, cast("str | dict[str, Any] | None", judge)
        own = {"": "The bot's own model" if self._has_model else "The run's judge"}
        if self._is_written:
            own[_WRITTEN] = f"{judge.get('name') or judge['model']}, as written in the YAML"
        named = judge if isinstance(judge, str) else _WRITTEN if self._is_written else ""
        self._known = {one.name: one for one in judges}
        known = judge_labels(judges)
        known |= {judge: judge} if isinstance(judge, str) and judge not in known else {}
        about = forms.About("Judge", "The model that grades. Define others on the page Judges.", required=True)
        self._chosen = forms.pick(about, {**own, **known}, named)
        self._chosen.on_value_change(self._fill)
        fields["judge"] = self._chosen
        ui.link("New judge", "/judges/new").classes("small")
        self._notes = ui.element("div").classes("form")
        help = "G-Eval then weights the grades; otherwise it takes one grade, or the mean of samples."
        weighs = bool(as_map(judge).get("logprobs"))
        self._logprobs = forms.tick(forms.About("Use token probabilities", help), weighs)
        self._fill()

    def read(self) -> str | dict[str, Any] | None:
        """The name of a judge, or the keys that differ from the run's; None if none does."""
        if self._chosen.value not in ("", _WRITTEN):
            return str(self._chosen.value)
        is_kept = self._chosen.value == _WRITTEN or not self._is_written
        kept = self._judge if isinstance(self._judge, dict) and is_kept else {}
        if self._logprobs.value or "logprobs" in kept:
            kept = {**kept, "logprobs": bool(self._logprobs.value)}
        return kept or None

    def summary(self) -> str:
        """The chosen judge, for the title of its fold."""
        options = cast("Mapping[str, str]", self._chosen.options)  # pyright: ignore[reportUnknownMemberType]
        return options[str(self._chosen.value)]

    @property
    def _has_model(self) -> bool:
        return self._bot.config.get("kind") == "openai"

    @property
    def _is_written(self) -> bool:
        return isinstance(self._judge, dict) and bool(self._judge.get("model"))

    def _fill(self) -> None:
        chosen = self._chosen.value
        self._logprobs.parent_slot.parent.set_visibility(chosen in ("", _WRITTEN))  # pyright: ignore - the field around it
        self._notes.clear()
        with self._notes:
            missing_key_note(self._known.get(str(chosen)))
            if chosen == "" and self._has_model:
                what = "Models tend to prefer their own answers (self-preference)."
                message(what, "Compare its scores with a judge of another family, or with human labels.", "warn")
            elif chosen == "":
                hint = "If a run names no judge, text overlap is used, which reads neither criteria nor prompts."
                message("This bot has no model of its own.", hint)


_WRITTEN = "(written)"  # not a judge's name
_TYPES = {
    "boolean": "Yes or no",
    "likert": "Whole grades",
    "percentage": "0 to 100",
    "label": "Words, each with a score",
}
_MEANING = re.compile(r"(-?\d+)(?:\s*(?:-|–|to)\s*(-?\d+))?\s*:\s*(.+)\Z")
MEANINGS, LABELS = "scale.anchors", "scale.values"
_OF_GRADES = ("scale", "scale.min", "scale.max", MEANINGS, "rubric")


class ScaleFields:
    """The fields of a metric's scale, added to `fields` by key.

    With `weighted`, the score is an expected value over grades (G-Eval), so the scale has whole grades.
    """

    def __init__(self, definition: Mapping[str, Any], fields: dict[str, forms.Field], *, weighted: bool) -> None:
        self._scale = _scale_of(definition.get("scale"), 10 if weighted else 5)
        self._bands: list[Mapping[str, Any]] = definition.get("rubric") or []
        self._weighted = weighted
        self._fields = fields
        self._type: str = "likert" if weighted else self._scale["type"]
        if not weighted:
            made = forms.pick(
                forms.About(
                    "Scale", "What the judge may answer, such as yes or no, or grades from 1 to 5.", required=True
                ),
                _TYPES,
                self._type,
            )
            made.on_value_change(lambda event: self._choose(str(event.value)))
            fields["scale.type"] = made
        self._place = ui.element("div").classes("form")
        self._fill()

    def read(self) -> dict[str, Any]:
        """The keys `scale`, and for whole grades of G-Eval `rubric`."""
        scale: dict[str, Any] = {"type": self._type}
        if self._type == "label":
            return {"scale": {**scale, "values": _scores(self._fields[LABELS])}}
        if self._type != "likert":
            return {"scale": scale}
        for key in ("min", "max"):
            scale[key] = forms.number_of(self._fields[f"scale.{key}"])
        if self._fields[MEANINGS].value == "\n".join(self._grade_lines()):  # as they were written
            scale |= {"anchors": self._scale["anchors"]} if "anchors" in self._scale else {}
            return {"scale": scale, "rubric": self._bands or None} if self._weighted else {"scale": scale}
        meanings = _meanings(self._fields[MEANINGS])
        ranges = any(low != high for low, high, _ in meanings)
        if not self._weighted and ranges:
            what = "only G-Eval knows ranges of grades"
            raise UserError(Problem(what, hint="describe single grades, such as 5: names every fee", key=MEANINGS))
        if meanings and not ranges:
            scale["anchors"] = {str(low): meaning for low, _, meaning in meanings}
        bands = [{"score_range": [low, high], "expected_outcome": meaning} for low, high, meaning in meanings]
        return {"scale": scale, "rubric": bands if ranges else None} if self._weighted else {"scale": scale}

    def written(self) -> tuple[object, ...]:
        """The content of the fields."""
        keys = (*_OF_GRADES, LABELS)
        return (self._type, *(str(self._fields[key].value) for key in keys if key in self._fields))

    def summary(self) -> str:
        """The scale, for the title of its fold."""
        if self._type != "likert":
            return _TYPES[self._type].lower()
        low, high = (self._fields[f"scale.{key}"].value for key in ("min", "max"))
        return f"{low or 0:g} to {high or 0:g}"

    def _choose(self, chosen: str) -> None:
        self._type = chosen
        self._fill()

    def _fill(self) -> None:
        for key in [key for key in self._fields if key in (*_OF_GRADES, LABELS)]:
            del self._fields[key]
        self._place.clear()
        with self._place:
            if self._type == "likert":
                self._grades()
            elif self._type == "label":
                values = cast("Mapping[str, float]", self._scale.get("values") or {})
                help = "One per line with a score from 0 to 1, the worst first."
                about = forms.About("Words", help, "refuses: 0\nhedges: 0.5\nanswers: 1", required=True, code=True)
                self._fields[LABELS] = forms.area(
                    about, "\n".join(f"{_in_one_line(word)}: {score:.15g}" for word, score in values.items())
                )

    def _grades(self) -> None:
        low, high = self._scale.get("min", 1), self._scale.get("max", 10 if self._weighted else 5)
        with forms.pair():
            about = forms.About("Lowest grade", "Such as 1; becomes the score 0.", "1", required=True)
            self._fields["scale.min"] = forms.number_field(about, low)
            about = forms.About("Highest grade", "Such as 10; becomes the score 1.", "10", required=True)
            self._fields["scale.max"] = self._fields["scale"] = forms.number_field(about, high)
        ranges = "Grades or ranges of them" if self._weighted else "Grades"
        help = f"{ranges} with their meaning, one per line. Grades in between are interpolated."
        example = "1-2: wrong in what matters\n9-10: right and complete" if self._weighted else "1: off\n5: complete"
        about = forms.About("What grades mean", help, example, code=True)
        self._fields[MEANINGS] = self._fields["rubric"] = forms.area(about, "\n".join(self._grade_lines()))

    def _grade_lines(self) -> list[str]:
        bands = [(*band["score_range"], band["expected_outcome"]) for band in self._bands]
        lines = [f"{low}-{high}: {meaning}" if low != high else f"{low}: {meaning}" for low, high, meaning in bands]
        anchors = as_map(self._scale.get("anchors"))
        return [_in_one_line(line) for line in [*lines, *(f"{grade}: {meaning}" for grade, meaning in anchors.items())]]


def _in_one_line(content: str) -> str:
    return " ".join(content.split())


def _scale_of(scale: Any, highest: int) -> dict[str, Any]:
    if isinstance(scale, str):
        return {"type": scale}
    return dict(as_map(scale)) if scale else {"type": "likert", "min": 1, "max": highest}


def _meanings(field: forms.Field) -> list[tuple[int, int, str]]:
    grades: list[tuple[int, int, str]] = []
    for row in forms.lines_of(field):
        read = _MEANING.match(row)
        if read is None:
            raise UserError(Problem(f"{row!r} names no grade", hint="such as 9-10: right and complete", key=MEANINGS))
        grades.append((int(read[1]), int(read[2] or read[1]), read[3].strip()))
    return grades


def _scores(field: forms.Field) -> dict[str, float]:
    by_word: dict[str, float] = {}
    for row in forms.lines_of(field):
        word, _, score = row.rpartition(":")
        try:
            by_word[word.strip()] = float(score)
        except ValueError:
            raise UserError(Problem(f"{row!r} has no score", hint="such as hedges: 0.5", key=LABELS)) from None
    return by_word


WriteSteps = Callable[[ui.button], Awaitable[WrittenSteps | None]]
"""Generates steps with the judge while the button spins; returns None after an error, which is shown."""


class StepsFields:
    """The steps, editable as lines, or frozen as a list; the field is added to `fields`."""

    def __init__(self, steps: Sequence[str], fields: dict[str, forms.Field], write: WriteSteps) -> None:
        self._write = write
        help = "What the judge works through, one per line. If empty, the judge writes them at each run."
        example = "Compare every figure of the answer with the expected one.\nLower the score for each that differs."
        self._field = forms.area(forms.About("Steps", help, example), "\n".join(map(_in_one_line, steps)))
        fields["steps"] = self._field
        self._list = ui.element("div")
        with ui.element("div").classes("actions"):
            self._writing = button("Generate steps", self._generate, icon="auto_awesome")
            self._freezing = button("Freeze", self._freeze, icon="lock")
            self._thawing = button("Edit", self._thaw, icon="edit")
        self._field.on_value_change(lambda: self._freezing.set_enabled(bool(self.read())))
        self._note = text("", classes="aside").props("aria-live=polite")
        self._set(frozen=bool(steps))

    def read(self) -> list[str] | None:
        """The steps; None if the judge writes them at each run."""
        return forms.lines_of(self._field) or None

    async def _generate(self) -> None:
        written = await self._write(self._writing)
        if written is None:
            return
        self._field.value = "\n".join(map(_in_one_line, written.steps))
        took = f" in {written.latency_s:.1f} s" if written.latency_s else ""
        cost = f" for ${written.cost_usd:.4f}" if written.cost_usd else ""
        self._set(frozen=False)
        self._note.text = (
            f"Written by {title_of('judge', written.judge)}{took}{cost}. Check and edit them, then freeze them."
        )

    def _freeze(self) -> None:
        self._set(frozen=True)
        # The pressed button is gone, and the focus with it. The other button appears one frame later.
        ui.run_javascript(f'requestAnimationFrame(() => document.getElementById("{self._thawing.html_id}").focus())')

    def _thaw(self) -> None:
        self._set(frozen=False)
        self._field.run_method("focus")

    def _set(self, *, frozen: bool) -> None:
        steps = self.read() or []
        frozen = frozen and bool(steps)
        self._field.parent_slot.parent.set_visibility(not frozen)  # pyright: ignore - the label and help around it
        self._list.clear()
        self._list.set_visibility(frozen)
        if frozen:
            with self._list, ui.element("div").classes("card frozen"):
                with ui.element("div").classes("actions"):
                    text("Steps", "h3")
                    badge("frozen", "accent")
                with ui.element("ol"):
                    for step in steps:
                        text(step, "li")
        self._note.text = "Every run uses exactly these steps." if frozen else ""
        self._writing.set_visibility(not frozen)
        self._freezing.set_visibility(not frozen)
        self._freezing.set_enabled(bool(steps))
        self._thawing.set_visibility(frozen)
