"""Fields of a metric's form: its judge, scale and steps."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.bots import Bot
from evalflow.app.studio.definitions import declared_content, given
from evalflow.app.studio.metric_trial import WrittenSteps
from evalflow.errors import Problem, UserError
from evalflow.web.ui import forms
from evalflow.web.ui.endpoint import CALLED, endpoint_fields
from evalflow.web.ui.parts import badge, button, message, text

MODES = {
    "json_schema": "JSON schema",
    "tools": "Tool call",
    "json": "JSON",
    "md_json": "Plain text, for models without structured output",
}
_ENDPOINT = {
    "model": forms.About(
        "Judge model", "The provider's model name, e.g. gpt-4.1-mini.", "gpt-4.1-mini", required=True, code=True
    ),
    "base_url": forms.About(
        "Judge address",
        "The base URL, up to and including /v1. Empty: OpenAI's.",
        "http://127.0.0.1:11434/v1",
        code=True,
    ),
    "api_key_env": forms.About(
        "Judge key",
        "The name of the environment variable that holds the key, never the key itself. Empty: no key.",
        "OPENAI_API_KEY",
        code=True,
    ),
}


class JudgeFields:
    """The fields of a metric's judge, added to `fields` by key.

    `judges` are those to start from; `connections` as of `endpoint_fields`.
    """

    def __init__(
        self,
        bot: Bot,
        judges: Sequence[str],
        connections: Sequence[str] | None,
        judge: Mapping[str, Any] | None,
        fields: dict[str, forms.Field],
    ) -> None:
        self._bot, self._judges, self._connections = bot, judges, connections
        self._endpoint: dict[str, forms.Field] = {}
        self._judge: dict[str, Any] = dict(judge or {})
        self._fields = fields
        self._logprobs: ui.checkbox | None = None
        has_model = bot.config.get("kind") == "openai"
        own = forms.FormOption("run", "The bot's own model", "The bot grades its own answers.", "smart_toy")
        shared = forms.FormOption("run", "The run's judge", "Chosen when a run starts.", "play_circle")
        other = forms.FormOption("other", "Another model", "Used for this metric only.", "gavel")
        self._chosen = "other" if self._judge.get("model") else "run"
        forms.choices("Who judges", (own if has_model else shared, other), self._chosen, self._choose)
        self._place = ui.element("div").classes("form")
        self._fill()

    def read(self) -> dict[str, Any] | None:
        """The keys that differ from the run's judge; None if none does."""
        if self._chosen == "run":
            kept = {} if self._judge.get("model") else {k: v for k, v in self._judge.items() if k != "logprobs"}
            weighs = self._logprobs is not None and self._logprobs.value
            return {**kept, **({"logprobs": True} if weighs else {})} or None
        values: dict[str, Any] = {key: forms.written(field) for key, field in self._endpoint.items()}
        values["mode"] = self._fields["judge.mode"].value
        values["logprobs"] = bool(self._logprobs and self._logprobs.value)
        # The price of the run's judge would be that of another model.
        found = {"price": None, **self._judge, "kind": "openai", **values}
        gone = () if self._connections is None else CALLED
        return {key: value for key, value in found.items() if key not in gone and (key != "model" or value is not None)}

    def _choose(self, chosen: str) -> None:
        self._chosen = chosen
        self._fill()

    def _fill(self) -> None:
        for key in [key for key in self._fields if key.startswith("judge.")]:
            del self._fields[key]
        self._place.clear()
        self._logprobs = None
        with self._place:
            (self._shared if self._chosen == "run" else self._other)()

    def _shared(self) -> None:
        if self._bot.config.get("kind") == "openai":
            what = "Models tend to prefer their own answers (self-preference)."
            message(what, "Compare its scores with a judge of another family, or with human labels.", "warn")
            self._weighing()
        else:
            what = "This bot has no model of its own."
            hint = "If a run names no judge, text overlap is used, which reads neither criteria nor prompts."
            message(what, hint)

    def _other(self) -> None:
        about = forms.About("Start from", "Fills in the settings of a provider, e.g. openai.")
        forms.pick(about, ["", *self._judges], "").on_value_change(lambda event: self._begin(str(event.value)))
        self._endpoint = endpoint_fields(_ENDPOINT, self._judge, self._connections)
        self._fields.update({f"judge.{key}": field for key, field in self._endpoint.items()})
        if self._connections is not None:  # where problems of what it stands for are shown
            self._fields.update({f"judge.{key}": self._endpoint["connection"] for key in CALLED})
        help = "How the model is told the format: JSON schema, if it supports that."
        about = forms.About("Reply format", help, required=True)
        self._fields["judge.mode"] = forms.pick(about, MODES, self._judge.get("mode", "json_schema"))
        self._weighing()

    def _weighing(self) -> None:
        help = "G-Eval then asks once and weights the grades; otherwise it samples several replies."
        self._logprobs = forms.tick(forms.About("Use token probabilities", help), bool(self._judge.get("logprobs")))

    async def _begin(self, name: str) -> None:
        found = given(await to_thread.run_sync(declared_content, "judge", name))
        for key, field in self._endpoint.items():
            if key in _ENDPOINT:
                field.value = found.get(key) or ""
        self._fields["judge.mode"].value = found.get("mode", "json_schema")
        if self._logprobs is not None:
            self._logprobs.value = bool(found.get("logprobs"))


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
            made.on_value_change(lambda event: self._choose(cast("str", event.value)))
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
            value = self._fields[f"scale.{key}"].value
            scale[key] = int(value) if value is not None and value == int(value) else value
        meanings = _meanings(self._fields[MEANINGS])
        ranges = any(low != high for low, high, _ in meanings)
        if not self._weighted and ranges:
            what = "only G-Eval knows ranges of grades"
            raise UserError(Problem(what, hint="describe single grades, such as 5: names every fee", key=MEANINGS))
        if meanings and not ranges:
            scale["anchors"] = {str(low): meaning for low, _, meaning in meanings}
        bands = [{"score_range": [low, high], "expected_outcome": meaning} for low, high, meaning in meanings]
        return {"scale": scale, "rubric": bands if ranges else None} if self._weighted else {"scale": scale}

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
                    about, "\n".join(f"{word}: {score:g}" for word, score in values.items())
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
        anchors = cast("Mapping[Any, str]", self._scale.get("anchors") or {})
        return lines + [f"{grade}: {meaning}" for grade, meaning in anchors.items()]


