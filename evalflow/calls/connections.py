"""Connections: the addresses that a public server may call, each with its key's variable and its networks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from evalflow.calls.networks import Networks
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.paths import private_file
from evalflow.redaction import public_address

VARIABLE = "EVALFLOW_CONNECTIONS"
"""The environment variable that names the file with the connections of a process; unset: it may call any address."""
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:(?P<port>\d{1,5}))?(?P<path>/[^?#\\\s]*)?(\?[^#\s]*)?",
    re.ASCII | re.IGNORECASE,
)
"""Narrower than what clients take, so that no two of them can read different hosts in one text."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Place(NamedTuple):
    """An address in the form in which addresses are compared; `path` are its segments, decoded."""

    scheme: str
    host: str
    port: int
    path: tuple[str, ...]

    @classmethod
    def of(cls, url: str) -> Place:
        """Read an address; ValueError if it is none, or if two clients could read it differently."""
        found = _URL.fullmatch(url)
        if found is None:
            raise ValueError("it must be http(s)://HOST[:PORT][/PATH] in ASCII, without user and password")
        scheme, path = found["scheme"].lower(), found["path"] or ""
        port = int(found["port"] or {"http": 80, "https": 443}[scheme])
        if not 0 < port < 1 << 16:
            raise ValueError(f"there is no port {port}")
        while (plain := unquote(path)) != path:
            path = plain
        segments = tuple(path.rstrip("/").split("/")[1:])
        if "\\" in path or any(segment.partition(";")[0] in (".", "..") for segment in segments):
            raise ValueError("its path must not lead up")
        return cls(scheme, found["host"].lower(), port, segments)

    def holds(self, other: Place) -> bool:
        """Whether another address is this one, or below it."""
        return self[:3] == other[:3] and self.path == other.path[: len(self.path)]


