"""Reusable checks: the list, a new one, and one with its examples and cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio import checks
from evalflow.app.studio.bots import list_bots
from evalflow.app.studio.check_uses import CheckFailure, CheckUse, check_uses, last_failure, remove_everywhere
from evalflow.app.studio.checks import Check
from evalflow.app.studio.datasets import list_datasets
from evalflow.app.studio.space import Workspace
from evalflow.web.pages.check_fields import about_kind, in_words, offered_kinds
from evalflow.web.pages.check_form import CheckForm, check_content, check_state
from evalflow.web.pages.check_usage import CheckUsage
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import Deleting, confirmation
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import address, button, cell, counted, empty, fold, joined, link_button, table, text
from evalflow.web.ui.visitor import local_time, may

_TRAIL = [("Checks", "/checks")]
_ABOUT = "What an answer must do, defined once and enabled on many test cases."


def add() -> None:
    """Register the pages."""

    @guarded_page("/checks")
    async def listed(workspace: Workspace) -> None:
        found = await to_thread.run_sync(_overview, workspace)
        with frame("Checks", place="Checks", about=_ABOUT) as actions:
            if may("edit") and found.checks:
                with actions:
                    link_button("New check", "/checks/new", primary=True)
            _list(found)
            with fold("Built-in checks", is_open=not found.checks), ui.element("div").classes("stack"):
                text("Each test case can have these with parameters of its own. A reusable check is one of them.", "p")
                _built_in(found.uses)

    @guarded_page("/checks/new", "edit")
    async def new(workspace: Workspace) -> None:
        bots = await to_thread.run_sync(_bots, workspace)
        reusable = await to_thread.run_sync(checks.list_checks, workspace)
        with frame("New check", place="Checks", trail=_TRAIL):
            CheckForm(workspace, None, bots, reusable)

    @guarded_page("/checks/{check}")
    async def one(workspace: Workspace, check: str) -> None:
        found = await to_thread.run_sync(checks.get_check, workspace, check)
        use = (await to_thread.run_sync(check_uses, workspace)).get(check, CheckUse())
        failure = await to_thread.run_sync(last_failure, workspace, check)
        bots = await to_thread.run_sync(_bots, workspace)
        reusable = await to_thread.run_sync(checks.list_checks, workspace)
        known = await to_thread.run_sync(list_datasets, workspace)
        own = [dataset.name for dataset in known if dataset.origin == "workspace"]
        with frame(found.title or found.name, place="Checks", trail=_TRAIL) as actions:
            if failure is not None:
                with ui.element("p").classes("last-failed"):
                    text("Failed last on ", "span", "muted")
                    _failure_link(failure)
            CheckForm(workspace, found, bots, reusable)
            usage = CheckUsage(workspace, check, own, use)
            await usage.load()
            if may("edit"):
                _delete_button(workspace, found, actions, usage)


@dataclass(frozen=True, slots=True)
class _Overview:
    """The reusable checks, how each check is used, and where reusable ones failed last."""

    checks: Sequence[Check]
    uses: Mapping[str, CheckUse]
    failures: Mapping[str, CheckFailure | None]


def _overview(workspace: Workspace) -> _Overview:
    found = checks.list_checks(workspace)
    failures = {one.name: last_failure(workspace, one.name) for one in found}
    return _Overview(found, check_uses(workspace), failures)


def _bots(workspace: Workspace) -> list[str]:
    return [bot.name for bot in list_bots(workspace) if bot.origin == "workspace"]


def _list(found: _Overview) -> None:
    if not found.checks:
        about = "Such as: the bot answers in English. Try it on good and bad answers, then enable it on many cases."
        words = about if may("edit") else "Editors of the project define them."
        with empty("rule", "No reusable checks yet", words):
            if may("edit"):
                link_button("New check", "/checks/new", primary=True)
        return
    with table(("Check", "What it checks", "Cases", "Failed last"), "table stacked check-list"):
        for one in found.checks:
            use, failure = found.uses.get(one.name, CheckUse()), found.failures[one.name]
            with ui.element("tr"):
                with ui.element("th").props("scope=row"):
                    ui.link(one.title or one.name, f"/checks/{one.name}").classes("name").props("dir=auto")
                    text(one.name, classes="small muted mono")
                with cell("What it checks", classes="said"), ui.element("div"):
                    text(in_words(one.type, one.params), classes="clamp").props("dir=auto")
                    text(joined(about_kind(one.type)[0], one.description), classes="small muted clamp").props(
                        "dir=auto"
                    )
                off = use.cases - use.enabled
                cell("Cases", f"{use.enabled:,}{f' ({off:,} off)' if off else ''}")
                with cell("Failed last", classes=""):
                    if failure is None:
                        text("–", "span", "muted")
                    else:
                        with ui.element("div"):
                            _failure_link(failure)


def _failure_link(failure: CheckFailure) -> None:
    """A link to the first failed answer of the run, in the list of all that failed there."""
    query = {"metric": failure.metric, "status": "failed", "case": str(failure.position)}
    ui.link(failure.question or failure.case_id, address(f"/runs/{failure.run_id}", query)).classes("clamp").props(
        "dir=auto"
    )
    text(f"{failure.title or failure.run_id}, {local_time(failure.at)}", "span", "small muted")


def _built_in(uses: Mapping[str, CheckUse]) -> None:
    with table(("Check", "What it checks", "Cases"), "table stacked check-list"):
        for name in offered_kinds():
            title, about, _ = about_kind(name)
            with ui.element("tr"):
                text(title, "th", "name").props("scope=row")
                cell("What it checks", about, "said")
                cell("Cases", f"{uses.get(name, CheckUse()).enabled:,}")


def _delete_button(workspace: Workspace, found: Check, actions: ui.element, usage: CheckUsage) -> None:
    title = found.title or found.name

    async def ask() -> None:
        use = (await to_thread.run_sync(check_uses, workspace)).get(found.name, CheckUse())
        if use.cases:
            using.clear()
            with using:
                about = "A check that cases use cannot be deleted. Remove it from them first; you can undo that."
                what = f"{title} is on {counted(use.cases)}"
                confirmation(what, about, f"Remove it from {counted(use.cases)}", remove, "Keep it").open()
        else:
            deleting.open()

    async def remove() -> None:
        removed = await forms.attempt(lambda: remove_everywhere(workspace, found.name))
        if removed is not None:
            usage.offer_undo(removed)
            await usage.refresh()

    deleting = Deleting(
        f"Delete {title}?",
        "Runs keep their own copies.",
        lambda version: checks.delete_check(workspace, found.name, version),
        lambda: check_state(workspace, found.name),
        (check_content(found), found.version),
        "/checks",
    )
    using = ui.element("div")
    with actions:
        button("Delete", ask, kind="danger")
