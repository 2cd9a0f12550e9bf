"""The judge of a metric: the one of the run, which is the bot's own model, or another that only this metric asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import library
from evalflow.app.workspace.bots import Bot
from evalflow.web.pages.forms import About, Choice, Field, choices, line, pick, tick, written
from evalflow.web.pages.parts import message

MODES = {
    "json_schema": "JSON schema",
    "tools": "Tool call",
    "json": "JSON",
    "md_json": "In words, for models that enforce nothing",
}


class JudgeFields:
    """The fields of a judge.

    Args:
        bot: Whose metric it is.
        judges: Names of conf/ that it can start from.
        judge: What the metric overrides; None: nothing.
        fields: Where they are entered by key.
    """

    def __init__(
        self, bot: Bot, judges: Sequence[str], judge: Mapping[str, Any] | None, fields: dict[str, Field]
    ) -> None:
        self._bot, self._judges = bot, judges
        self._judge: dict[str, Any] = dict(judge or {})
        self._fields = fields
        self._logprobs: ui.checkbox | None = None
        has_model = bot.config.get("kind") == "openai"
        own = Choice("run", "The bot's own model", "It grades what it said itself.", "smart_toy")
        shared = Choice("run", "The run's judge", "The one that is chosen when a run starts.", "play_circle")
        other = Choice("other", "Another model", "Asked for this metric only.", "gavel")
        self._chosen = "other" if self._judge.get("model") else "run"
        choices("Who judges", (own if has_model else shared, other), self._chosen, self._choose)
        self._place = ui.element("div").classes("form")
        self._fill()

    def read(self) -> dict[str, Any] | None:
        """What the metric overrides of the run's judge; None: nothing."""
        if self._chosen == "run":
            kept = {} if self._judge.get("model") else {k: v for k, v in self._judge.items() if k != "logprobs"}
            weighs = self._logprobs is not None and self._logprobs.value
            return {**kept, **({"logprobs": True} if weighs else {})} or None
        values: dict[str, Any] = {key: written(self._fields[f"judge.{key}"]) for key in ("model", "base_url")}
        values["api_key_env"] = written(self._fields["judge.api_key_env"])
        values["mode"] = self._fields["judge.mode"].value
        values["logprobs"] = bool(self._logprobs and self._logprobs.value)
        # A price that the run's judge has is that of another model.
        found = {"price": None, **self._judge, "kind": "openai", **values}
        return {key: value for key, value in found.items() if key != "model" or value is not None}

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
            message(what, "Hold its scores against a judge of another family, or against people's labels.", "warn")
            self._weighing()
        else:
            what = "This bot has no model of its own."
            hint = "Where a run names no judge, text overlap scores, which reads neither criteria nor prompts."
            message(what, hint)

    def _other(self) -> None:
        about = About("Start from", "Fills in what is known of a provider, such as openai; empty: nothing.")
        pick(about, ["", *self._judges], "").on_value_change(lambda event: self._begin(str(event.value)))
        self._line(
            "model",
            About(
                "Judge model",
                "As its provider calls it, such as gpt-4.1-mini.",
                "gpt-4.1-mini",
                required=True,
                code=True,
            ),
        )
        help = "Where the model is reached, up to and including /v1; empty for OpenAI's own."
        self._line("base_url", About("Judge address", help, "http://127.0.0.1:11434/v1", code=True))
        help = "Name of the environment variable that holds the key, never the key itself; empty sends none."
        self._line("api_key_env", About("Judge key", help, "OPENAI_API_KEY", code=True))
        about = About(
            "Form of replies",
            "How the model is told what a reply must look like; JSON schema, unless it knows none.",
            required=True,
        )
        self._fields["judge.mode"] = pick(about, MODES, self._judge.get("mode", "json_schema"))
        self._weighing()

    def _weighing(self) -> None:
        help = "G-Eval then asks once and weighs by them; without, it draws several replies."
        self._logprobs = tick(About("It gives token probabilities", help), bool(self._judge.get("logprobs")))

    def _line(self, key: str, about: About) -> None:
        self._fields[f"judge.{key}"] = line(about, self._judge.get(key))

    async def _begin(self, name: str) -> None:
        found = library.given(await to_thread.run_sync(library.content, "judge", name))
        for key in ("model", "base_url", "api_key_env"):
            self._fields[f"judge.{key}"].value = found.get(key) or ""
        self._fields["judge.mode"].value = found.get("mode", "json_schema")
        if self._logprobs is not None:
            self._logprobs.value = bool(found.get("logprobs"))
