"""The projects, and one project with its members."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.budget import budget_section
from evalflow.addons.studio.web.ui.dialogs import Saving, confirmation, delete_button, edited, question
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.inviting import ROLE_NAMES, InviteForm
from evalflow.addons.studio.web.ui.naming import TitleField
from evalflow.addons.studio.web.ui.parts import (
    badge,
    button,
    cell,
    empty,
    icon_button,
    named,
    section,
    table,
    tell,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, name_here
from evalflow.addons.studio.work import projects
from evalflow.addons.studio.work.access import Role
from evalflow.addons.studio.work.definitions import taken_names
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import counted, joined

_ABOUT = "Bots, test cases and runs belong to a project, and so do the people who work with them."
_DESCRIPTION = forms.About("Description", "One sentence on what the project is for.", "The bots of the fees desk.")


@guarded_page("/projects", "account")
async def _listed_page(workspace: Workspace) -> None:
    entries = await to_thread.run_sync(projects.list_projects, workspace)
    with frame("Projects", place="Projects", about=_ABOUT) as actions:
        if may("own"):
            with actions:
                taken = await to_thread.run_sync(taken_names, workspace, projects.PROJECTS)
                button("New project", _creating(workspace, taken).open, kind="primary")
        if entries:
            _table(entries)
        else:
            about = "You are signed in, but no member of any project. Ask an admin of yours to add you"
            empty("folder_off", "No projects yet", f"{about}: you are {name_here()}.")


@guarded_page("/projects/{project}", "admin")
async def _one_page(there: Workspace, project: str) -> None:
    details = await to_thread.run_sync(projects.get_project, there, project)
    members = await to_thread.run_sync(projects.list_members, there)
    with frame(
        details.title, place="Projects", about=details.description, trail=[("Projects", "/projects")]
    ) as actions:
        with actions:
            _link(details, "Open the project").classes("button")
            if may("own"):
                about = "Only an empty project can be deleted. Its memberships and tokens end; "
                about += "the audit keeps what was done in it."
                delete = partial(projects.delete_project, there)
                seen = edited(projects.get_project, there, _content, details)
                delete_button(seen, details.title, about, delete, "/projects")
        held = (counted(details.bots, "bot"), counted(details.datasets, "dataset"), counted(details.runs, "run"))
        text(joined(*held, f"at /p/{details.name}/"), "p", "muted")
        _MemberList(there, members)
        await budget_section(there)
        if may("own"):
            with section("About"):
                _AboutForm(there, details)


def _link(project: projects.Project, label: str) -> ui.element:
    with ui.element("a").props(f'href="/p/{project.name}/"') as anchor:
        text(label, "span")
    return anchor


def _table(entries: Sequence[projects.Project]) -> None:
    with table(("Project", "You are", "Members", "Bots", "Datasets", "Runs", ""), "table stacked projects"):
        for project in entries:
            with ui.element("tr"):
                with ui.element("th").props("scope=row"):
                    _link(project, project.title).classes("name")
                    if project.description:
                        text(project.description, classes="small muted clamp")
                cell("You are", project.role, "")
                for label in ("members", "bots", "datasets", "runs"):
                    cell(label.capitalize(), f"{getattr(project, label):,}")
                with cell("", classes="act"):
                    if project.role in ("owner", "admin"):
                        ui.link("Manage", f"/projects/{project.name}").props(f'aria-label="Manage {project.name}"')


def _creating(workspace: Workspace, taken: Collection[str]) -> ui.dialog:
    async def create(creating: ui.button) -> None:
        fields = {**title.fields, "project.description": description}
        with forms.faults_shown(fields, creating):
            name, called = title.read(fields)
            work = lambda: projects.create_project(workspace, name, forms.written(description) or "", called)  # noqa: E731
            made = await to_thread.run_sync(work)
            ui.navigate.to(f"/projects/{made.name}")

    about = "It starts empty; you add its members next."
    with question("New project", about, "Create", create) as asked, ui.element("div").classes("form"):
        title = TitleField("project", "Fees desk", taken)
        description = forms.line(_DESCRIPTION)
    return asked


def _content(now: projects.Project) -> dict[str, str]:
    return {"title": now.title, "description": now.description}


class _MemberList:
    """The members, whose roles can be changed, and a form to add one."""

    def __init__(self, there: Workspace, members: Sequence[projects.Member]) -> None:
        self._there = there
        with section("Members", "Changes apply at once, to open pages and tokens too."):
            self._rows = ui.element("div").props("aria-live=polite")
            self._show(members)
            text("Invite somebody", "h3")
            InviteForm(there, "viewer", self._refresh)

    def _show(self, members: Sequence[projects.Member]) -> None:
        self._rows.clear()
        with self._rows:
            if not members:
                text("Nobody yet. The owners of the server may do everything here.", "p", "muted")
                return
            with table(("Person", "Role", ""), "table stacked members"):
                for member in members:
                    self._row(member)

    def _row(self, member: projects.Member) -> None:
        is_fixed = member.is_owner and not may("own")
        with ui.element("tr"):
            with ui.element("th").props("scope=row"):
                named(member.full_name or member.name, member.name if member.full_name else "")
                with ui.element("div").classes("actions"):
                    if member.is_owner:
                        badge("owner of the server", "accent")
                    if member.is_disabled:
                        badge("disabled", "warn")
            with cell("Role", classes=""):
                role = ui.select(dict(ROLE_NAMES), value=member.role).props("outlined dense")
                role.props["aria-label"] = f"Role of {member.name}"
                role.set_enabled(not is_fixed)
                role.on_value_change(lambda: self._set(member.name, role.value))
            with cell("", classes="act"):
                if not is_fixed:
                    self._remove_button(member.name)

    def _remove_button(self, name: str) -> None:
        about = "They lose their role here at once, and their tokens of this project are deleted."
        remove = confirmation(f"Remove {name}?", about, "Remove", partial(self._remove, name), keep="Cancel")
        icon_button("close", f"Remove {name}", remove.open)

    async def _set(self, name: str, role: Role) -> None:
        if await forms.succeeds(partial(projects.set_role, self._there, name, role)):
            tell(f"{name} is now {role}.")
        await self._refresh()

    async def _remove(self, name: str) -> None:
        if await forms.succeeds(partial(projects.remove_member, self._there, name)):
            tell(f"{name} was removed.")
        await self._refresh()

    async def _refresh(self) -> None:
        members = await forms.attempt(lambda: projects.list_members(self._there))
        if members is None:  # the visitor has given up the right
            ui.navigate.to("/projects")
        else:
            self._show(members)


class _AboutForm:
    def __init__(self, there: Workspace, project: projects.Project) -> None:
        self._there = there
        with forms.form():
            self._title = TitleField("project", "Fees desk", title=project.title, name=project.name)
            self._description = forms.area(_DESCRIPTION, project.description)
            with ui.element("div").classes("actions"):
                self._button = button("Save", self._save)
        self._path = f"/projects/{project.name}"
        self._saving = Saving(edited(projects.get_project, there, _content, project), self._path)

    async def _save(self) -> None:
        fields = {**self._title.fields, "project.description": self._description}
        with forms.faults_shown(fields):
            _, title = self._title.read(fields)
            mine = {"title": title, "description": forms.written(self._description) or ""}
            work = partial(projects.update_project, self._there, values=mine)
            await self._saving.save(work, mine, fields, self._button, lambda _: forms.leave(self._path))
