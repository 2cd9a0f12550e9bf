"""The form of a run: bot, test cases, metrics, judge, simulated users and limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.case_choice import Arrived, CaseChoiceFields
from evalflow.addons.studio.web.pages.runs import own_first, run_option
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.endpoint import (
    ADDRESS,
    CALLED,
    KEY,
    MODEL,
    by_problem,
    endpoint_fields,
    judge_labels,
    missing_key_note,
)
from evalflow.addons.studio.web.ui.faults import reveal
from evalflow.addons.studio.web.ui.parts import READY_TO_USE, text
from evalflow.addons.studio.web.ui.visitor import title_of
from evalflow.addons.studio.work.bots import list_bots
from evalflow.addons.studio.work.comparing import scored_runs
from evalflow.addons.studio.work.connections import connection_names
from evalflow.addons.studio.work.datasets import list_datasets, sample_datasets
from evalflow.addons.studio.work.definitions import endpoint_judges
from evalflow.addons.studio.work.judges import StoredJudge, list_judges
from evalflow.addons.studio.work.metrics import list_library, list_metrics
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import Problem, UserError
from evalflow.paths import from_home, shown


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of the form, as labels by name; `kinds` of the bots; `endpoints`: judges with their own address.

    `connections`: those that may be called, by name; None: any address. `earlier`: the latest runs with results;
    `samples`: the datasets that ship.
    """

    bots: Mapping[str, str]
    kinds: Mapping[str, str]
    datasets: Mapping[str, str]
    judges: Mapping[str, str]
    keyless: Mapping[str, StoredJudge]
    endpoints: Collection[str]
    connections: Sequence[str] | None
    library: Mapping[str, str]
    earlier: Sequence[Run]
    samples: Collection[str]


def read_options(workspace: Workspace) -> RunOptions:
    """Read the options of the form; may block."""
    bots = list_bots(workspace)
    judges = [judge for judge in list_judges(workspace) if judge.name != "target"]
    datasets = [(one, "" if one.cases is None else f" ({one.cases:,} cases)") for one in list_datasets(workspace)]
    return RunOptions(
        bots={bot.name: bot.title if bot.origin == "workspace" else f"{bot.title} ({READY_TO_USE})" for bot in bots},
        kinds={bot.name: str(bot.config.get("kind")) for bot in bots},
        datasets={
            one.name: f"{one.title}{size}" if one.origin == "workspace" else f"{one.title}{size} ({READY_TO_USE})"
            for one, size in datasets
        },
        judges={_DEFAULT_JUDGE: "Default: the bot's own model, else embedded", **judge_labels(judges)},
        keyless={judge.name: judge for judge in judges if judge.missing_key},
        endpoints=endpoint_judges(),
        connections=connection_names(workspace),
        library={metric.name: metric.title for metric in list_library(workspace)},
        earlier=scored_runs(workspace),
        samples=sample_datasets(workspace),
    )


_DEFAULT_JUDGE = ""
_ANSWERS = {
    "true": "Ask the bot every question",
    "missing": "Ask the bot only if a case has no answer",
    "false": "Use the answers in the test cases",
}
_GENERATE: Mapping[str, bool | str] = {"true": True, "missing": "missing", "false": False}
_ENDPOINT = {
    "model": replace(MODEL, label="Its model", help=f"{MODEL.help} Empty: the one that it has.", required=False),
    "base_url": replace(
        ADDRESS, label="Its address", help="The base URL, up to and including /v1. Empty: the one that it has."
    ),
    "api_key_env": replace(KEY, label="Its API key"),
}
_CONNECTION = forms.About("Its connection", "The service and its key. Empty: the address that it has.")
_FILL = forms.About(
    "Save answers as missing answer examples",
    "A test case without an answer example gets the bot's answer in this run. Checks can be tried on it.",
)
_BASELINE = forms.About(
    "Earlier run to compare with", "For gates, and for metrics that say which of two answers is better."
)
_LIMITS = {
    "limit": forms.About("First cases only", "The first N of each dataset; empty: all.", "20"),
    "repeats.target": forms.About("Answers to each case", "More than one shows how much the bot varies.", "1"),
    "repeats.judge": forms.About("Judgements of each answer", "More than one shows how much the judge varies.", "1"),
    "budget.usd": forms.About("Budget (US dollars)", "Stops at this limit; you can resume.", "5"),
    "budget.requests": forms.About("Budget (requests)", "Stops at this limit; you can resume.", "1000"),
}
"""Number fields by option."""


