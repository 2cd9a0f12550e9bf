"""Connections: the addresses that a public server may call, each with its key's variable and allowed networks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from evalflow.calls.networks import Networks
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.paths import private_file
from evalflow.redaction import public_address
from evalflow.values.jsonvalues import as_list, as_map, is_mapping

VARIABLE = "EVALFLOW_CONNECTIONS"
"""The environment variable that names the file with the connections of a process; unset: it may call any address."""
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:(?P<port>\d{1,5}))?(?P<path>/[^?#\\\s]*)?(\?[^#\s]*)?",
    re.ASCII | re.IGNORECASE,
)
"""Stricter than what clients accept, so that no two clients can parse different hosts from the same text."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Place(NamedTuple):
    """An address normalised for comparison; `path` has its decoded segments."""

    scheme: str
    host: str
    port: int
    path: tuple[str, ...]

    @classmethod
    def of(cls, url: str) -> Place:
        """Parse an address; ValueError if it is invalid, or if two clients could parse it differently."""
        match = _URL.fullmatch(url)
        if match is None:
            raise ValueError("it must be http(s)://HOST[:PORT][/PATH] in ASCII, without user and password")
        scheme, path = match["scheme"].lower(), match["path"] or ""
        port = int(match["port"] or {"http": 80, "https": 443}[scheme])
        if not 0 < port < 1 << 16:
            raise ValueError(f"there is no port {port}")
        while (plain := unquote(path)) != path:
            path = plain
        segments = tuple(path.rstrip("/").split("/")[1:])
        if "\\" in path or any(segment.partition(";")[0] in (".", "..") for segment in segments):
            raise ValueError("its path must not lead up")
        return cls(scheme, match["host"].lower(), port, segments)

    def holds(self, other: Place) -> bool:
        """Return whether another address is this one or below it."""
        return self[:3] == other[:3] and self.path == other.path[: len(self.path)]


@dataclass(frozen=True, slots=True)
class Connection:
    """An address that may be called.

    Attributes:
        name: Unique; `connection: NAME` in a definition stands for its address and key.
        address: All addresses below it belong to the connection.
        api_key_env: The environment variable with its key; None: no key is needed.
        networks: The networks that it may reach: `public`, which is any globally routable address, and CIDRs.

    Raises:
        UserError: Lists every problem of it.
    """

    name: str
    address: str
    api_key_env: str | None
    networks: tuple[str, ...]

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        if not self.name.strip() or not self.name.isprintable():
            problems.append(Problem("a connection needs a name", "connection.name", "such as openai"))
        for key, check in (("address", lambda: self.place), ("networks", lambda: self.reach)):
            try:
                check()
            except ValueError as error:
                problems.append(Problem(str(error), f"connection.{key}", key=f"connection.{key}"))
        if {"?", "#"} & set(self.address):
            problems.append(Problem("it must end with its path", "connection.address", key="connection.address"))
        if self.api_key_env is not None and not _NAME.match(self.api_key_env):
            what = f"{self.api_key_env!r} cannot be the name of an environment variable"
            problems.append(Problem(what, "connection.api_key_env", "such as OPENAI_API_KEY", "connection.api_key_env"))
        if problems:
            raise UserError(problems)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Connection:
        """Create a connection from a row of the database or of JSON."""
        return cls(row["name"], row["address"], row["api_key_env"], tuple(row["networks"]))

    @property
    def place(self) -> Place:
        return Place.of(self.address)

    @property
    def reach(self) -> Networks:
        return Networks.of(self.networks)

    def __str__(self) -> str:
        key = f"key in {self.api_key_env}" if self.api_key_env else "no key"
        return f"{self.name} ({self.address}, {key})"


