"""What a run is made of: the bot, its test cases, the metrics, the judge, and how much of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.bots import list_bots
from evalflow.app.workspace.datasets import list_datasets
from evalflow.app.workspace.library import declared, endpoint_judges
from evalflow.app.workspace.metrics import list_library, list_metrics
from evalflow.app.workspace.run_types import RunRequest
from evalflow.web.pages.forms import About, Field, fieldset, line, number, pick, several, written

OWN_JUDGE = ""
RECORDED = "recorded"
_ANSWERS = {
    "true": "Ask the bot, every question",
    "missing": "Ask the bot where a case has no answer",
    "false": "The answers in the test cases",
}
_GENERATE: Mapping[str, bool | str] = {"true": True, "missing": "missing", "false": False}
_ENDPOINT = {
    "model": About(
        "Its model", "As its provider calls it; empty: the one that conf/ names.", "gpt-4.1-mini", code=True
    ),
    "base_url": About(
        "Its address",
        "Where it is reached, up to and including /v1; empty: the one that conf/ names.",
        "http://127.0.0.1:11434/v1",
        code=True,
    ),
    "api_key_env": About(
        "Its API key",
        "The NAME of the environment variable that holds it, never the key itself.",
        "OPENAI_API_KEY",
        code=True,
    ),
}
_COUNTS = ("repeats.target", "repeats.judge", "budget.usd", "budget.requests")


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is to choose from.

    Attributes:
        bots, datasets, judges: What is shown, by name.
        endpoints: Judges that are models of their own, whose address can be another one.
        kinds: The kind of each bot.
        library: Metrics that every bot has.
    """

    bots: Mapping[str, str]
    kinds: Mapping[str, str]
    datasets: Mapping[str, str]
    judges: Mapping[str, str]
    endpoints: Collection[str]
    library: Sequence[str]


def read_offer(workspace: Workspace) -> Offer:
    """Look what there is."""
    bots = list_bots(workspace)
    judges = [name for name in declared("judge") if name != "target"]
    datasets = [(one.name, "" if one.cases is None else f" ({one.cases:,} cases)") for one in list_datasets(workspace)]
    return Offer(
        bots={bot.name: bot.name if bot.origin == "workspace" else f"{bot.name} (conf)" for bot in bots},
        kinds={bot.name: str(bot.config.get("kind")) for bot in bots},
        datasets={name: f"{name}{size}" for name, size in datasets},
        judges={OWN_JUDGE: "What fits the bot: its own model, else embedded", **{name: name for name in judges}},
        endpoints=endpoint_judges(),
        library=[metric.name for metric in list_library()],
    )


