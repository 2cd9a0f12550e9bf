"""A form that invites somebody into a project or a review: a name, a role, a link to copy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import button, copyable, message, text
from evalflow.addons.studio.web.ui.visitor import may, visitor
from evalflow.addons.studio.work.access import Role
from evalflow.addons.studio.work.inviting import Invited, invite
from evalflow.addons.studio.work.space import Workspace

ROLES: Mapping[Role, str] = MappingProxyType(
    {
        "viewer": "reads everything in the project",
        "annotator": "labels what is assigned to them, and sees no scores",
        "editor": "defines bots, metrics and test cases, and runs them",
        "admin": "also deletes runs, and manages members and tokens",
    }
)
"""What each role may do."""
ROLE_NAMES: Mapping[Role, str] = MappingProxyType({role: role.capitalize() for role in ROLES})
_PERSON = forms.About("Person", "Their name, or the name that they sign in with.", "Ann Smith", required=True)
_ROLE = forms.About("Role", required=True)


class InviteForm:
    """The form. `role` is the least role offered; `invited` is called to show the people again."""

    def __init__(
        self, workspace: Workspace, role: Role, invited: Callable[[], Awaitable[object]], review: str = ""
    ) -> None:
        self._workspace, self._review, self._invited = workspace, review, invited
        with ui.element("div").classes("form adding"):
            with forms.pair():
                self._person = forms.line(_PERSON)
                self._role = forms.pick(_ROLE, {**ROLE_NAMES}, role)
            about = text(ROLES[role], classes="aside")
            self._role.on_value_change(lambda: about.set_text(ROLES[self._role.value]))
            with ui.element("div").classes("actions"):
                self._inviting = button("Invite", self._invite, kind="primary")
            self._done = ui.element("div").classes("stack").props("aria-live=polite")
        self._person.on("keydown.enter", self._invite, args=[])

    async def _invite(self) -> None:
        self._done.clear()
        person, role = str(self._person.value or ""), self._role.value
        fields = {"person": self._person, "name": self._person, "user": self._person}
        work = lambda: invite(self._workspace, person, role, self._review)  # noqa: E731
        invitation = await forms.attempt(work, fields, self._inviting)
        if invitation is not None:
            self._person.value = ""
            with self._done:
                _show(invitation)
            await self._invited()


def _show(invitation: Invited) -> None:
    if invitation.code is None:
        message(f"{invitation.user} is now {invitation.role}.", "They sign in as before." if may("own") else "", "")
        return
    about = "Send this link to them: it works once, within a day, and is not shown again."
    message(f"{invitation.user} is now {invitation.role}.", about, "")
    copyable(f"{server_url()}/link?code={invitation.code}")


def server_url() -> str:
    """The server's address in the browser; https on a public server, even if its proxy uses http."""
    url = ui.context.client.request.url
    return f"{'https' if visitor().has_account else url.scheme}://{url.netloc}"