@dataclass(frozen=True, slots=True)
class Connections:
    """All connections that a process may use.

    Raises:
        UserError: Two have the same name, or the same address with different networks.
    """

    listed: tuple[Connection, ...]

    def __post_init__(self) -> None:
        names: set[str] = set()
        places: dict[Place, Connection] = {}
        for connection in self.listed:
            if connection.name in names:
                what = f"two connections are called {connection.name!r}"
                raise UserError(Problem(what, "connection.name", "rename one", "connection.name"))
            other = places.setdefault(connection.place, connection)
            if connection.reach != other.reach:
                what = f"{connection.name} and {other.name} have the same address but different networks"
                raise UserError(Problem(what, "connection.networks", "give both the same", "connection.networks"))
            names.add(connection.name)

    @classmethod
    def of_process(cls) -> Connections | None:
        """Read the connections of the file that EVALFLOW_CONNECTIONS names; None if it is unset.

        Raises:
            UserError: The file cannot be read.
        """
        file = os.environ.get(VARIABLE)
        if file is None:
            return None
        try:
            rows: list[Mapping[str, Any]] = json.loads(Path(file).read_bytes())
            return cls(tuple(map(Connection.of, rows)))
        except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
            raise UserError(Problem(f"the connections cannot be read: {error!r}", f"{VARIABLE}={file}")) from None

    def write(self, file: Path) -> None:
        """Write a file for `of_process`. It has the names of variables, not the keys."""
        handle = private_file(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump([asdict(connection) for connection in self.listed], out)

    def named(self, name: object, key: str) -> Connection:
        """Return a connection by name; `key` is the configuration key that names it."""
        connection = next((connection for connection in self.listed if connection.name == name), None)
        if connection is None:
            names = [connection.name for connection in self.listed]
            hint = did_you_mean(str(name), names) if names else self._hint()
            raise UserError(Problem(f"there is no connection {name!r}", f"{key}.connection", hint, f"{key}.connection"))
        return connection

    def of_model(self, base_url: str, api_key_env: str | None, key: str) -> Connection:
        """Return the connection of a model's address and key; `key` is the configuration key of the model."""
        there = self._at(base_url, f"{key}.base_url")
        mine = next((connection for connection in there if connection.api_key_env == api_key_env), None)
        if mine is None:
            what = f"{there[0].name} is called with {_key_of(there[0].api_key_env)}, not with {_key_of(api_key_env)}"
            raise UserError(Problem(what, f"{key}.api_key_env", self._hint(), f"{key}.api_key_env"))
        return mine

    def of_service(self, url: str, variables: Collection[str], key: str) -> Connection:
        """Return the connection of a service's address; `variables` may have that connection's key only."""
        there = self._at(url, f"{key}.url")
        mine = next((connection for connection in there if set(variables) <= {connection.api_key_env}), None)
        if mine is None:
            own = there[0].api_key_env
            others = ", ".join(sorted(set(variables) - {own}))
            what = f"{there[0].name} is called with {_key_of(own)}; {others} cannot be read for it"
            raise UserError(Problem(what, f"{key}.headers", self._hint(), f"{key}.headers"))
        return mine

    def of_receiver(self, url: str, key: str) -> Connection:
        """Return the connection of a receiver's address, which is sent that connection's key only."""
        return self._at(url, key)[0]

    def resolve(self, values: Mapping[str, object], key: str) -> dict[str, object]:
        """Return the configuration of a bot, judge or embedder with `connection: NAME` replaced by address and key.

        A bot of kind http may have as `url` a path below the address. If none of its headers has the key, it is sent as
        `Authorization: Bearer`.
        """
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - of an unchecked form
            return values
        plain = dict(values)
        if members := as_map(plain.get("members")):
            own = {name: member for name, member in members.items() if is_mapping(member)}
            called = {name: self.resolve(member, f"{key}.members.{name}") for name, member in own.items()}
            plain["members"] = {**members, **called}
        name = plain.pop("connection", None)
        if name is None:
            return plain
        connection = self.named(name, key)
        if plain.get("kind") == "http":
            return self._service(plain, connection, key)
        for setting in ("base_url", "api_key_env"):
            if plain.get(setting) is not None:
                raise UserError(_given_twice(key, setting))
        return {**plain, "base_url": connection.address, "api_key_env": connection.api_key_env}

    def _service(self, plain: dict[str, object], connection: Connection, key: str) -> dict[str, object]:
        path = plain.get("url") or ""
        if not isinstance(path, str) or not re.match(r"(/|\Z)", path):
            raise UserError(_given_twice(key, "url"))
        plain["url"] = connection.address.rstrip("/") + path if path else connection.address
        for part in ("open", "poll"):  # their paths must be below the address too
            request = as_map(plain.get(part))
            if isinstance(url := request.get("url"), str) and url.startswith("/"):
                plain[part] = {**request, "url": connection.address.rstrip("/") + url}
        own = f"${{oc.env:{connection.api_key_env}}}"
        headers = as_map(plain.get("headers"))
        is_sent = own in json.dumps(headers) or "authorization" in map(str.lower, headers)
        if connection.api_key_env and not is_sent:
            plain["headers"] = {**headers, "Authorization": f"Bearer {own}"}
        return plain

    def _at(self, url: str, key: str) -> list[Connection]:
        """Return the connections that an address belongs to, the longest path first."""
        try:
            place = Place.of(url)
        except ValueError as error:
            what = f"{public_address(url)} cannot be called: {error}"
            raise UserError(Problem(what, key, self._hint(), key)) from None
        there = [connection for connection in self.listed if connection.place.holds(place)]
        if not there:
            what = f"{public_address(url)} belongs to no connection of this server"
            raise UserError(Problem(what, key, self._hint(), key))
        longest = max(len(connection.place.path) for connection in there)
        return [connection for connection in there if len(connection.place.path) == longest]

    def _hint(self) -> str:
        listed = "; ".join(map(str, self.listed))
        known = f"the connections are: {listed}" if listed else "there is no connection yet"
        return f"{known}; the server's owner adds them on the page Connections"


def _key_of(variable: str | None) -> str:
    return f"the key in {variable}" if variable else "no key"


def _given_twice(key: str, setting: str) -> Problem:
    what = f"the connection has its own {setting}"
    return Problem(what, f"{key}.{setting}", f"leave out {setting}, or the connection", f"{key}.{setting}")


def variables_in(value: object) -> set[str]:
    """Return the environment variables that a configuration reads, in any form of `${oc.env:NAME}`.

    Escaped references count too.
    """
    if isinstance(value, str):
        return set(re.findall(r"oc\s*\.\s*env\s*:\s*([^},\s]*)", value))
    if isinstance(value, Mapping):
        return {name for item in as_map(value).items() for part in item for name in variables_in(part)}
    parts = as_list([*value]) if isinstance(value, list | tuple) else []
    return {name for part in parts for name in variables_in(part)}
