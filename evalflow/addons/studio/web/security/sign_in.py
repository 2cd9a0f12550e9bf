"""Who sends a request to a public server: a session's cookie, a program's token, or the name that a proxy sends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from anyio import to_thread

from evalflow.addons.studio.web.security.guards import note_fields, refuse, route_path
from evalflow.addons.studio.web.security.oidc import CALLBACK, OIDC
from evalflow.addons.studio.web.security.projects import PREFIX, UNKNOWN
from evalflow.addons.studio.web.security.token import OPEN_PATHS
from evalflow.addons.studio.web.security.turns import KeyTurns, is_file, refuse_waiting
from evalflow.addons.studio.work.access import ROLES, Actor, ForbiddenError, Role, SignedOutError, nobody
from evalflow.addons.studio.work.identities import NO_SECOND_FACTOR
from evalflow.addons.studio.work.projects import uncounted_projects
from evalflow.addons.studio.work.sessions import (
    TOKEN_PREFIX,
    Identity,
    identity_of,
    is_due,
    note_use,
)
from evalflow.addons.studio.work.sign_in_limits import TooManyTriesError, expect_free, note_refusal
from evalflow.errors import Problem

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from evalflow.addons.studio.work.space import Workspace

LINK, PASSKEY = "/link", "/passkey"
"""The path of one-time links, and that of what devices answer."""
COOKIE = "__Host-evalflow"
"""Browsers accept a cookie of such a name only over https, for this host, and for all paths."""
FORMS = frozenset({LINK, PASSKEY, f"{PASSKEY}/options"})
"""Paths that take what somebody sends who is not signed in."""
FOR_EVERYBODY = frozenset({*OPEN_PATHS, "/sign-in", LINK, OIDC, CALLBACK, "/metrics"})
"""Paths that need no account, or ask for one themselves."""
_WORK = frozenset({"read", "label"})
"""Rights of which one is needed for the first page of a project."""


class SignedIn:
    """Lets only people with a session or a token in, and gives the workspace their identity.

    The identity is checked again at every use, so that a page that stays open loses its rights with the session.
    """

    def __init__(self, app: ASGIApp, *, has_second_factor: bool = False) -> None:
        self.app = app
        self._has_second_factor = has_second_factor
        self._turns = KeyTurns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        from starlette.requests import HTTPConnection

        connection = HTTPConnection(scope)
        workspace: Workspace = connection.state.workspace
        try:
            claimed = _claimed(connection, workspace)
            key = f"{claimed.kind} {claimed.key}" if claimed and not is_file(scope) else None
            async with self._turns.turn(key) as is_mine:
                if not is_mine:
                    await refuse_waiting(scope, receive, send)
                    return
                identity, actor = await _known(connection, workspace, claimed)
            if actor and actor.is_owner and identity and identity.kind == "user" and not self._has_second_factor:
                raise ForbiddenError(NO_SECOND_FACTOR)
        except ForbiddenError as error:
            await refuse(scope, receive, send, 403, str(error))
            return
        if actor is None and not _is_for_everybody(scope):
            await _refuse(connection, scope, receive, send)
            return
        workspace = connection.state.workspace = replace(workspace, identify=identity or nobody)
        if actor and actor.is_owner and workspace.project_id == UNKNOWN:
            await refuse(scope, receive, send, 404, f"there is no project {workspace.project!r}")
            return
        if actor and scope["path"] == "/" and _WORK.isdisjoint(actor.rights(workspace.project_id)):
            await redirect(await to_thread.run_sync(_first_page, workspace))(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _is_for_everybody(scope: Scope) -> bool:
    """Whether a request needs no account. None reaches NiceGUI, which keeps a page in memory for each unknown path."""
    path, method = route_path(scope), scope.get("method")
    if method == "POST":
        return path in FORMS
    return method in ("GET", "HEAD") and (path in FOR_EVERYBODY or scope["path"].startswith("/assets/"))


def _claimed(connection: HTTPConnection, workspace: Workspace) -> Identity | None:
    """The identity that a request claims to have; None without a key.

    A token counts more than the name that the proxy sends, and that more than a cookie.
    """
    address = connection.client.host if connection.client else ""
    note_fields(connection.scope, address=address)  # of the person, also behind a proxy
    if connection.scope["path"] in OPEN_PATHS:
        return None  # a check of health is answered without the database, also to somebody with a key
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    key = session_key(connection)
    user = getattr(connection.state, "proxy_user", None)
    if scheme.lower() == "bearer" and token.startswith(TOKEN_PREFIX):
        return identity_of(workspace, "token", token.strip(), address)
    if user:
        return identity_of(workspace, "user", user, address)
    return identity_of(workspace, "session", key, address) if key else None


async def _known(
    connection: HTTPConnection, workspace: Workspace, identity: Identity | None
) -> tuple[Identity, Actor] | tuple[None, None]:
    """The identity of a request, and who that is now; None if its key is not valid.

    Raises ForbiddenError if the proxy names somebody without an account, or one that is disabled.
    """
    if identity is None:
        return None, None
    try:
        actor = await to_thread.run_sync(identity)
    except SignedOutError:
        if identity.kind == "user":
            await to_thread.run_sync(_note_stranger, workspace, identity.address)
            what = f"you are signed in as {identity.key!r}, who has no account here, or a disabled one"
            raise ForbiddenError(Problem(what, hint="ask the owner of this server")) from None
        return None, None
    note_fields(connection.scope, user=actor.name)
    if is_due(identity):
        await to_thread.run_sync(note_use, workspace, identity)
    return identity, actor


def _note_stranger(workspace: Workspace, address: str) -> None:
    """Note that the proxy names somebody without an account; a few times, since each of their requests does."""
    try:
        expect_free(workspace, address)
    except TooManyTriesError:
        return
    note_refusal(workspace, address, None, "proxy: no account")


def session_key(connection: HTTPConnection) -> str | None:
    """The key in the session cookie of a request."""
    return connection.cookies.get(COOKIE)


def _first_page(workspace: Workspace) -> str:
    """The first page of somebody without a role in the default project: a project of theirs, or their account."""
    mine = (one.name for one in uncounted_projects(workspace) if not _WORK.isdisjoint(ROLES[cast("Role", one.role)]))
    return next((f"{PREFIX}{name}/" for name in mine), "/account")


async def _refuse(connection: HTTPConnection, scope: Scope, receive: Receive, send: Send) -> None:
    """401; somebody who opens a page is sent to sign in, and then back."""
    if scope["type"] == "http" and connection.headers.get("sec-fetch-mode") == "navigate":
        query = scope["query_string"].decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        url = "/sign-in" + ("" if wanted == "/" else f"?next={quote(wanted, safe='')}")
        await redirect(url)(scope, receive, send)
        return
    await refuse(scope, receive, send, 401, SignedOutError().problems[0].what, {"WWW-Authenticate": "Bearer"})


def redirect(path: str) -> Response:
    """A redirect that browsers do not remember."""
    from starlette.responses import RedirectResponse

    return RedirectResponse(path, 303, {"Cache-Control": "no-store"})