class RunForm:
    """The fields, by the keys that problems name; `changed` is called after every change."""

    def __init__(
        self,
        workspace: Workspace,
        choice: RunOptions,
        request: RunRequest,
        arrived: Arrived | None,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._workspace, self._choice, self._request, self._changed = workspace, choice, request, changed
        self.fields: dict[str, forms.Field] = {}
        with forms.fieldset("What is run"):
            self._what()
        with forms.fieldset("Which cases"):
            self.cases = CaseChoiceFields(workspace, request, arrived, self._choose_datasets, self._changed_cases)
        with forms.fieldset("Who judges"):
            self._judges()
        given: Mapping[str, Any] = request.options.get("simulator") or {}
        self._simulator = SimulatorFields(given, choice.connections)
        self.fields |= self._simulator.fields
        with ui.expansion("Limits and repeats").classes("more"), forms.fieldset("", "bare"):
            self._limits()
        self.fields |= self.cases.numbers
        for field in dict.fromkeys(self.fields.values()):
            field.on_value_change(self._change)

    def is_complete(self) -> bool:
        """Whether all that an estimate requires is chosen."""
        return bool(self._bot.value and self._datasets.value and self._metrics.value) and self.cases.is_complete()

    def read(self) -> RunRequest:
        """The request for the run."""
        metrics = list(self._metrics.value)
        thresholds = {name: value for name, value in self._request.thresholds.items() if name in metrics}
        judge = self._judge.value or None
        judge_values = self._kept_values(judge) | {
            key: value for key, field in self._endpoint.items() if (value := forms.written(field))
        }
        request = replace(
            self._request,
            bot=str(self._bot.value or ""),
            datasets=list(self._datasets.value),
            metrics=metrics,
            judge=judge,
            judge_values=judge_values if self._asks_elsewhere() else {},
            thresholds=thresholds,
            options=self._options(),
            title=forms.written(self._title) or "",
            fill_examples=bool(self._fill.value),
        )
        return self.cases.apply(request)

    def show_fault(self, fault: Problem) -> None:
        """Show a fault at its field and focus the field, if it is known."""
        key = fault.key
        if key.startswith("judge.") and not self._asks_elsewhere():
            key = "judge"
        _, field = forms.place(UserError(Problem(f"the run failed here: {fault.what}", key=key)), self.fields)
        if field is not None:
            reveal(field)
            field.run_method("focus")

    async def load(self) -> None:
        """Offer the metrics of the chosen bot, and the cases that can be chosen."""
        await self._load_metrics()
        await self._load_cases()

    async def _load_cases(self) -> None:
        await self.cases.load(self._datasets.value)
        self.fields |= self.cases.fields

    async def _load_metrics(self) -> None:
        bot = str(self._bot.value or "")
        own = await to_thread.run_sync(list_metrics, self._workspace, bot) if bot else []
        known = {one.name: f"{one.title} (this bot's)" for one in own}
        known |= {name: title for name, title in self._choice.library.items() if name not in known}
        chosen = [name for name in self._metrics.value if name in known] or [one.name for one in own]
        self._metrics.set_options(known, value=chosen)  # pyright: ignore[reportUnknownMemberType] - untyped in NiceGUI

    def _what(self) -> None:
        request, choice = self._request, self._choice
        about = forms.About("Bot", "The bot to test. “recorded” uses the answers in the test cases.", required=True)
        self._bot = forms.pick(about, choice.bots, request.bot if request.bot in choice.bots else None)
        generate = next((word for word, value in _GENERATE.items() if value == request.options.get("generate")), "true")
        with ui.element("div") as answers:
            about = forms.About("Answers", "Ask the bot, or score the answers in the test cases.", required=True)
            self._answers = forms.pick(about, _ANSWERS, generate)
            self._fill = forms.tick(_FILL, request.fill_examples)
        answers.bind_visibility_from(self._bot, "value", lambda _: self._asks_the_bot())
        about = forms.About("Test cases", "One dataset or more, e.g. the sample set “rag”.", "Choose", required=True)
        self._datasets = forms.several(
            about, choice.datasets, [name for name in request.datasets if name in choice.datasets], searched=True
        )
        about = forms.About(
            "Metrics", "The bot's own, which are chosen at first, then the library.", "Choose", required=True
        )
        self._metrics = forms.several(
            about,
            {name: title_of("metric", name, request.bot) for name in request.metrics},
            request.metrics,
            searched=True,
        )
        runs = {shown(run.folder): run_option(run, choice.samples) for run in own_first(choice.earlier, choice.samples)}
        given = request.options.get("baseline")
        baseline = None if given is None else shown(from_home(str(given)))
        if baseline is not None:
            runs.setdefault(baseline, baseline)
        self._baseline = forms.pick(_BASELINE, runs, baseline).props("clearable")
        self._title = forms.line(forms.About("Title", "To find the run again.", "After the new prompt"), request.title)
        self.fields |= {
            "bot": self._bot,
            "target": self._bot,
            "generate": self._answers,
            "datasets": self._datasets,
            "dataset": self._datasets,
            "metrics": self._metrics,
            "metric": self._metrics,
            "baseline": self._baseline,
            "title": self._title,
        }

    def _judges(self) -> None:
        request, judges = self._request, self._choice.judges
        about = "The model that grades. A model tends to prefer its own answers; “embedded” needs no key."
        start = request.judge if request.judge in judges else _DEFAULT_JUDGE
        self._judge = forms.pick(forms.About("Judge", about, required=True), judges, start)
        self.fields["judge"] = self._judge
        note = ui.element("div").classes("stack")

        def mark() -> None:
            note.clear()
            with note:
                missing_key_note(self._choice.keyless.get(str(self._judge.value)))

        self._judge.on_value_change(mark)
        mark()
        with ui.element("div").classes("stack-wide") as endpoint:
            connections = self._choice.connections
            self._endpoint = endpoint_fields(_ENDPOINT, request.judge_values, connections, about=_CONNECTION)
            self.fields |= by_problem("judge", self._endpoint)
        endpoint.bind_visibility_from(self._judge, "value", lambda _: self._asks_elsewhere())

    def _limits(self) -> None:
        for key, about in _LIMITS.items():
            outer, _, inner = key.rpartition(".")
            options: Mapping[str, Any] = (self._request.options.get(outer) or {}) if outer else self._request.options
            self.fields[key] = forms.number_field(about, options.get(inner))

    def _options(self) -> dict[str, Any]:
        options = dict(self._request.options)
        for name in ("repeats", "budget"):
            options[name] = dict(options.get(name) or {})
        for key in ("sample", "seed", *_LIMITS):
            outer, _, inner = key.rpartition(".")
            (options[outer] if outer else options)[inner] = forms.number_of(self.fields[key])
        if not options["seed"] and "seed" not in self._request.options:
            options["seed"] = None  # 0 is the default
        options["generate"] = _GENERATE[self._answers.value] if self._asks_the_bot() else None
        options["simulator"] = self._simulator.read()
        options["baseline"] = self._baseline.value
        options |= {name: _given(options[name]) for name in ("repeats", "budget")}
        return {key: value for key, value in _given(options).items() if value != {}}

    def _asks_the_bot(self) -> bool:
        return self._choice.kinds.get(self._bot.value) != "recorded"

    def _asks_elsewhere(self) -> bool:
        return self._judge.value in self._choice.endpoints

    def _kept_values(self, judge: str | None) -> dict[str, Any]:
        """The values of the request's own judge that have no field, or an empty one for null, such as no key."""
        shown = {*self._endpoint, *CALLED}
        values = self._request.judge_values.items() if judge == self._request.judge else ()
        return {key: value for key, value in values if value is None or key not in shown}

    def _choose_datasets(self, names: Sequence[str]) -> None:
        known = [name for name in names if name in self._choice.datasets]
        if known and set(known) != set(self._datasets.value):
            self._datasets.set_value(known)

    async def _changed_cases(self) -> None:
        await self._load_cases()
        await self._changed()

    async def _change(self, event: Any) -> None:
        if event.sender is self._bot:
            await self._load_metrics()
        if event.sender is self._datasets:
            await self._load_cases()
        await self._changed()


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


_USER_KIND = "openai"
_USER_LINES = {
    "model": forms.About("Model of the user", "Plays the user. Empty: no user is simulated.", "gpt-4.1-mini"),
    "base_url": replace(ADDRESS, label="Address of the user's model"),
    "api_key_env": replace(KEY, label="API key of the user's model", help=f"{KEY.help} Empty: none is sent."),
}
_USER_CONNECTION = forms.About("Connection of the user's model", "The service and its key.")
_USER_TURNS = forms.About("Turns at most", "Answers of the bot in one conversation; empty: 10.", "10")


class SimulatorFields:
    """The fields of a model that plays the user; any other simulator of a request is kept unchanged."""

    def __init__(self, given: Mapping[str, Any], connections: Sequence[str] | None) -> None:
        self._given = dict(given)
        self._limits: Mapping[str, Any] = given.get("limits") or {}
        self.fields: dict[str, forms.Field] = {}
        if given.get("kind", _USER_KIND) != _USER_KIND:
            return
        with ui.expansion("Simulated users", value=bool(given)).classes("more"), forms.fieldset("", "bare"):
            text("For test cases with a situation: this model plays their user.", classes="help")
            self._endpoint = endpoint_fields(_USER_LINES, given, connections, about=_USER_CONNECTION)
            self._turns = forms.number_field(_USER_TURNS, self._limits.get("turns"))
        self.fields = by_problem("simulator", self._endpoint)
        self.fields |= {"simulator": self._endpoint["model"], "simulator.limits.turns": cast("Any", self._turns)}

    def read(self) -> dict[str, Any] | None:
        """The option `simulator` of the run; None if no user is simulated."""
        if not self.fields:
            return self._given or None
        values = {key: forms.written(field) for key, field in self._endpoint.items()}
        if values["model"] is None:
            return None
        if values.get("connection", "") is None:
            del values["connection"]
        turns = forms.number_of(self._turns)
        limits = {**self._limits, "turns": turns} if turns is not None else dict(self._limits)
        return {**self._given, "kind": _USER_KIND, **values, **({"limits": limits} if limits else {})}
