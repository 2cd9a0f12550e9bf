"""One's own account: password, sessions and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.access import ROLES, Role
from evalflow.app.studio.people import SHORTEST_PASSWORD, User
from evalflow.app.studio.sessions import (
    LONGEST_TOKEN_DAYS,
    Session,
    Token,
    change_password,
    create_token,
    end_own_session,
    list_tokens,
    own_account,
    own_sessions,
    revoke_token,
)
from evalflow.app.studio.space import Workspace
from evalflow.web.pages.runs import when
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import confirmation, dialog
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import badge, button, cell, copyable, facts, joined, section, table, tell, text
from evalflow.web.ui.visitor import title_of

_OLD = forms.About("Present password", required=True)
_NEW = forms.About(
    "New password", f"At least {SHORTEST_PASSWORD} characters; four words are easy to remember.", required=True
)
_TITLE = forms.About("Name", "What the token is for.", "Nightly runs", required=True)
_ROLE = forms.About("Role", "If your own role becomes lower, so does the token's.", required=True)
_DAYS = forms.About("Valid for (days)", f"1 to {LONGEST_TOKEN_DAYS}.", required=True)
_DEFAULT_DAYS = 90


def add() -> None:
    """Register the page."""

    @guarded_page("/account", "account")
    async def account(workspace: Workspace) -> None:
        own = await to_thread.run_sync(own_account, workspace)
        actor = await to_thread.run_sync(workspace.identify)
        sessions = await to_thread.run_sync(own_sessions, workspace)
        tokens = await to_thread.run_sync(list_tokens, workspace)
        with frame("Account", place="Account", about=joined(own.full_name, own.name, own.email)):
            role = (
                f"{actor.roles.get(workspace.project_id, 'none')} in project {title_of('project', workspace.project)}"
            )
            facts([("Role", "owner of the server" if own.is_owner else role)])
            if own.has_password:
                with section("Password", "A new password ends all your other sessions."):
                    _PasswordForm(workspace, own)
            with section("Sessions", "The browsers in which you are signed in."):
                _SessionList(workspace, sessions)
            rights = actor.rights(workspace.project_id)
            _TokenList(workspace, tokens, [role for role, allowed in ROLES.items() if allowed <= rights])


class _PasswordForm:
    def __init__(self, workspace: Workspace, own: User) -> None:
        self._workspace = workspace
        with ui.element("div").classes("form"):
            self._old = forms.line(_OLD).props('type=password autocomplete="current-password"')
            self._new = forms.line(_NEW).props('type=password autocomplete="new-password"')
            with ui.element("div").classes("actions"):
                self._button = button("Change password", self._save)

    async def _save(self) -> None:
        old, new = str(self._old.value or ""), str(self._new.value or "")
        work = lambda: change_password(self._workspace, old, new) or True  # noqa: E731
        if await forms.attempt(work, {"old": self._old, "password": self._new}, self._button):
            self._old.set_value("")
            self._new.set_value("")
            tell("Changed. Your other sessions have ended.")


class _SessionList:
    def __init__(self, workspace: Workspace, sessions: Sequence[Session]) -> None:
        self._workspace = workspace
        self._rows = ui.element("div").props("aria-live=polite")
        self._show(sessions)

    def _show(self, sessions: Sequence[Session]) -> None:
        self._rows.clear()
        with self._rows, table(("Browser", "Address", "Last used", ""), "table stacked"):
            for session in sessions:
                with ui.element("tr"):
                    with ui.element("th").props("scope=row"):
                        text(session.agent or "unknown", classes="small clamp")
                        if session.is_this:
                            badge("this browser", "accent")
                    cell("Address", session.address, "")
                    cell("Last used", when(session.seen_at), "")
                    with cell("", classes="act"):
                        if not session.is_this:
                            button("End", partial(self._end, session.id), kind="quiet")

    async def _end(self, session: int) -> None:
        await forms.attempt(lambda: end_own_session(self._workspace, session))
        self._show(await to_thread.run_sync(own_sessions, self._workspace))


class _TokenList:
    """The tokens of the project, and a dialog to make one."""

    def __init__(self, workspace: Workspace, tokens: Sequence[Token], roles: Sequence[Role]) -> None:
        self._workspace, self._roles = workspace, roles
        about = f"Keys for programs, for the REST API of project {title_of('project', workspace.project)} alone."
        with section("Tokens", about):
            self._rows = ui.element("div").props("aria-live=polite")
            self._show(tokens)
            if roles:
                with ui.element("div").classes("actions"):
                    button("New token", self._creating().open)

    def _show(self, tokens: Sequence[Token]) -> None:
        self._rows.clear()
        with self._rows:
            if not tokens:
                text("None yet.", "p", "muted")
                return
            with table(("Token", "Role", "Last used", "Ends", ""), "table stacked"):
                for token in tokens:
                    self._row(token)

    def _row(self, token: Token) -> None:
        with ui.element("tr"):
            with ui.element("th").props("scope=row"):
                text(token.name, classes="name")
                text(token.user, classes="small muted")
            cell("Role", token.role, "")
            cell("Last used", when(token.used_at) or "never", "")
            cell("Ends", when(token.expires_at), "")
            with cell("", classes="act"):
                revoke = partial(self._revoke, token.id)
                about = "Programs that use it are refused at once."
                asked = confirmation(f"Revoke {token.name}?", about, "Revoke", revoke)
                button("Revoke", asked.open, kind="quiet")

    async def _revoke(self, token: int) -> None:
        await forms.attempt(lambda: revoke_token(self._workspace, token))
        self._show(await to_thread.run_sync(list_tokens, self._workspace))

    def _creating(self) -> ui.dialog:
        async def create() -> None:
            fields = {"name": title, "role": role, "days": days}
            given = forms.written(title) or "", role.value, days.value or 0
            made = await forms.attempt(lambda: create_token(self._workspace, *given), fields, creating)
            if made is not None:
                asked.close()
                self._show(await to_thread.run_sync(list_tokens, self._workspace))
                shown_once(
                    "Your token", "Copy it now: it is not shown again. Programs send it as a bearer token.", made[1]
                )

        with dialog("New token") as asked:
            with ui.element("div").classes("form"):
                title = forms.line(_TITLE)
                role = forms.pick(_ROLE, {name: name.capitalize() for name in self._roles}, self._roles[0])
                days = forms.number_field(_DAYS, _DEFAULT_DAYS)
            with ui.element("div").classes("actions"):
                creating = button("Create", create, kind="primary")
                button("Cancel", asked.close)
        return asked


def shown_once(title: str, about: str, secret: str) -> None:
    """Open a dialog with a secret to copy."""
    with ui.context.client.content, dialog(title, about) as shown:
        copyable(secret)
        with ui.element("div").classes("actions"):
            button("Done", shown.close, kind="primary")
    shown.open()
