"""Everybody who may send a request to a server; the header X-Person says who does."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, get_args

from evalflow.addons.studio.work.access import LOCAL, Actor, Role, SignedOutError
from evalflow.addons.studio.work.space import Workspace

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_person: ContextVar[Actor | None] = ContextVar("person", default=None)


def everybody(space: Workspace) -> dict[str, Actor | None]:
    """Nobody, who has each role in the project, the admin of the project `other`, and the owner."""
    members = {role: Actor(1, role, roles={space.project_id: role}) for role in get_args(Role)}
    other = space.in_project("other").project_id
    return {"nobody": None, "stranger": Actor(2, "stranger", roles={other: "admin"}), **members, "owner": LOCAL}


def identify() -> Actor:
    """Who sends the request; for `Workspace.identify`."""
    actor = _person.get()
    if actor is None:
        raise SignedOutError
    return actor


class Known:
    """Takes each request for one of the person whom it names."""

    def __init__(self, app: ASGIApp, people: Mapping[str, Actor | None]) -> None:
        self.app = app
        self._people = people

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            _person.set(self._people[dict(scope["headers"]).get(b"x-person", b"nobody").decode()])
        await self.app(scope, receive, send)
