"""Connections: the owner's list of the only addresses that a public server may call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from evalflow.addons.studio.store import uses
from evalflow.addons.studio.store.rows import Hidden, Row, from_row
from evalflow.addons.studio.store.uses import Configuration
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.definitions import DefinitionStore, remembered_content
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.addons.studio.work.validate import check_name, one_line
from evalflow.calls.connections import Connection, Connections, Place
from evalflow.errors import Problem, Subject, UserError, check_all
from evalflow.llm.sdk import OPENAI_URL
from evalflow.values.jsonvalues import is_list, is_object


@dataclass(frozen=True, slots=True)
class ConnectionDraft:
    """A connection to be saved; see `docs/connections.md`.

    Attributes:
        address: Such as https://api.openai.com/v1; the connection covers everything below it.
        api_key_env: The server's environment variable with the key; None: no key is needed.
        networks: The networks that it may resolve to: `public`, and CIDRs such as 10.20.0.0/16.
        description: For people.
    """

    address: str
    api_key_env: str | None = None
    networks: Sequence[str] = ("public",)
    description: str = ""


@dataclass(frozen=True, slots=True)
class StoredConnection(ConnectionDraft):
    """A connection of the server.

    Attributes:
        id: The row's.
        name: Unique; editors write it after `connection:`.
        is_key_set: Whether the server's environment has the key; None if no key is needed.
        version: Counts changes.
        created_at, updated_at: ISO 8601, UTC.
    """

    id: Hidden[int] = 0
    name: str = ""
    is_key_set: bool | None = None
    version: int = 0
    created_at: str = ""
    updated_at: str = ""


def _read(row: Row) -> StoredConnection:
    connection = from_row(StoredConnection, row)
    variable = connection.api_key_env
    return replace(connection, is_key_set=None if variable is None else bool(os.environ.get(variable)))


_COLUMNS = tuple(field.name for field in fields(ConnectionDraft))
CONNECTIONS = DefinitionStore("connection", _read)


@requires("edit")
def list_connections(space: Workspace) -> list[StoredConnection]:
    """All connections, by name."""
    return CONNECTIONS.own(space)


@requires("read")
def connection_names(space: Workspace) -> list[str] | None:
    """The connections to choose from, by name; None if any address may be called."""
    allowed = space.allowed
    return None if allowed is None else [one.name for one in allowed.listed]


@requires("edit")
def get_connection(space: Workspace, name: str) -> StoredConnection:
    """One connection."""
    return CONNECTIONS.get(space, name)


@requires("own", confirmed=True)
def create_connection(space: Workspace, name: str, draft: ConnectionDraft) -> StoredConnection:
    """Add a connection."""
    check_all(lambda: check_name(name, "connection"), lambda: _checked(space, name, draft))
    CONNECTIONS.create(space, {"name": name, **_checked(space, name, draft)})
    return get_connection(space, name)


@requires("own", confirmed=True)
def update_connection(space: Workspace, name: str, expected: int, changes: Mapping[str, object]) -> StoredConnection:
    """Change fields of a `ConnectionDraft`; runs in progress keep the old connection.

    `expected`: the version that was edited.
    """
    there = CONNECTIONS.get(space, name)
    values: dict[str, Any] = {key: getattr(there, key) for key in _COLUMNS} | dict(changes)
    draft = ConnectionDraft(**values)
    CONNECTIONS.change(space, there, expected, _checked(space, name, draft))
    return get_connection(space, name)


@requires("own", confirmed=True)
def delete_connection(space: Workspace, name: str, expected: int) -> None:
    """Delete a connection. Raises TakenError if bots, metrics, judges or queued runs use it, naming them."""
    there = CONNECTIONS.get(space, name)
    used = users_of(space, name)
    if used:
        what = f"the connection {name!r} is used by {', '.join(map(_named, used))}"
        hint = "give these another connection, or cancel the runs"
        raise TakenError(Problem(what, "connection", hint, see=tuple(used)))
    CONNECTIONS.delete(space, there, expected)


@requires("own")
def users_of(space: Workspace, name: str) -> list[Subject]:
    """The bots, metrics, judges and queued runs of all projects that use a connection."""
    called = Connection.of(asdict(CONNECTIONS.get(space, name)))
    known = space.read(uses.configurations)
    using = [one for one in known if any(_is_of(called, values) for values in _parts(_content(space, one)))]
    theirs = {(one.project, one.name) for one in using if one.kind in ("bot", "judge")}
    using += [
        one
        for one in known
        if one.kind == "run" and one not in using
        if {(one.project, one.bot), (one.project, one.content["judge"])} & theirs
    ]
    return [Subject(one.kind, one.name, one.bot if one.kind == "metric" else "", one.project) for one in using]


def _named(user: Subject) -> str:
    """Such as `bot desk/helper`."""
    return f"{user.kind} {'/'.join(part for part in (user.project, user.owner, user.name) if part)}"


def _content(space: Workspace, one: Configuration) -> object:
    """The configuration; for a run, that of its judge and embedder if conf/ declares them."""
    request = one.content
    if one.kind != "run":
        return request
    try:
        return [
            {**remembered_content(space, group, request[group]), **request[f"{group}_values"]}
            for group in ("judge", "embedder")
        ]
    except UserError:  # conf/ has changed since, or the judge is defined here
        return request


def _parts(content: object) -> Iterator[Mapping[str, object]]:
    if is_object(content):
        yield content
        content = list(content.values())
    if is_list(content):
        for inner in content:
            yield from _parts(inner)


def _is_of(one: Connection, values: Mapping[str, object]) -> bool:
    if "connection" in values:
        return values["connection"] == one.name
    for key, default in (("url", None), ("base_url", OPENAI_URL if values.get("kind") == "openai" else None)):
        address = values.get(key) or default
        try:
            if isinstance(address, str) and one.place.holds(Place.of(address)):
                return True
        except ValueError:  # then it cannot be called
            continue
    return False


def _checked(space: Workspace, name: str, draft: ConnectionDraft) -> dict[str, object]:
    """The columns of a connection, validated together with the others."""
    variable = (draft.api_key_env or "").strip() or None
    networks = list(dict.fromkeys(word.strip().lower() for word in draft.networks if word.strip()))
    one = Connection(name, _normalised(draft.address), variable, tuple(networks))
    others = [Connection.of(asdict(one)) for one in CONNECTIONS.own(space) if one.name != name]
    Connections((*others, one))
    values = {**asdict(one), "networks": one.reach.words, "description": one_line(draft.description, "connection")}
    return {key: values[key] for key in _COLUMNS}


def _normalised(address: str) -> str:
    """Lower-case the scheme and host of an address, and strip trailing slashes."""
    scheme, colon, rest = address.strip().rstrip("/").partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{colon}{host.lower()}{slash}{path}"
