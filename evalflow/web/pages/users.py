"""The people of the server, for its owner: the list, and one person."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.people import (
    LINK_TTL,
    User,
    add_user,
    delete_user,
    get_user,
    list_users,
    password_link,
    update_user,
)
from evalflow.app.studio.space import Workspace
from evalflow.web.pages.account import shown_once
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import Deleting, Saving, State, dialog
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import badge, button, cell, empty, link_button, section, table, text

_ABOUT = "Who may sign in. What they may do in a project is the role that its admin gives them."
_NAME = forms.About("Name", "What they sign in with; it never changes.", "ann.smith", required=True)
_FULL_NAME = forms.About("Full name", "As shown to others.", "Ann Smith")
_EMAIL = forms.About("E-mail", "Links the account of an identity provider with the same address.", "ann@example.org")
_OWNER = forms.About(
    "Owner of the server", "Manages people, projects and connections, and may do everything everywhere."
)


def add() -> None:
    """Register the pages."""

    @guarded_page("/users", "own")
    async def users(workspace: Workspace) -> None:
        found = await to_thread.run_sync(list_users, workspace)
        with frame("Users", place="Users", about=_ABOUT) as actions:
            with actions:
                button("Add somebody", _adding(workspace).open, kind="primary")
            if found:
                _table(found)
            else:
                with empty("group", "Nobody yet", "Add the owner of the server first."):
                    pass

    @guarded_page("/users/{user}", "own")
    async def one(workspace: Workspace, user: str) -> None:
        found = await to_thread.run_sync(get_user, workspace, user)
        with frame(found.name, place="Users", about=found.full_name, trail=[("Users", "/users")]) as actions:
            with actions:
                _actions(workspace, found)
            with ui.element("div").classes("actions"):
                _badges(found)
            with section("Details"):
                _UserForm(workspace, found)


def _table(users: Sequence[User]) -> None:
    with table(("Person", "E-mail", "", ""), "table stacked"):
        for user in users:
            with ui.element("tr"):
                with ui.element("th").props("scope=row"):
                    text(user.full_name or user.name, classes="name")
                    if user.full_name:
                        text(user.name, classes="small muted")
                cell("E-mail", user.email or "none", "")
                with cell("", classes=""):
                    _badges(user)
                with cell("", classes="act"):
                    link_button("Manage", f"/users/{user.name}").props(f'aria-label="Manage {user.name}"')


def _badges(user: User) -> None:
    if user.is_owner:
        badge("owner", "accent")
    if user.is_disabled:
        badge("disabled", "warn")
    if not user.has_password:
        badge("no password")


def _adding(workspace: Workspace) -> ui.dialog:
    async def create() -> None:
        fields = {"name": name, "full_name": full_name, "email": email}
        given = forms.written(name) or "", forms.written(full_name) or "", forms.written(email)
        work = lambda: add_user(workspace, given[0], full_name=given[1], email=given[2])  # noqa: E731
        made = await forms.attempt(work, fields, adding)
        if made is not None:
            asked.close()
            ui.navigate.to(f"/users/{made.name}")

    with dialog(
        "Add somebody", "They then choose a password by a link, or sign in with your company's provider."
    ) as asked:
        with ui.element("div").classes("form"):
            name = forms.line(_NAME)
            full_name = forms.line(_FULL_NAME)
            email = forms.line(_EMAIL)
        with ui.element("div").classes("actions"):
            adding = button("Add", create, kind="primary")
            button("Cancel", asked.close)
    return asked


def _actions(workspace: Workspace, user: User) -> None:
    async def show_link() -> None:
        code = await forms.attempt(lambda: password_link(workspace, user.name), by=making)
        if code is not None:
            about = f"Send it to {user.name}: it works once, within {LINK_TTL.days} days, and is not shown again."
            shown_once("A link to choose a password", about, f"{_server_url(workspace)}/password?code={code}")

    async def set_disabled() -> None:
        change = partial(update_user, workspace, user.name, is_disabled=not user.is_disabled)
        if await forms.attempt(lambda: change(get_user(workspace, user.name).version), by=setting) is not None:
            ui.navigate.reload()

    making = button("Make a link", show_link, kind="primary")
    setting = button("Enable" if user.is_disabled else "Disable", set_disabled)
    asked = Deleting(
        f"Delete {user.name}?",
        "Their sessions, tokens and roles end; what they made stays, and the audit still names them.",
        lambda version: delete_user(workspace, user.name, version),
        partial(_state, workspace, user.name),
        (_content(user), user.version),
        "/users",
    )
    button("Delete", asked.open, kind="danger")


def _server_url(workspace: Workspace) -> str:
    """The address in the person's browser; a public server has https, whatever its proxy speaks with it."""
    url = ui.context.client.request.url
    return f"{url.scheme if workspace.identify().user is None else 'https'}://{url.netloc}"


class _UserForm:
    def __init__(self, workspace: Workspace, user: User) -> None:
        self._workspace, self._user = workspace, user
        with forms.form():
            self._full_name = forms.line(_FULL_NAME, user.full_name)
            self._email = forms.line(_EMAIL, user.email)
            self._is_owner = forms.tick(_OWNER, user.is_owner)
            with ui.element("div").classes("actions"):
                self._button = button("Save", self._save)
        stored = partial(_state, workspace, user.name)
        self._saving = Saving[User](stored, user.version, f"/users/{user.name}")

    async def _save(self) -> None:
        full_name, email = forms.written(self._full_name) or "", forms.written(self._email) or ""
        is_owner = bool(self._is_owner.value)
        fields = {"full_name": self._full_name, "email": self._email}
        await self._saving.save(
            lambda version: update_user(
                self._workspace, self._user.name, version, full_name=full_name, email=email, is_owner=is_owner
            ),
            {"full name": full_name, "e-mail": email, "owner": is_owner},
            fields,
            self._button,
            lambda user: forms.leave(f"/users/{user.name}"),
        )


def _content(user: User) -> dict[str, object]:
    return {"full name": user.full_name, "e-mail": user.email or "", "owner": user.is_owner}


def _state(workspace: Workspace, name: str) -> State:
    user = get_user(workspace, name)
    return {**_content(user), "disabled": user.is_disabled}, user.version
