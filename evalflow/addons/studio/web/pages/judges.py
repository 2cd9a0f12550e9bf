"""Judges: defined once, and chosen by name for metrics and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.judge_form import JudgeChoices, judge_content, judge_form, trial_card
from evalflow.addons.studio.web.pages.metric_trial import case_sources
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import delete_button, edited
from evalflow.addons.studio.web.ui.endpoint import judge_labels, missing_key_note
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import (
    badge,
    cell,
    facts,
    link_button,
    message,
    section,
    table,
    table_row,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work import judges
from evalflow.addons.studio.work.connections import connection_names
from evalflow.addons.studio.work.definitions import taken_names
from evalflow.addons.studio.work.judges import StoredJudge, can_be_member
from evalflow.addons.studio.work.metric_trial import JUDGED, TriedJudge
from evalflow.addons.studio.work.metrics import list_library
from evalflow.addons.studio.work.space import Workspace
from evalflow.config.yaml_text import MISSING
from evalflow.report.wording import counted

_TRAIL = [("Judges", "/judges")]
_ABOUT = "The models that grade answers. Define one here, and choose it by name for metrics and runs."
_KINDS = (
    forms.FormOption("openai", "One model", "Any OpenAI-compatible service.", "smart_toy"),
    forms.FormOption("panel", "Panel", "Several judges score each answer, and vote.", "groups"),
    forms.FormOption("cascade", "Cascade", "A cheap judge first; the next only if it is not sure.", "stairs"),
    forms.FormOption("embedded", "Text overlap", "No model, no key: it ranks answers.", "calculate"),
)


@guarded_page("/judges")
async def _listed_page(workspace: Workspace) -> None:
    available = await to_thread.run_sync(judges.list_judges, workspace)
    with frame("Judges", place="Judges", about=_ABOUT) as actions:
        if may("edit"):
            with actions:
                link_button("New judge", "/judges/new", primary=True)
        own = [judge for judge in available if judge.origin == "workspace"]
        if own:
            _table(own)
        else:
            message("No judges of your own yet.", "Runs can use those below.")
        with section("Ready to use", "Samples, and what files of this server declare; read-only."):
            _table([judge for judge in available if judge.origin == "conf"])


@guarded_page("/judges/new", "edit")
async def _new_page(workspace: Workspace, kind: str = "openai") -> None:
    offered = await to_thread.run_sync(_choices, workspace)
    chosen = next((one.value for one in _KINDS if one.value == kind), "openai")
    with frame("New judge", place="Judges", trail=_TRAIL):
        with ui.element("div").classes("form stack-wide"):
            forms.choices("What it is", _KINDS, chosen, lambda other: ui.navigate.to(f"/judges/new?kind={other}"))
        judge_form(workspace, chosen, None, offered)


@guarded_page("/judges/{judge}")
async def _edit_page(workspace: Workspace, judge: str) -> None:
    stored = await to_thread.run_sync(judges.get_judge, workspace, judge)
    offered = await to_thread.run_sync(_choices, workspace)
    with frame(stored.title, place="Judges", about=stored.description, trail=_TRAIL) as actions:
        if stored.origin == "conf":
            _show(workspace, stored, offered)
            return
        if may("edit"):
            with actions:
                about = "Metrics that use it must have another judge first. Runs keep their copy."
                delete = partial(judges.delete_judge, workspace, judge)
                seen = edited(judges.get_judge, workspace, judge_content, stored)
                delete_button(seen, stored.title, about, delete, "/judges")
        with ui.element("div").classes("stack-wide"):
            missing_key_note(stored, is_linked=False)
        judge_form(workspace, str(stored.config.get("kind")), stored, offered)


def _choices(workspace: Workspace) -> JudgeChoices:
    single = [one for one in judges.list_judges(workspace) if can_be_member(one)]
    metrics = {one.name: one.title for one in list_library(workspace) if one.definition.get("kind") in JUDGED}
    taken = taken_names(workspace, judges.JUDGES)
    return JudgeChoices(connection_names(workspace), judge_labels(single), metrics, case_sources(workspace), taken)


def _table(entries: Sequence[StoredJudge]) -> None:
    with table(("Judge", "Model", "Key", "Used by"), "table stacked judges"):
        for one in entries:
            with table_row(one.title, one.description, f"/judges/{one.name}"):
                cell("Model", _made_of(one.config), "")
                with cell("Key", classes=""):
                    if one.missing_key:
                        badge(f"set {one.missing_key}", "warn")
                    else:
                        has_model = one.config.get("kind") != "embedded"
                        text("ready" if has_model else "needs none", "span", "small muted")
                runs = [counted(one.runs, "run")] if one.runs else []
                cell("Used by", ", ".join([*map(_user, one.used_by), *runs]) or "–", "")


def _user(name: str) -> str:
    bot, _, metric = name.rpartition("/")
    return f"{title_of('bot', bot)}/{title_of('metric', metric, bot)}" if bot else title_of("judge", metric)


def _made_of(config: Mapping[str, Any]) -> str:
    members = config.get("members")
    named = ", ".join(title_of("judge", name) for name in members or ())
    return f"{kind_in_words(config)}: {named}" if members else _model(config) or "–"


def _show(workspace: Workspace, judge: StoredJudge, offered: JudgeChoices) -> None:
    missing_key_note(judge, is_linked=False)
    with ui.element("div").classes("beside"):
        with ui.element("div").classes("card"):
            facts(
                [
                    ("Kind", kind_in_words(judge.config)),
                    *_facts(judge.config),
                    ("Used by", ", ".join(map(_user, judge.used_by))),
                ]
            )
        if may("edit") and judge.name != "target":
            trial_card(workspace, offered, lambda: TriedJudge(judge.name), {})


def _facts(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    members: Mapping[str, Mapping[str, Any]] = config.get("members") or {}
    order: Sequence[str] = config.get("order") or list(members)
    named = [_member(name, members[name]) for name in order]
    return [
        ("Model", _model(config)),
        *((word, value) for word, key in _CALLED if not (value := str(config.get(key) or "")).startswith("${")),
        ("Members", ", then ".join(named) if config.get("kind") == "cascade" else ", ".join(named)),
        ("Vote", str(config.get("vote") or "")),
        ("Asks the next below", str(config.get("escalate_below") or "")),
    ]


_CALLED = (("Address", "base_url"), ("API key", "api_key_env"))


def _member(name: str, config: Mapping[str, Any]) -> str:
    return f"{name} ({_model(config) or config.get('kind')})"


def _model(config: Mapping[str, Any]) -> str:
    model = str(config.get("model") or "")
    return "no model yet" if model == MISSING else "the bot's own model" if model.startswith("${") else model


def kind_in_words(config: Mapping[str, Any]) -> str:
    """The kind of judge, such as Panel."""
    kind = str(config.get("kind"))
    return next((one.name for one in _KINDS if one.value == kind), kind)