@dataclass(frozen=True, slots=True)
class Connection:
    """An address that may be called.

    Attributes:
        name: Unique; `connection: NAME` in a definition stands for its address and key.
        address: All that is called below it belongs to it.
        api_key_env: The environment variable with its key; None: it needs none.
        networks: Where it may lead to: `public`, any globally routable address, and CIDRs.

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
        """The connection of a row of the database or of JSON."""
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
        UserError: Two have the same name, or the same address and other networks.
    """

    listed: tuple[Connection, ...]

    def __post_init__(self) -> None:
        names: set[str] = set()
        places: dict[Place, Connection] = {}
        for one in self.listed:
            if one.name in names:
                what = f"two connections are called {one.name!r}"
                raise UserError(Problem(what, "connection.name", "rename one", "connection.name"))
            other = places.setdefault(one.place, one)
            if one.reach != other.reach:
                what = f"{one.name} and {other.name} have one address, and different networks"
                raise UserError(Problem(what, "connection.networks", "give both the same", "connection.networks"))
            names.add(one.name)

    @classmethod
    def of_process(cls) -> Connections | None:
        """Those of the file that EVALFLOW_CONNECTIONS names; None without it.

        Raises:
            UserError: The file cannot be read.
        """
        file = os.environ.get(VARIABLE)
        if file is None:
            return None
        try:
            rows = cast("list[dict[str, Any]]", json.loads(Path(file).read_bytes()))
            return cls(tuple(map(Connection.of, rows)))
        except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
            raise UserError(Problem(f"the connections cannot be read: {error!r}", f"{VARIABLE}={file}")) from None

    def write(self, file: Path) -> None:
        """Write a file for `of_process`. It has names of variables, no keys."""
        handle = private_file(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump([asdict(one) for one in self.listed], out)

    def named(self, name: object, key: str) -> Connection:
        """One of them, for the configuration key that names it."""
        found = next((one for one in self.listed if one.name == name), None)
        if found is None:
            hint = did_you_mean(str(name), [one.name for one in self.listed]) if self.listed else self._hint()
            raise UserError(Problem(f"there is no connection {name!r}", f"{key}.connection", hint, f"{key}.connection"))
        return found

    def of_model(self, base_url: str, api_key_env: str | None, key: str) -> Connection:
        """The connection that a model's address and key belong to; `key` is that of the model's configuration."""
        found = self._at(base_url, f"{key}.base_url")
        mine = next((one for one in found if one.api_key_env == api_key_env), None)
        if mine is None:
            what = f"{found[0].name} is called with {_key_of(found[0].api_key_env)}, not with {_key_of(api_key_env)}"
            raise UserError(Problem(what, f"{key}.api_key_env", self._hint(), f"{key}.api_key_env"))
        return mine

    def of_service(self, url: str, variables: Collection[str], key: str) -> Connection:
        """The connection that a service's address belongs to, whose key alone may be among the variables."""
        found = self._at(url, f"{key}.url")
        mine = next((one for one in found if set(variables) <= {one.api_key_env}), None)
        if mine is None:
            own = next((one.api_key_env for one in found), None)
            others = ", ".join(sorted(set(variables) - {own}))
            what = f"{found[0].name} is called with {_key_of(own)}; {others} cannot be read for it"
            raise UserError(Problem(what, f"{key}.headers", self._hint(), f"{key}.headers"))
        return mine

    def of_receiver(self, url: str, key: str) -> Connection:
        """The connection that a receiver's address belongs to; it is sent that connection's key alone."""
        return self._at(url, key)[0]

    def resolve(self, values: Mapping[str, Any], key: str) -> dict[str, Any]:
        """The configuration of a bot, judge or embedder, with `connection: NAME` replaced by address and key.

        A bot of kind http may have its path below the address as `url`; without any header of its own that has the key,
        it is sent as `Authorization: Bearer`.
        """
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - of an unchecked form
            return values
        plain = dict(values)
        if isinstance(plain.get("members"), Mapping):
            members = cast("Mapping[str, Any]", plain["members"])
            plain["members"] = {name: self.resolve(part, f"{key}.members.{name}") for name, part in members.items()}
        name = plain.pop("connection", None)
        if name is None:
            return plain
        one = self.named(name, key)
        if plain.get("kind") == "http":
            return self._service(plain, one, key)
        for given in ("base_url", "api_key_env"):
            if plain.get(given) is not None:
                raise UserError(_given_twice(key, given))
        return {**plain, "base_url": one.address, "api_key_env": one.api_key_env}

    def _service(self, plain: dict[str, Any], one: Connection, key: str) -> dict[str, Any]:
        path = plain.get("url") or ""
        if not isinstance(path, str) or not re.match(r"(/|\Z)", path):
            raise UserError(_given_twice(key, "url"))
        plain["url"] = one.address.rstrip("/") + path if path else one.address
        for part in ("open", "poll"):  # their paths are below the address too
            inner: Any = plain.get(part)
            if isinstance(inner, Mapping) and str(cast("Mapping[str, Any]", inner).get("url")).startswith("/"):
                request = cast("Mapping[str, Any]", inner)
                plain[part] = {**request, "url": one.address.rstrip("/") + request["url"]}
        own = f"${{oc.env:{one.api_key_env}}}"
        headers: Mapping[str, Any] = plain.get("headers") or {}
        is_sent = own in json.dumps(headers) or "authorization" in map(str.lower, headers)
        if one.api_key_env and not is_sent:
            plain["headers"] = {**headers, "Authorization": f"Bearer {own}"}
        return plain

    def _at(self, url: str, key: str) -> list[Connection]:
        """The connections that an address belongs to, those with the longest path first."""
        try:
            place = Place.of(url)
        except ValueError as error:
            what = f"{public_address(url)} cannot be called: {error}"
            raise UserError(Problem(what, key, self._hint(), key)) from None
        found = [one for one in self.listed if one.place.holds(place)]
        if not found:
            what = f"{public_address(url)} belongs to no connection of this server"
            raise UserError(Problem(what, key, self._hint(), key))
        longest = max(len(one.place.path) for one in found)
        return [one for one in found if len(one.place.path) == longest]

    def _hint(self) -> str:
        known = "; ".join(map(str, self.listed))
        return f"the connections are: {known}" if known else "there is no connection yet; the server's owner makes them"


def _key_of(variable: str | None) -> str:
    return f"the key in {variable}" if variable else "no key"


def _given_twice(key: str, given: str) -> Problem:
    what = f"the connection has its own {given}"
    return Problem(what, f"{key}.{given}", f"leave out {given}, or the connection", f"{key}.{given}")


def variables_in(value: Any) -> set[str]:
    """The names of the environment variables that a configuration reads, in any form of `${oc.env:NAME}`.

    What only looks like one, as it is escaped, counts too.
    """
    if isinstance(value, str):
        return set(re.findall(r"oc\s*\.\s*env\s*:\s*([^},\s]*)", value))
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inner = cast("Mapping[Any, Any]", value).items()
    elif isinstance(value, list | tuple):
        inner = cast("Iterable[Any]", value)
    return {name for part in inner for name in variables_in(part)}
