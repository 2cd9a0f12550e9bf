"""Start a run: choose, check, and see the estimate."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.bots import list_bots
from evalflow.app.studio.cases import ids_of_rows
from evalflow.app.studio.connections import connection_names
from evalflow.app.studio.datasets import list_datasets
from evalflow.app.studio.definitions import endpoint_judges
from evalflow.app.studio.judges import StoredJudge, list_judges
from evalflow.app.studio.leases import ProjectBudget
from evalflow.app.studio.metrics import list_library, list_metrics
from evalflow.app.studio.reruns import KnownCases, RunFault, fault_of, known_cases
from evalflow.app.studio.run_request import RunRequest
from evalflow.app.studio.runs import Run, RunEstimate, changed_request, create_run, estimate_run, get_run
from evalflow.app.studio.scores import answered_cases, failed_cases
from evalflow.app.studio.space import Workspace
from evalflow.app.studio.spending import budget_left
from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.report.wording import cost
from evalflow.web.pages.case_choice import Arrived, CaseChoiceFields, cases_in_words
from evalflow.web.pages.run_simulator import SimulatorFields
from evalflow.web.pages.runs import name_of
from evalflow.web.ui import forms
from evalflow.web.ui.budget import left_in_words
from evalflow.web.ui.endpoint import ADDRESS, CALLED, KEY, MODEL, endpoint_fields, judge_labels, missing_key_note
from evalflow.web.ui.faults import FaultSummary, reveal, unfold
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import Latest, button, facts, link_button, message, text
from evalflow.web.ui.ticks import unpacked
from evalflow.web.ui.visitor import title_of

SETTLE_S = 0.4
"""Seconds without a change after which the run is estimated."""


def add() -> None:
    """Register the page."""

    @guarded_page("/runs/new", "edit")
    async def new(
        workspace: Workspace,
        source: str = "",
        bot: str = "",
        dataset: str = "",
        cases: str = "",
        answers: str = "",
        failed_in: str = "",
    ) -> None:
        run = await to_thread.run_sync(get_run, workspace, source or failed_in) if source or failed_in else None
        given = RunRequest(bot, [dataset] if dataset else [], [])
        request = changed_request(run) if run else given
        arrived = await to_thread.run_sync(_arrived, workspace, request.datasets, run, cases, answers, failed_in)
        if arrived:
            request = _of_cases(request, arrived.known)
        offer = await to_thread.run_sync(read_options, workspace)
        fault = await to_thread.run_sync(fault_of, workspace, run.run_id) if run else None
        title = f"{name_of(run)}, again" if run else "New run"
        with frame(title, place="Runs", trail=[("Runs", "/runs")]):
            if run and fault:
                message(f"{name_of(run)} failed: {fault.what}", fault.hint, "warn")
            _NewRun(workspace, offer, request, arrived, fault)


def _arrived(
    workspace: Workspace, datasets: Sequence[str], run: Run | None, cases: str, answers: str, failed_in: str
) -> Arrived | None:
    """The cases that the address names: rows of a dataset, answers of a run, or what failed in it."""
    if failed_in and run:
        return Arrived(known_cases(workspace, failed_cases(workspace, run.run_id)), failed_in)
    if answers and run:
        return Arrived(known_cases(workspace, answered_cases(workspace, run.run_id, unpacked(answers))))
    if cases and datasets:
        rows = unpacked(cases)
        ids = ids_of_rows(workspace, datasets[0], rows)
        return Arrived(KnownCases({datasets[0]: ids} if ids else {}, len(rows) - len(ids)))
    return None


def _of_cases(request: RunRequest, known: KnownCases) -> RunRequest:
    """The request for these cases alone, so without a limit and a sample."""
    values = {name: {"ids": list(ids)} for name, ids in known.ids.items()}
    options = {key: value for key, value in request.options.items() if key not in ("limit", "sample")}
    return replace(request, datasets=list(values) or request.datasets, dataset_values=values, options=options)


class _NewRun:
    def __init__(
        self,
        workspace: Workspace,
        options: RunOptions,
        request: RunRequest,
        arrived: Arrived | None,
        fault: RunFault | None,
    ) -> None:
        self._workspace, self._fault = workspace, fault
        self._latest = Latest()
        self._key = uuid.uuid4().hex
        with ui.element("div").classes("beside"):
            with forms.form():
                self._form = RunForm(workspace, options, request, arrived, self._estimate)
            with ui.element("aside").classes("card stack estimate").props('aria-label="Estimate"'):
                text("Estimate", "h2")
                self._result = ui.element("div").classes("stack").props("aria-live=polite")
                with ui.element("div").classes("actions"):
                    self._starting = button("Start the run", self._start, kind="primary", icon="play_arrow")
                    link_button("Cancel", "/runs")
        if not self._form.is_complete():
            self._show_incomplete()
        ui.timer(0, self._begin, once=True)

    async def _begin(self) -> None:
        await self._form.load()
        await self._estimate()
        if self._fault is not None:
            self._form.show_fault(self._fault)

    async def _estimate(self) -> None:
        """Check the choice and estimate the run; of several changes in a row only the last is estimated."""
        is_latest = self._latest.begin()
        if not self._form.is_complete():
            self._show_incomplete()
            return
        self._result.classes("looking")
        await asyncio.sleep(SETTLE_S)
        if not is_latest():
            return
        request = self._form.read()
        try:
            found = await to_thread.run_sync(estimate_run, self._workspace, request)
            left = await to_thread.run_sync(budget_left, self._workspace)
        except EvalflowError as error:
            if is_latest():
                self._show_faults(error)
            return
        if is_latest():
            with self._cleared():
                _estimate(found, left)

    def _show_incomplete(self) -> None:
        self._result.classes(remove="looking").clear()
        with self._result:
            text("Choose a bot, test cases and a metric. Nothing is sent before you start it.", "p", "muted")

    def _show_faults(self, error: EvalflowError) -> None:
        with self._cleared():
            elsewhere, _ = forms.place(error, self._form.fields)
            for field in self._form.fields.values():
                if field.error:
                    unfold(field)
            message("The run cannot be started yet.", "" if elsewhere else "See the marked fields.", "warn")
            if elsewhere:
                FaultSummary([forms.in_words(problem) for problem in elsewhere])

    def _cleared(self) -> ui.element:
        for field in self._form.fields.values():
            field.error = None
        self._result.classes(remove="looking").clear()
        return self._result

    async def _start(self) -> None:
        request, key = self._form.read(), f"page-{self._key}"
        run = await forms.attempt(lambda: create_run(self._workspace, request, key), self._form.fields, self._starting)
        if run is not None:
            self._key = uuid.uuid4().hex
            forms.leave(f"/runs/{run.run_id}")
        else:
            self._result.clear()  # which may say the same


def _estimate(found: RunEstimate, left: ProjectBudget) -> None:
    cases = sum(found.cases.values())
    low, high = found.cost_usd
    price = (
        "free" if found.requests == 0 else "unknown" if low is None or high is None else _between(cost(low), cost(high))
    )
    if any(one.unselected or one.drafts for one in found.left_out.values()):
        text(f"{cases_in_words(found.cases, found.left_out)}.", "p")
    facts([
        ("Cases", f"{cases:,}"),
        ("Scores", f"{found.scores:,}"),
        ("Calls", f"{found.requests:,}" if found.requests else "none"),
        ("Tokens sent", _between(*(f"{number:,}" for number in found.input_tokens)) if found.requests else ""),
        ("Tokens received", _between(*(f"{number:,}" for number in found.output_tokens)) if found.requests else ""),
        ("Price", price),
        (f"Left of the project's budget for {left.month}", left_in_words(left)),
    ])  # fmt: skip
    for notice in found.notices:
        message(notice, tone="warn")


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of the form, as labels by name; `kinds` of the bots; `endpoints`: judges with their own address.

    `connections`: those that may be called, by name; None: any address.
    """

    bots: Mapping[str, str]
    kinds: Mapping[str, str]
    datasets: Mapping[str, str]
    judges: Mapping[str, str]
    keyless: Mapping[str, StoredJudge]
    endpoints: Collection[str]
    connections: Sequence[str] | None
    library: Mapping[str, str]


