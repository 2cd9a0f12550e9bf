"""The visitor's account with its sessions and tokens, and, for the owner, the people of the server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.runs import when
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import (
    Saving,
    carry_out,
    confirmation,
    delete_button,
    dialog,
    edited,
    question,
    work_button,
)
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.inviting import server_url
from evalflow.addons.studio.web.ui.parts import (
    badge,
    button,
    cell,
    copyable,
    empty,
    facts,
    link_button,
    section,
    table,
    table_row,
    text,
)
from evalflow.addons.studio.web.ui.visitor import title_of
from evalflow.addons.studio.work import passkeys, people, sessions
from evalflow.addons.studio.work.access import ROLES, Role, expect_confirmed
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import joined

_TITLE = forms.About("Name", "What the token is for.", "Nightly runs", required=True)
_ROLE = forms.About("Role", "If your own role becomes lower, so does the token's.", required=True)
_DAYS = forms.About("Valid for (days)", f"1 to {sessions.LONGEST_TOKEN_DAYS}.", required=True)
_DEFAULT_DAYS = 90


@guarded_page("/account", "account")
async def _account_page(workspace: Workspace) -> None:
    own = await to_thread.run_sync(sessions.own_account, workspace)
    actor = await to_thread.run_sync(workspace.identify)
    own_keys = await to_thread.run_sync(passkeys.own_passkeys, workspace)
    own_browsers = await to_thread.run_sync(sessions.own_sessions, workspace)
    tokens = await to_thread.run_sync(sessions.list_tokens, workspace)
    with frame("Account", place="Account", about=joined(own.full_name, own.name, own.email)):
        role = f"{actor.roles.get(workspace.project_id, 'none')} in project {title_of('project', workspace.project)}"
        facts([("Role", "owner of the server" if own.is_owner else role)])
        _PasskeyList(workspace, own_keys)
        with section("Sessions", "The browsers in which you are signed in."):
            _SessionList(workspace, own_browsers)
        rights = actor.rights(workspace.project_id)
        _TokenList(workspace, tokens, [role for role, allowed in ROLES.items() if allowed <= rights])


@guarded_page("/users", "own")
async def _users_page(workspace: Workspace) -> None:
    accounts = await to_thread.run_sync(people.list_users, workspace)
    with frame("Users", place="Users", about=_ABOUT) as actions:
        with actions:
            button("Add somebody", _adding(workspace).open, kind="primary")
        if accounts:
            _table(accounts)
        else:
            empty("group", "Nobody yet", "Add the owner of the server first.")


@guarded_page("/users/{user}", "own")
async def _one_page(workspace: Workspace, user: str) -> None:
    account = await to_thread.run_sync(people.get_user, workspace, user)
    with frame(account.name, place="Users", about=account.full_name, trail=[("Users", "/users")]) as actions:
        with actions:
            _actions(workspace, account)
        with ui.element("div").classes("actions"):
            _badges(account)
        with section("Details"):
            _UserForm(workspace, account)


class _PasskeyList:
    """The passkeys of the person, and a button to make one."""

    def __init__(self, workspace: Workspace, registered: Sequence[passkeys.Passkey]) -> None:
        self._workspace = workspace
        with section("Passkeys", "The devices by which you sign in."):
            self._rows = ui.element("div").props("aria-live=polite")
            self._show(registered)
            with ui.element("div").classes("actions"):
                button("Add a passkey", self._add)

    def _show(self, registered: Sequence[passkeys.Passkey]) -> None:
        self._rows.clear()
        with self._rows:
            if not registered:
                text("None yet.", "p", "muted")
                return
            with table(("Made in", "Made", "Last used", ""), "table stacked"):
                for passkey in registered:
                    with ui.element("tr"):
                        with ui.element("th").props("scope=row"):
                            text(passkey.name or "unknown", classes="small clamp")
                        cell("Made", when(passkey.created_at), "")
                        cell("Last used", when(passkey.used_at) or "never", "")
                        with cell("", classes="act"):
                            button("Remove", partial(self._remove, passkey.id), kind="quiet")

    async def _add(self) -> None:
        if await forms.succeeds(partial(expect_confirmed, self._workspace)) and await forms.used_passkey("add"):
            self._show(await to_thread.run_sync(passkeys.own_passkeys, self._workspace))

    async def _remove(self, passkey: int) -> None:
        await forms.succeeds(partial(passkeys.remove_passkey, self._workspace, passkey))
        self._show(await to_thread.run_sync(passkeys.own_passkeys, self._workspace))


class _SessionList:
    def __init__(self, workspace: Workspace, active: Sequence[sessions.Session]) -> None:
        self._workspace = workspace
        self._rows = ui.element("div").props("aria-live=polite")
        self._show(active)

    def _show(self, active: Sequence[sessions.Session]) -> None:
        self._rows.clear()
        with self._rows, table(("Browser", "Address", "Last used", ""), "table stacked"):
            for session in active:
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
        await forms.succeeds(partial(sessions.end_own_session, self._workspace, session))
        self._show(await to_thread.run_sync(sessions.own_sessions, self._workspace))


class _TokenList:
    """The tokens of the project, and a dialog to make one."""

    def __init__(self, workspace: Workspace, tokens: Sequence[sessions.Token], roles: Sequence[Role]) -> None:
        self._workspace, self._roles = workspace, roles
        about = f"Keys for programs, for the REST API of project {title_of('project', workspace.project)} alone."
        with section("Tokens", about):
            self._rows = ui.element("div").props("aria-live=polite")
            self._show(tokens)
            if roles:
                with ui.element("div").classes("actions"):
                    button("New token", self._creating().open)

    def _show(self, tokens: Sequence[sessions.Token]) -> None:
        self._rows.clear()
        with self._rows:
            if not tokens:
                text("None yet.", "p", "muted")
                return
            with table(("Token", "Role", "Last used", "Ends", ""), "table stacked"):
                for token in tokens:
                    with table_row(token.name, token.user):
                        cell("Role", token.role, "")
                        cell("Last used", when(token.used_at) or "never", "")
                        cell("Ends", when(token.expires_at), "")
                        with cell("", classes="act"):
                            self._revoke_button(token)

    def _revoke_button(self, token: sessions.Token) -> None:
        revoke, about = partial(self._revoke, token.id), "Programs that use it are refused at once."
        asked = confirmation(f"Revoke {token.name}?", about, "Revoke", revoke)
        button("Revoke", asked.open, kind="quiet")

    async def _revoke(self, token: int) -> None:
        await forms.succeeds(partial(sessions.revoke_token, self._workspace, token))
        self._show(await to_thread.run_sync(sessions.list_tokens, self._workspace))

    def _creating(self) -> ui.dialog:
        async def create(creating: ui.button) -> None:
            fields = {"name": title, "role": role, "days": days}
            given = forms.written(title) or "", role.value, days.value or 0
            made = await forms.attempt(lambda: sessions.create_token(self._workspace, *given), fields, creating)
            if made is not None:
                asked.close()
                self._show(await to_thread.run_sync(sessions.list_tokens, self._workspace))
                shown_once(
                    "Your token", "Copy it now: it is not shown again. Programs send it as a bearer token.", made[1]
                )

        with question("New token", "", "Create", create) as asked, ui.element("div").classes("form"):
            title = forms.line(_TITLE)
            role = forms.pick(_ROLE, {name: name.capitalize() for name in self._roles}, self._roles[0])
            days = forms.number_field(_DAYS, _DEFAULT_DAYS)
        return asked


def shown_once(title: str, about: str, secret: str) -> None:
    """Open a dialog with a secret to copy."""
    with ui.context.client.content, dialog(title, about) as shown:
        copyable(secret)
        with ui.element("div").classes("actions"):
            button("Done", shown.close, kind="primary")
    shown.open()


_ABOUT = "Who may sign in. What they may do in a project is the role that its admin gives them."
_NAME = forms.About("Name", "What the audit calls them; it never changes.", "ann.smith", required=True)
_FULL_NAME = forms.About("Full name", "As shown to others.", "Ann Smith")
_EMAIL = forms.About("E-mail", "Links the account of an identity provider with the same address.", "ann@example.org")
_OWNER = forms.About(
    "Owner of the server", "Manages people, projects and connections, and may do everything everywhere."
)
_STAYS = forms.About(
    "Stays signed in", "For two weeks in place of 12 hours, as long as the only role that they have is annotator."
)


def _table(users: Sequence[people.User]) -> None:
    with table(("Person", "E-mail", "", ""), "table stacked"):
        for user in users:
            with table_row(user.full_name or user.name, user.name if user.full_name else ""):
                cell("E-mail", user.email or "none", "")
                with cell("", classes=""):
                    _badges(user)
                with cell("", classes="act"):
                    link_button("Manage", f"/users/{user.name}").props(f'aria-label="Manage {user.name}"')


def _badges(user: people.User) -> None:
    if user.is_owner:
        badge("owner", "accent")
    if user.is_disabled:
        badge("disabled", "warn")
    if not user.passkeys:
        badge("no passkey")


def _adding(workspace: Workspace) -> ui.dialog:
    async def create(adding: ui.button) -> None:
        fields = {"name": name, "full_name": full_name, "email": email}
        given = forms.written(name) or "", forms.written(full_name) or "", forms.written(email)
        work = partial(people.add_user, workspace, given[0], full_name=given[1], email=given[2])
        await carry_out(work, lambda made: ui.navigate.to(f"/users/{made.name}"), fields, adding)

    about = "They then sign in by a link that you make, or with your company's provider."
    with question("Add somebody", about, "Add", create) as asked, ui.element("div").classes("form"):
        name = forms.line(_NAME)
        full_name = forms.line(_FULL_NAME)
        email = forms.line(_EMAIL)
    return asked


def _actions(workspace: Workspace, user: people.User) -> None:
    def show_link(code: str) -> None:
        about = f"Send it to {user.name}: it works once, within a day, and is not shown again."
        shown_once("A link to sign in", about, f"{server_url()}/link?code={code}")

    def set_disabled() -> None:
        version = people.get_user(workspace, user.name).version
        people.update_user(workspace, user.name, version, is_disabled=not user.is_disabled)

    work_button("Make a link", partial(people.sign_in_link, workspace, user.name), show_link, kind="primary")
    work_button("Enable" if user.is_disabled else "Disable", set_disabled, lambda _: ui.navigate.reload())
    about = "Their sessions, tokens and roles end; what they made stays, and the audit still names them."
    delete = partial(people.delete_user, workspace, user.name)
    delete_button(edited(people.get_user, workspace, _content, user), user.name, about, delete, "/users")


class _UserForm:
    def __init__(self, workspace: Workspace, user: people.User) -> None:
        self._workspace, self._user = workspace, user
        with forms.form():
            self._full_name = forms.line(_FULL_NAME, user.full_name)
            self._email = forms.line(_EMAIL, user.email)
            self._is_owner = forms.tick(_OWNER, user.is_owner)
            self._stays = forms.tick(_STAYS, user.stays_signed_in)
            with ui.element("div").classes("actions"):
                self._button = button("Save", self._save)
        self._saving = Saving(edited(people.get_user, workspace, _content, user), f"/users/{user.name}")

    async def _save(self) -> None:
        full_name, email = forms.written(self._full_name) or "", forms.written(self._email) or ""
        values = {"is_owner": bool(self._is_owner.value), "stays_signed_in": bool(self._stays.value)}
        fields = {"full_name": self._full_name, "email": self._email}
        change = partial(people.update_user, self._workspace, self._user.name)
        work = partial(change, full_name=full_name, email=email, **values)
        mine = {"full name": full_name, "e-mail": email, "owner": values["is_owner"]}
        mine |= {"stays signed in": values["stays_signed_in"]}
        path = f"/users/{self._user.name}"
        await self._saving.save(work, mine, fields, self._button, lambda _: forms.leave(path))


def _content(now: people.User) -> dict[str, object]:
    about = {"full name": now.full_name, "e-mail": now.email or "", "owner": now.is_owner}
    return {**about, "stays signed in": now.stays_signed_in, "disabled": now.is_disabled}