def _scale_of(scale: Any, highest: int) -> dict[str, Any]:
    if isinstance(scale, str):
        return {"type": scale}
    return dict(cast("Mapping[str, Any]", scale)) if scale else {"type": "likert", "min": 1, "max": highest}


def _meanings(field: forms.Field) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for row in forms.lines_of(field):
        read = _MEANING.match(row)
        if read is None:
            raise UserError(Problem(f"{row!r} names no grade", hint="such as 9-10: right and complete", key=MEANINGS))
        found.append((int(read[1]), int(read[2] or read[1]), read[3].strip()))
    return found


def _scores(field: forms.Field) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in forms.lines_of(field):
        word, _, score = row.rpartition(":")
        try:
            found[word.strip()] = float(score)
        except ValueError:
            raise UserError(Problem(f"{row!r} has no score", hint="such as hedges: 0.5", key=LABELS)) from None
    return found


WriteSteps = Callable[[ui.button], Awaitable[WrittenSteps | None]]
"""Generates steps with the judge while the button spins; returns None after an error, which is shown."""


class StepsFields:
    """The steps, editable as lines, or frozen as a list; the field is added to `fields`."""

    def __init__(self, steps: Sequence[str], fields: dict[str, forms.Field], write: WriteSteps) -> None:
        self._write = write
        help = "What the judge works through, one per line. If empty, the judge writes them at each run."
        example = "Compare every figure of the answer with the expected one.\nLower the score for each that differs."
        self._field = forms.area(
            forms.About("Steps", help, example), "\n".join(" ".join(step.split()) for step in steps)
        )
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
        found = await self._write(self._writing)
        if found is None:
            return
        self._field.value = "\n".join(" ".join(step.split()) for step in found.steps)
        took = f" in {found.latency_s:.1f} s" if found.latency_s else ""
        cost = f" for ${found.cost_usd:.4f}" if found.cost_usd else ""
        self._set(frozen=False)
        self._note.text = f"Written by {found.judge}{took}{cost}. Check and edit them, then freeze them."

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