def read_options(workspace: Workspace) -> RunOptions:
    """Read the options of the form; may block."""
    bots = list_bots(workspace)
    judges = [judge for judge in list_judges(workspace) if judge.name != "target"]
    datasets = [(one, "" if one.cases is None else f" ({one.cases:,} cases)") for one in list_datasets(workspace)]
    return RunOptions(
        bots={bot.name: bot.title if bot.origin == "workspace" else f"{bot.title} (conf)" for bot in bots},
        kinds={bot.name: str(bot.config.get("kind")) for bot in bots},
        datasets={one.name: f"{one.title}{size}" for one, size in datasets},
        judges={_DEFAULT_JUDGE: "Default: the bot's own model, else embedded", **judge_labels(judges)},
        keyless={judge.name: judge for judge in judges if judge.missing_key},
        endpoints=endpoint_judges(),
        connections=connection_names(workspace),
        library={metric.name: metric.title for metric in list_library(workspace)},
    )


_DEFAULT_JUDGE = ""
_ANSWERS = {
    "true": "Ask the bot every question",
    "missing": "Ask the bot only if a case has no answer",
    "false": "Use the answers in the test cases",
}
_GENERATE: Mapping[str, bool | str] = {"true": True, "missing": "missing", "false": False}
_ENDPOINT = {
    "model": replace(MODEL, label="Its model", help=f"{MODEL.help} Empty: the one in conf/.", required=False),
    "base_url": replace(
        ADDRESS, label="Its address", help="The base URL, up to and including /v1. Empty: the one in conf/."
    ),
    "api_key_env": replace(KEY, label="Its API key"),
}
_CONNECTION = forms.About("Its connection", "The service and its key. Empty: the address in conf/.")
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
        )
        return self.cases.apply(request)

    def show_fault(self, fault: RunFault) -> None:
        """Name what failed at its field and focus it, if it is known which."""
        key = fault.key
        if key.startswith("judge.") and not self._asks_elsewhere():
            key = "judge"
        _, field = forms.place(UserError(Problem(f"the run failed here: {fault.what}", key=key)), self.fields)
        if field is not None:
            reveal(field)
            field.run_method("focus")

    async def load(self) -> None:
        """Offer the metrics of the chosen bot, and what cases can be chosen."""
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
        chosen = [name for name in self._metrics.value if name in known]
        self._metrics.set_options(known, value=chosen)  # pyright: ignore[reportUnknownMemberType] - untyped in NiceGUI

    def _what(self) -> None:
        request, choice = self._request, self._choice
        about = forms.About("Bot", "The bot to test. “recorded” uses the answers in the test cases.", required=True)
        self._bot = forms.pick(about, choice.bots, request.bot if request.bot in choice.bots else None)
        generate = next((word for word, value in _GENERATE.items() if value == request.options.get("generate")), "true")
        with ui.element("div") as answers:
            about = forms.About("Answers", "Ask the bot, or score the answers in the test cases.", required=True)
            self._answers = forms.pick(about, _ANSWERS, generate)
        answers.bind_visibility_from(self._bot, "value", lambda _: self._asks_the_bot())
        about = forms.About("Test cases", "One dataset or more, e.g. the sample set “rag”.", "Choose", required=True)
        self._datasets = forms.several(
            about, choice.datasets, [name for name in request.datasets if name in choice.datasets], searched=True
        )
        about = forms.About("Metrics", "The bot's own metrics come first, then the library.", "Choose", required=True)
        self._metrics = forms.several(
            about,
            {name: title_of("metric", name, request.bot) for name in request.metrics},
            request.metrics,
            searched=True,
        )
        self._title = forms.line(forms.About("Title", "To find the run again.", "After the new prompt"), request.title)
        self.fields |= {
            "bot": self._bot, "target": self._bot, "generate": self._answers, "datasets": self._datasets,
            "dataset": self._datasets, "metrics": self._metrics, "metric": self._metrics, "title": self._title,
        }  # fmt: skip

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
            if connections is not None:
                self.fields |= {f"judge.{key}": self._endpoint["connection"] for key in CALLED}
            self.fields |= {f"judge.{key}": field for key, field in self._endpoint.items()}
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
