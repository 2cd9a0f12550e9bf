"""Judges: defined once, and chosen by name for metrics and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio import judges
from evalflow.app.studio.bots import try_bot
from evalflow.app.studio.connections import connection_names
from evalflow.app.studio.judges import StoredJudge
from evalflow.app.studio.space import Workspace
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import Deleting, Saving, State
from evalflow.web.ui.endpoint import CALLED, endpoint_fields
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import badge, button, cell, counted, facts, link_button, message, section, table, text
from evalflow.web.ui.visitor import may

_TRAIL = [("Judges", "/judges")]
_ABOUT = "The models that grade answers. Define one here, and choose it by name for metrics and runs."
_LINES = {
    "model": forms.About("Model", "The provider's model name.", "gpt-4.1-mini", required=True, code=True),
    "base_url": forms.About(
        "Address", "The base URL, up to and including /v1. Empty: OpenAI's.", "http://127.0.0.1:11434/v1", code=True
    ),
    "api_key_env": forms.About(
        "API key",
        "The name of the environment variable that holds the key, never the key itself. Empty: no key.",
        "OPENAI_API_KEY",
        code=True,
    ),
}
MODES = {
    "json_schema": "JSON schema",
    "tools": "Tool call",
    "json": "JSON",
    "md_json": "Plain text, for models without structured output",
}
"""How a judge is told the format of its replies."""
_PRICES = {
    "input_per_million": forms.About("Price of input", "US dollars for a million tokens.", "0.40"),
    "output_per_million": forms.About("Price of output", "US dollars for a million tokens.", "1.60"),
}


def add() -> None:
    """Register the pages."""

    @guarded_page("/judges")
    async def listed(workspace: Workspace) -> None:
        found = await to_thread.run_sync(judges.list_judges, workspace)
        with frame("Judges", place="Judges", about=_ABOUT) as actions:
            if may("edit"):
                with actions:
                    link_button("New judge", "/judges/new", primary=True)
            own = [judge for judge in found if judge.origin == "workspace"]
            if own:
                _table(own, "table stacked judges")
            else:
                message("No judges of your own yet.", "Runs can use those below, which conf/ declares.")
            with section("Ready to use", "As conf/ declares them, read-only."):
                _table([judge for judge in found if judge.origin == "conf"], "table stacked judges")

    @guarded_page("/judges/new", "edit")
    async def new(workspace: Workspace) -> None:
        connections = await to_thread.run_sync(connection_names, workspace)
        with frame("New judge", place="Judges", trail=_TRAIL):
            _JudgeForm(workspace, None, connections)

    @guarded_page("/judges/{judge}")
    async def edit(workspace: Workspace, judge: str) -> None:
        found = await to_thread.run_sync(judges.get_judge, workspace, judge)
        connections = await to_thread.run_sync(connection_names, workspace)
        with frame(found.name, place="Judges", about=found.description, trail=_TRAIL) as actions:
            if found.origin == "conf":
                _show(found)
                return
            if may("edit"):
                with actions:
                    button("Delete", _deletion(workspace, found).open, kind="danger")
            with ui.element("div").classes("stack-wide"):
                _missing(found)
            _JudgeForm(workspace, found, connections)


def _table(found: Sequence[StoredJudge], classes: str) -> None:
    with table(("Judge", "Model", "Key", "Used by"), classes):
        for one in found:
            with ui.element("tr"):
                with ui.element("th").props("scope=row"):
                    ui.link(one.name, f"/judges/{one.name}").classes("name")
                    if one.description:
                        text(one.description, classes="small muted")
                cell("Model", str(one.config.get("model") or "–"), "")
                with cell("Key", classes=""):
                    if one.missing_key:
                        badge(f"set {one.missing_key}", "warn")
                    else:
                        text("ready" if one.config.get("kind") == "openai" else "needs none", "span", "small muted")
                runs = counted(one.runs, "run") if one.runs else ""
                cell("Used by", ", ".join([*one.used_by, *([runs] if runs else [])]) or "–", "")


def _missing(judge: StoredJudge) -> None:
    if judge.missing_key:
        hint = f"Set it before the server starts: export {judge.missing_key}=..."
        message(f"{judge.missing_key} is not set in the server's environment.", hint, "warn")


def _show(judge: StoredJudge) -> None:
    _missing(judge)
    with ui.element("div").classes("card"):
        facts([
            ("Model", str(judge.config.get("model") or "")),
            ("Address", str(judge.config.get("base_url") or "")),
            ("API key", str(judge.config.get("api_key_env") or "")),
            ("Used by", ", ".join(judge.used_by)),
        ])  # fmt: skip


def _deletion(workspace: Workspace, one: StoredJudge) -> Deleting:
    return Deleting(
        f"Delete {one.name}?",
        "Metrics that use it must have another judge first. Runs keep their copy.",
        lambda version: judges.delete_judge(workspace, one.name, version),
        partial(_state, workspace, one.name),
        (one.config, one.version),
        "/judges",
    )


def _state(workspace: Workspace, name: str) -> State:
    found = judges.get_judge(workspace, name)
    return {**found.config, "description": found.description}, found.version


class _JudgeForm:
    """The form of a judge; of a new one if `stored` is None. Keys without a field are kept."""

    def __init__(self, workspace: Workspace, stored: StoredJudge | None, connections: Sequence[str] | None) -> None:
        self._workspace, self._stored, self._connections = workspace, stored, connections
        self._config: Mapping[str, Any] = stored.config if stored else {}
        self._fields: dict[str, forms.Field] = {}
        with ui.element("div").classes("beside"):
            with forms.form(locked=not may("edit")):
                self._build()
            if may("edit"):
                self._build_trial()
        name, version = (stored.name, stored.version) if stored else ("", 0)
        self._saving = Saving[StoredJudge](partial(_state, workspace, name), version, f"/judges/{name}")

    def _build(self) -> None:
        stored = self._stored
        if stored is None:
            self._name = forms.NameField("Careful")
            self._fields["judge.name"] = self._name.field
        self._endpoint = endpoint_fields(_LINES, self._config, self._connections)
        if self._connections is not None:
            self._fields |= {f"judge.{key}": self._endpoint["connection"] for key in CALLED}
        self._fields |= {f"judge.{key}": field for key, field in self._endpoint.items()}
        about = forms.About("Reply format", "How the model is told the format: JSON schema, if it supports that.")
        self._fields["judge.mode"] = self._mode = forms.pick(about, MODES, self._config.get("mode", "json_schema"))
        help = "G-Eval then asks once and weights the grades; otherwise it samples several replies."
        about = forms.About("Use token probabilities", help)
        self._logprobs = forms.tick(about, bool(self._config.get("logprobs")))
        price: Mapping[str, Any] = self._config.get("price") or {}
        with forms.pair():
            self._prices = {key: forms.number_field(about, price.get(key)) for key, about in _PRICES.items()}
        self._fields |= {f"price.{key}": field for key, field in self._prices.items()}
        about = forms.About("Description", "One sentence for those who choose it.", "Strict on facts, and cheap.")
        self._description = self._fields["judge.description"] = forms.line(about, stored.description if stored else "")
        if may("edit"):
            with ui.element("div").classes("actions"):
                self._button = button("Save", self._save, kind="primary")
                link_button("Cancel", "/judges")

    def _build_trial(self) -> None:
        with ui.element("aside").classes("card stack estimate").props('aria-label="Try it"'):
            text("Try it", "h2")
            about = forms.About("Question", "Sent unchanged; not saved.", "Are you ready to grade?", required=True)
            self._question = forms.area(about, "Are you ready to grade?")
            self._asking = button("Ask", self._ask, icon="send")
            self._result = ui.element("div").props("aria-live=polite").classes("stack")

    def _read(self) -> dict[str, Any]:
        values: dict[str, Any] = {key: forms.written(field) for key, field in self._endpoint.items()}
        prices = {key: field.value for key, field in self._prices.items()}
        given = any(value is not None for value in prices.values())
        values |= {"mode": self._mode.value, "logprobs": bool(self._logprobs.value), "price": prices if given else None}
        gone = () if self._connections is None else CALLED
        kept = {**self._config, "kind": "openai", **values}
        return {key: value for key, value in kept.items() if key not in gone and (key != "model" or value)}

    async def _ask(self) -> None:
        """Ask the model as a bot would be, which needs no metric."""
        self._result.clear()
        with forms.faults_shown({**self._fields, "question": self._question}, self._asking):
            config, question = self._read(), forms.written(self._question) or ""
            called = {key: config[key] for key in ("kind", "model", "connection", *CALLED) if key in config}
            answer = await self._workspace.ask(lambda: try_bot(self._workspace, "judge_trial", called, question))
            with self._result:
                if answer.error:
                    message("The judge gave no answer", answer.error, "fail")
                else:
                    text(answer.answer or "", classes="text said").props("dir=auto")
                    if answer.latency_s is not None:
                        text(f"{answer.latency_s:.1f} s", classes="small muted")

    async def _save(self) -> None:
        name = self._stored.name if self._stored else self._name.read()
        config, description = self._read(), forms.written(self._description) or ""

        def work(version: int) -> StoredJudge:
            if self._stored is None:
                return judges.create_judge(self._workspace, name, config, description)
            return judges.update_judge(self._workspace, name, version, config, description)

        mine = {**config, "description": description}
        await self._saving.save(work, mine, self._fields, self._button, lambda _: forms.leave("/judges"))
