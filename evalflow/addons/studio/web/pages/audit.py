"""The audit: who changed what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import address, button, cell, empty, link_button, named, table, text
from evalflow.addons.studio.web.ui.visitor import local_time, may, title_of, visitor, zone
from evalflow.addons.studio.work.audit import AuditEntry, AuditFilter, AuditWords, audit_words, list_changes
from evalflow.addons.studio.work.space import Page, Workspace
from evalflow.addons.studio.work.titles import Titles, titles_of_projects
from evalflow.errors import Problem, UserError

PAGE_SIZE = 50
_BY = forms.About("Person", example="ann.smith")
_PROJECT = forms.About("Project")
_KIND = forms.About("Kind")
_ACTION = forms.About("Change")
_SINCE = forms.About("First day")
_UNTIL = forms.About("Last day")


@guarded_page("/audit", "admin")
async def _one_page(
    workspace: Workspace,
    by: str = "",
    project: str = "",
    kind: str = "",
    action: str = "",
    since: str = "",
    until: str = "",
    cursor: str | None = None,
) -> None:
    query = {"by": by, "project": project, "kind": kind, "action": action, "since": since, "until": until}
    wanted = AuditFilter(
        by or None, project or None, kind or None, action or None, _day(since, "since"), _day(until, "until", 1)
    )
    page = await to_thread.run_sync(lambda: list_changes(workspace, wanted, cursor, PAGE_SIZE))
    vocabulary = await to_thread.run_sync(audit_words, workspace)
    projects = [change.project for change in page.items if change.project]
    titles = await to_thread.run_sync(titles_of_projects, workspace, projects)
    whole = "of this server" if may("own") else f"in project {title_of('project', visitor().project)}"
    with frame("Audit", place="Audit", about=f"Every change {whole}: who, when and from where.") as actions:
        with actions:
            export = link_button("Export", address("/api/v1/audit/export", _exported(query, wanted)))
            export.props('download="audit.jsonl" title="All changes that match, as JSON lines"')
        _filters(query, vocabulary)
        if page.items:
            _table(page.items, titles)
        else:
            with empty("search_off", "No changes", "No matching changes."):
                link_button("Show all changes", "/audit")
        _pages(query, page, is_first=cursor is None)


def _day(value: str, key: str, more: int = 0) -> datetime | None:
    """The start of a visitor's day, `more` days later; None if it is empty."""
    try:
        day = date.fromisoformat(value) + timedelta(days=more) if value else None
        return None if day is None else datetime.combine(day, time.min, zone())
    except (ValueError, OverflowError):
        raise UserError(Problem(f"{value!r} is not a day", f"?{key}", "such as 2026-11-23")) from None


def _exported(query: Mapping[str, str], wanted: AuditFilter) -> dict[str, object]:
    """The query of the same changes in the REST API, which takes moments."""
    return {
        **query,
        **{key: moment and moment.isoformat() for key, moment in (("since", wanted.since), ("until", wanted.until))},
    }


def _filters(query: Mapping[str, str], vocabulary: AuditWords) -> None:
    def options(names: Sequence[str], chosen: str) -> dict[str, str]:
        return {"": "All", **{name: name for name in dict.fromkeys([*names, *filter(None, [chosen])])}}

    def projects(chosen: str) -> dict[str, str]:
        known = {project.name: project.title for project in visitor().projects}
        return options([*known], chosen) | known

    with ui.element("div").classes("filters audit"):
        fields: dict[str, forms.Field] = {"by": forms.line(_BY, query["by"])}
        if may("own"):
            fields["project"] = forms.pick(_PROJECT, projects(query["project"]), query["project"])
        fields["kind"] = forms.pick(_KIND, options(vocabulary.kinds, query["kind"]), query["kind"])
        fields["action"] = forms.pick(_ACTION, options(vocabulary.actions, query["action"]), query["action"])
        for key, about in (("since", _SINCE), ("until", _UNTIL)):
            fields[key] = forms.line(about, query[key]).props("type=date")

    def show() -> None:
        ui.navigate.to(address("/audit", {key: forms.written(field) for key, field in fields.items()}))

    fields["by"].on("keydown.enter", show)
    with ui.element("div").classes("actions filtering"):
        button("Filter", show)
        if any(query.values()):
            link_button("Show all", "/audit")


def _table(changes: Sequence[AuditEntry], titles: Mapping[str, Titles]) -> None:
    with table(("When", "Who", "Change", "Project"), "table stacked changes"):
        for change in changes:
            with ui.element("tr"):
                with ui.element("th").props("scope=row"):
                    text(local_time(change.at, ":%S"), "span", "small muted")
                with cell("Who", classes=""), ui.element("div"):
                    named(change.by, change.address)
                with cell("Change", classes="what"), ui.element("div"):
                    text(f"{change.action} {change.kind} {_called(change, titles)}")
                    if change.fields:
                        text(", ".join(change.fields), classes="small muted")
                cell("Project", title_of("project", change.project) if change.project else "–", "")


def _called(change: AuditEntry, titles: Mapping[str, Titles]) -> str:
    """The title of what was changed, with its name if it has another."""
    bot, _, name = change.name.rpartition("/")
    of_project = titles.get(change.project or "")
    title = of_project.of(change.kind, name, bot) if of_project else title_of(change.kind, name, bot)
    return change.name if title == name else f"{title} ({change.name})"


def _pages(query: Mapping[str, str], page: Page[AuditEntry], *, is_first: bool) -> None:
    with ui.element("nav").classes("actions page-nav").props('aria-label="Pages"'):
        if not is_first:
            link_button("Newest", address("/audit", query))
        if page.next is not None:
            link_button("Older", address("/audit", {**query, "cursor": page.next}))
