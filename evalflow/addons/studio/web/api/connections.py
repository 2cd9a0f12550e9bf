"""/connections: the addresses that a public server may call."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from evalflow.addons.studio.web.api.deps import Expected, Headers, Name, Paging, RequestBody, Space
from evalflow.addons.studio.work import connections
from evalflow.addons.studio.work.connections import ConnectionDraft, StoredConnection
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/connections", tags=["connections"])


class NewConnection(RequestBody):
    """A connection to add."""

    name: str = Field(max_length=200, description="Lower-case letters, digits and _; it never changes.")
    address: str = Field(max_length=2000, description="Such as https://api.openai.com/v1; all below it belongs to it.")
    api_key_env: str | None = Field(
        default=None, max_length=200, description="The server's environment variable with its key; null: no key."
    )
    networks: list[str] = Field(
        default=["public"], max_length=100, description="Where it may lead to: `public`, and CIDRs as 10.20.0.0/16."
    )
    description: str = Field(default="", max_length=10_000)


class ConnectionChange(RequestBody):
    """Changes to a connection; fields that are left out are unchanged."""

    address: str | None = Field(default=None, max_length=2000)
    api_key_env: str | None = Field(default=None, max_length=200, description="null: no key.")
    networks: list[str] | None = Field(default=None, max_length=100)
    description: str | None = Field(default=None, max_length=10_000)


@router.get("")
def read_connections(space: Space, paging: Paging) -> Page[StoredConnection]:
    """All connections, by name. Keys are never shown; `is_key_set` says whether the server has one."""
    return paging.of(connections.list_connections(space), lambda one: (one.name,))


@router.post("", status_code=201)
def post_connection(space: Space, new: NewConnection, headers: Headers) -> StoredConnection:
    """Add a connection."""
    draft = ConnectionDraft(new.address, new.api_key_env, new.networks, new.description)
    made = connections.create_connection(space, new.name, draft)
    return headers.locate(made, made.name)


@router.get("/{connection}")
def read_connection(space: Space, connection: Name, headers: Headers) -> StoredConnection:
    """One connection."""
    return headers.tag(connections.get_connection(space, connection))


@router.patch("/{connection}")
def patch_connection(
    space: Space, connection: Name, change: ConnectionChange, expected: Expected, headers: Headers
) -> StoredConnection:
    """Change a connection; runs under way keep the old one."""
    given = change.model_dump(exclude_unset=True)
    changes = {key: value for key, value in given.items() if value is not None or key == "api_key_env"}
    return headers.tag(connections.update_connection(space, connection, expected, changes))


@router.delete("/{connection}", status_code=204)
def remove_connection(space: Space, connection: Name, expected: Expected) -> None:
    """Delete a connection that no bot, metric or queued run uses."""
    connections.delete_connection(space, connection, expected)
