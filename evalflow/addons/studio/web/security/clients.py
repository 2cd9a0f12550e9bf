"""Open pages of a public server: each belongs to the session that opened it, and ends with it.

NiceGUI knows an open page, its client, by a random id alone. Anyone who learned the id could otherwise act on somebody
else's page.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from evalflow.addons.studio.web.security.guards import refuse, route_path
from evalflow.addons.studio.web.security.scheduler import SCHEDULER, Scheduler
from evalflow.addons.studio.web.security.turns import EventTurns
from evalflow.addons.studio.work.access import SignedOutError
from evalflow.addons.studio.work.sessions import Identity, changed_identities, is_due, note_event
from evalflow.errors import EvalflowError

if TYPE_CHECKING:
    from nicegui import Client
    from starlette.types import ASGIApp, Receive, Scope, Send

    from evalflow.addons.studio.work.space import Workspace

log = logging.getLogger("evalflow")
PERIOD_S = 2.0
"""Seconds between looks at the sessions of open pages."""
GRACE_S = 0.5
"""Seconds for telling a browser that its page has ended."""
_SOCKET, _UPLOADS = "/_nicegui_ws/", "/_nicegui/client/"
_EVENTS = ("handshake", "event", "javascript_response", "ack", "log")
_RELOAD = "document.dispatchEvent(new Event('saved')); location.reload()"
"""Load the page again, without asking about unsaved changes."""


class OwnClients:
    """Refuses, with 403, uploads to and connections with a page that another session opened."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            sender = _owner(scope)
            if any(sender is None or not opener.is_of(sender) for opener in _named(scope)):
                await refuse(scope, receive, send, 403, "this page was opened by somebody else")
                return
        await self.app(scope, receive, send)


def _named(scope: Scope) -> list[Identity]:
    """Who opened the page and the connection that a request names."""
    return [one for one in _openers(scope) if one is not None]


def _openers(scope: Scope) -> list[Identity | None]:
    from starlette.datastructures import QueryParams

    from evalflow.addons.studio.web.nicegui_core import socket_server

    path = route_path(scope)
    if path.startswith(_UPLOADS):
        return [_opener(path.removeprefix(_UPLOADS).partition("/")[0])]
    if not path.startswith(_SOCKET):
        return []
    query = QueryParams(scope["query_string"])
    connections = cast("dict[str, dict[str, Any]]", socket_server().environ)
    # Check all values, since NiceGUI and python-socketio may each use another one of several.
    known = [connections[sid] for sid in query.getlist("sid") if sid in connections]
    return [*map(_opener, query.getlist("client_id")), *(_owner(one["asgi.scope"]) for one in known)]


def _opener(client_id: object) -> Identity | None:
    """Who opened a page; None if there is no such page."""
    from evalflow.addons.studio.web.nicegui_core import open_clients

    client = open_clients().get(client_id) if isinstance(client_id, str) else None
    return _owner(client.request.scope) if client else None


def _owner(scope: Scope) -> Identity | None:
    workspace: Workspace | None = scope.get("state", {}).get("workspace")
    return workspace.identify if workspace and isinstance(workspace.identify, Identity) else None


def guard_events() -> None:
    """Check every event of a browser: a page acts only for the session that opened it."""
    from evalflow.addons.studio.web.nicegui_core import socket_server

    handlers: dict[str, Any] = socket_server().handlers["/"]
    turns = EventTurns()
    for event in _EVENTS:
        handlers[event] = _guarded(event, handlers[event], turns)


def _guarded(event: str, handle: Callable[..., Any], turns: EventTurns) -> Callable[..., Any]:
    from evalflow.addons.studio.web.nicegui_core import running_tasks, socket_server

    async def guarded(sid: str, message: Any) -> Any:
        content = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        connection = socket_server().get_environ(sid)
        if connection is None:  # the connection has ended
            return False
        opener, sender = _opener(content.get("client_id")), _owner(connection["asgi.scope"])
        if opener is None or sender is None or not opener.is_of(sender):
            return False
        scheduler = _scheduler(content.get("client_id"))
        if event != "event" or scheduler is None:
            return await _handled(handle, sid, message)
        try:
            begun = set[asyncio.Task[Any]]()
            async with turns.turn(opener.first.queue if opener.first else "", scheduler, begun) as is_mine:
                if not is_mine:
                    return False
                if is_due(opener):
                    await to_thread.run_sync(note_event, opener)
                before = set(running_tasks())
                result = await _handled(handle, sid, message)  # it does not pause, so all new tasks are its own
                begun |= running_tasks() - before
                return result
        except SignedOutError:
            return False

    return guarded


def _scheduler(client_id: object) -> Scheduler | None:
    """The scheduler of the request that opened a page."""
    from evalflow.addons.studio.web.nicegui_core import open_clients

    client = open_clients().get(client_id) if isinstance(client_id, str) else None
    return client.request.scope.get("state", {}).get(SCHEDULER) if client else None


async def _handled(handle: Callable[..., Any], sid: str, message: Any) -> Any:
    result = handle(sid, message)
    return await result if inspect.isawaitable(result) else result


async def end_with_sessions(workspace: Workspace) -> None:
    """End open pages, until cancelled, whose session has ended or whose person has other rights than when it opened.

    The browser loads such a page again, which shows the form to sign in, or what the person may see now.
    """
    while True:
        await asyncio.sleep(PERIOD_S)
        try:
            await _end(await _outdated(workspace))
        except EvalflowError:
            continue  # the database is away; pages can do nothing without it
        except Exception:  # one look that fails must not be the last
            log.exception("cannot look at the sessions of open pages")


async def _outdated(workspace: Workspace) -> list[Client]:
    from evalflow.addons.studio.web.nicegui_core import open_clients

    opened = [(client, identity) for client in open_clients().values() if (identity := _opener(client.id))]
    changed = await to_thread.run_sync(changed_identities, workspace, [identity for _, identity in opened])
    gone = {id(identity) for identity in changed}
    return [client for client, identity in opened if id(identity) in gone]


async def _end(clients: list[Client]) -> None:
    for client in clients:
        client.run_javascript(_RELOAD)
    if clients:
        await asyncio.sleep(GRACE_S)
    for client in clients:
        if client.has_socket_connection:  # NiceGUI deletes the others soon
            client.delete()