class RunForm:
    """The fields.

    Args:
        workspace: The door to what is stored.
        offer: What there is to choose from.
        request: What they say at first.
        changed: Is called after every change.

    Attributes:
        fields: By the keys that problems name.
    """

    def __init__(
        self, workspace: Workspace, offer: Offer, request: RunRequest, changed: Callable[[], Awaitable[None]]
    ) -> None:
        self._workspace, self._offer, self._request, self._changed = workspace, offer, request, changed
        self.fields: dict[str, Field] = {}
        with fieldset("What is run"):
            self._what()
        with fieldset("Who judges"):
            self._judges()
        with ui.expansion("How much of it").classes("more"), fieldset("", "bare"):
            self._how_much()
        for field in dict.fromkeys(self.fields.values()):
            field.on_value_change(self._change)

    def is_complete(self) -> bool:
        """Whether enough is chosen for a look at what it would take."""
        return bool(self._bot.value and self._datasets.value and self._metrics.value)

    def read(self) -> RunRequest:
        """What they say."""
        metrics = list(self._metrics.value)
        thresholds = {name: value for name, value in self._request.thresholds.items() if name in metrics}
        judge = self._judge.value or None
        judge_values = {key: said for key in _ENDPOINT if (said := written(self.fields[f"judge.{key}"]))}
        return replace(
            self._request,
            bot=str(self._bot.value or ""),
            datasets=list(self._datasets.value),
            metrics=metrics,
            judge=judge,
            judge_values=judge_values if self._asks_elsewhere() else {},
            thresholds=thresholds,
            options=self._options(),
            title=written(self._title) or "",
        )

    async def load(self) -> None:
        """Take the metrics of the bot that is chosen."""
        bot = str(self._bot.value or "")
        own = [one.name for one in await to_thread.run_sync(list_metrics, self._workspace, bot)] if bot else []
        known = {**{name: f"{name} (this bot's)" for name in own}, **{name: name for name in self._offer.library}}
        chosen = [name for name in self._metrics.value if name in known]
        self._metrics.set_options(known, value=chosen)  # pyright: ignore[reportUnknownMemberType] - untyped in NiceGUI

    def _what(self) -> None:
        request, offer = self._request, self._offer
        about = About("Bot", "Whose answers are scored; with “recorded”, those that stand in the data.", required=True)
        self._bot = pick(about, offer.bots, request.bot if request.bot in offer.bots else None)
        generate = next((word for word, value in _GENERATE.items() if value == request.options.get("generate")), "true")
        with ui.element("div") as answers:
            self._answers = pick(
                About(
                    "Answers",
                    "Where they come from: the bot is asked, or those in the test cases are scored.",
                    required=True,
                ),
                _ANSWERS,
                generate,
            )
        answers.bind_visibility_from(self._bot, "value", lambda _: self._asks_the_bot())
        about = About(
            "Test cases", "One dataset or several, such as “rag”, which comes along.", "Choose", required=True
        )
        self._datasets = several(
            about, offer.datasets, [name for name in request.datasets if name in offer.datasets], searched=True
        )
        about = About(
            "Metrics", "What is measured: the bot's own first, then those of the library.", "Choose", required=True
        )
        self._metrics = several(about, {name: name for name in request.metrics}, request.metrics, searched=True)
        self._title = line(
            About("Title", "To find the run again.", "After the new prompt"),
            request.title,
        )
        self.fields |= {
            "bot": self._bot, "target": self._bot, "generate": self._answers, "datasets": self._datasets,
            "dataset": self._datasets, "metrics": self._metrics, "metric": self._metrics, "title": self._title,
        }  # fmt: skip

    def _judges(self) -> None:
        request, judges = self._request, self._offer.judges
        about = "For what needs judgement. A model tends to prefer its own answers; “embedded” needs no key."
        start = request.judge if request.judge in judges else OWN_JUDGE
        self._judge = pick(About("Judge", about, required=True), judges, start)
        self.fields["judge"] = self._judge
        with ui.element("div").classes("stack-wide") as endpoint:
            for key, about in _ENDPOINT.items():
                self.fields[f"judge.{key}"] = line(about, request.judge_values.get(key))
        endpoint.bind_visibility_from(self._judge, "value", lambda _: self._asks_elsewhere())

    def _how_much(self) -> None:
        options = self._request.options
        about = About("First cases only", "The first N of each dataset; empty: all.", "20")
        self.fields["limit"] = number(about, options.get("limit"))
        helps = {
            "repeats.target": About("Answers to each case", "More than one shows how much the bot varies.", "1"),
            "repeats.judge": About("Judgements of each answer", "More than one shows how much the judge varies.", "1"),
            "budget.usd": About("At most, in US dollars", "It stops there and can be resumed.", "5"),
            "budget.requests": About("At most, in requests", "It stops there and can be resumed.", "1000"),
        }
        for key, about in helps.items():
            outer, _, inner = key.partition(".")
            self.fields[key] = number(about, _map(options, outer).get(inner))

    def _options(self) -> dict[str, Any]:
        """Those that the run was given, with what the fields say in their place."""
        options = dict(self._request.options)
        for key in _COUNTS:
            outer, _, inner = key.partition(".")
            there = {**_map(options, outer), inner: _whole(self.fields[key].value)}
            options[outer] = {name: value for name, value in there.items() if value is not None}
        options["limit"] = _whole(self.fields["limit"].value)
        options["generate"] = _GENERATE[self._answers.value] if self._asks_the_bot() else None
        return {key: value for key, value in options.items() if value not in (None, {})}

    def _asks_the_bot(self) -> bool:
        return self._offer.kinds.get(self._bot.value) != RECORDED

    def _asks_elsewhere(self) -> bool:
        return self._judge.value in self._offer.endpoints

    async def _change(self, event: Any) -> None:
        if event.sender is self._bot:
            await self.load()
        await self._changed()


def _map(options: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return options.get(key) or {}


def _whole(value: float | None) -> float | int | None:
    """A number without a point where it needs none."""
    return int(value) if value is not None and float(value).is_integer() else value
