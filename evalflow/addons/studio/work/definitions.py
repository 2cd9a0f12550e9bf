"""Definitions of bots, datasets and metrics, in the database or in conf/."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from evalflow.addons.studio.store import definitions
from evalflow.addons.studio.store.definitions import Kind
from evalflow.addons.studio.store.rows import Hidden, Row
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.space import StaleError, TakenError, Workspace, differing, not_found, stale
from evalflow.addons.studio.work.titles import checked_title, declared_title, lifted, name_for, same_title
from evalflow.addons.studio.work.trash import keep_definition
from evalflow.addons.studio.work.validate import one_line
from evalflow.app.core.options import Option, option_values, options
from evalflow.config.load import compose
from evalflow.config.yaml_text import MISSING, unescaped, unescaped_but_environment
from evalflow.errors import Problem, UserError
from evalflow.paths import conf_dirs
from evalflow.values.jsonvalues import as_list, as_map

if TYPE_CHECKING:
    from sqlalchemy import Connection


Origin = Literal["workspace", "conf"]
"""Where a definition is: in the database, or in a file of conf/, which cannot be changed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A named definition.

    Attributes:
        id: The row's; 0 for conf.
        name: Unique; used in files, columns and overrides.
        title: Shown to people.
        version: Counts its changes; 0 for conf.
        created_at, updated_at: ISO 8601, UTC; empty for conf.
    """

    id: Hidden[int] = field(default=0, compare=False)
    name: str
    title: str = ""
    version: int = 0
    created_at: str = ""
    updated_at: str = ""


class NamedRow(Protocol):
    """The fields that every kind of definition has."""

    @property
    def id(self) -> int:
        """The row's."""
        ...

    @property
    def name(self) -> str:
        """Unique among the owner's definitions of this kind."""
        ...


D = TypeVar("D", bound=NamedRow)
Check = Callable[[str, Mapping[str, object]], Row]
"""Validate a configuration and return it as plain JSON; raise UserError if it is invalid."""


@dataclass(frozen=True, slots=True)
class DefinitionStore(Generic[D]):
    """The definitions of one kind, in the database and in conf/.

    A change or deletion gives the version that it is based on, and fails if that is no longer current.

    Attributes:
        kind: Also used in messages.
        read: Makes a definition of its row.
        group: The config group of conf/ with the same namespace, or None.
    """

    kind: Kind
    read: Callable[[Row], D]
    group: str | None = None
    is_offered: Callable[[Option], bool] = lambda _: True

    def own(self, space: Workspace, bot: int | None = None) -> list[D]:
        """All definitions in the database, of the project or of one bot, by name."""
        return [self.read(row) for row in space.read(definitions.listed, self.kind, bot or space.project_id)]

    def find(self, space: Workspace, name: str, bot: int | None = None) -> D | None:
        """The definition of that name in the database, or None."""
        row = space.read(definitions.named, self.kind, name, bot or space.project_id)
        return None if row is None else self.read(row)

    def every(self, space: Workspace, shipped: Callable[[Option], D]) -> list[D]:
        """The definitions in the database, then those of conf/ whose names are free."""
        own = self.own(space)
        taken = {one.name for one in own}
        return [*own, *(shipped(option) for name, option in self.offered().items() if name not in taken)]

    def one(self, space: Workspace, name: str, shipped: Callable[[Option], D]) -> D:
        """The definition of that name, from the database or, failing that, from conf/."""
        if (definition := self.find(space, name)) is not None:
            return definition
        if option := self.offered().get(name):
            return shipped(option)
        raise not_found(self.kind, name, self._known(space))

    def get(self, space: Workspace, name: str, bot: int | None = None) -> D:
        """The definition of that name in the database; raises TakenError if only conf/ has it."""
        if (definition := self.find(space, name, bot)) is not None:
            return definition
        if name in self._declared():
            what = f"the {self.kind} {name!r} is declared in conf/, and cannot be changed here"
            raise TakenError(Problem(what, self.kind, "copy it under another name, and change the copy"))
        raise not_found(self.kind, name, self._known(space, bot))

    def _known(self, space: Workspace, bot: int | None = None) -> list[str]:
        own = space.read(definitions.names, self.kind, bot or space.project_id)
        return list(dict.fromkeys([*(one.name for one in own), *self.offered()]))

    def offered(self) -> dict[str, Option]:
        """The usable options of conf/, by name."""
        return {name: option for name, option in self._declared().items() if self.is_offered(option)}

    def expect_free(self, name: str) -> None:
        """Raise TakenError if conf/ declares the name."""
        if name in self._declared():
            raise self._taken(name)

    def add(self, connection: Connection, owner: int, values: Mapping[str, Any], bot: str | None = None) -> int:
        """Add a row within a transaction; returns its id. The title defaults to the name.

        `owner`: the row id of the project, or for a metric of its bot; `bot` is that bot's name.
        """
        if definitions.id_of(connection, self.kind, values["name"], owner):
            raise self._taken(values["name"], bot)
        owned: Row = {definitions.OWNERS[self.kind]: owner} if self.kind in definitions.OWNERS else {}
        if self.kind in definitions.TITLED:
            owned["title"] = self._free_title(connection, owner, values.get("title") or values["name"])
        return definitions.add(connection, self.kind, {**values, **owned})

    def change(self, space: Workspace, row: D, expected: int, values: Mapping[str, Any]) -> None:
        """Change a row of the expected version; StaleError if there is a newer one, NotFoundError if it was deleted.

        Without a new title the old one stays, or follows the new name if it was the same as the old name.
        """
        with self.changing(space, row, expected, values):
            pass

    @contextmanager
    def changing(self, space: Workspace, row: D, expected: int, values: Mapping[str, Any]) -> Generator[Connection]:
        """Like `change`, but the block continues in the same transaction."""
        there, values = space.read(self._row, row), dict(values)
        owner, name = there.get("bot_id") or space.project_id, values.get("name", row.name)
        if self.kind in definitions.TITLED:
            kept = name if there["title"] == row.name else there["title"]
            values["title"] = checked_title(values.get("title") or kept, self.kind)
        with space.changing("update", self.kind, row.name, differing(there, values)) as connection:
            if name != row.name and definitions.id_of(connection, self.kind, name, owner):
                raise self._taken(name)
            if self.kind in definitions.TITLED and values["title"] != there["title"]:
                self._free_title(connection, owner, values["title"], row.id)
            if not definitions.change(connection, self.kind, row.id, expected, values):
                raise self._stale(connection, row, expected, values)
            yield connection

    def delete(self, space: Workspace, row: D, expected: int) -> int:
        """Delete a row and its dependents if it still has the expected version; returns its id in the trash, or 0."""
        with space.changing("delete", self.kind, row.name) as connection:
            kept = keep_definition(space, connection, self.kind, self._row(connection, row))
            self.remove(connection, row, expected)
        return kept

    def remove(self, connection: Connection, row: D, expected: int) -> None:
        """Delete a row permanently, within a transaction."""
        if not definitions.delete(connection, self.kind, row.id, expected):
            raise self._stale(connection, row, expected, {})

    def _stale(self, connection: Connection, row: D, expected: int, values: Mapping[str, object]) -> StaleError:
        there = self._row(connection, row)
        return stale(self.kind, row.name, expected, there["version"], there["updated_at"], differing(there, values))

    def _row(self, connection: Connection, row: D) -> Row:
        """The row as it is now; NotFoundError if it was deleted."""
        if (there := definitions.by_id(connection, self.kind, row.id)) is None:
            raise not_found(self.kind, row.name, [])
        return there

    def names(self, space: Workspace) -> set[str]:
        """The names that a new definition cannot have."""
        rows = space.read(definitions.names, self.kind, space.project_id)
        return {one.name for one in rows} | set(self._declared())

    def free(self, space: Workspace, title: str) -> tuple[str, str]:
        """A free name and title for a new definition: the given title, with a number if it is taken."""
        rows = space.read(definitions.names, self.kind, space.project_id)
        taken = {same_title(one) for one in (*(one.title for one in rows), *self._declared_titles())}
        numbered = (f"{title} {number}" for number in count(2))
        free = next(one for one in chain([title], numbered) if same_title(one) not in taken)
        return name_for(free, self.names(space), self.kind), free

    def create(self, space: Workspace, values: Mapping[str, Any]) -> None:
        """Add a row to the project; see `add`."""
        with space.changing("create", self.kind, values["name"]) as connection:
            self.add(connection, space.project_id, values)

    def _declared(self) -> dict[str, Option]:
        return declared(self.group) if self.group else {}

    def _declared_titles(self) -> dict[str, str]:
        return {declared_title(option): name for name, option in self._declared().items()}

    def _free_title(self, connection: Connection, owner: int, title: str, but: int | None = None) -> str:
        """Normalise a title; TakenError if another definition of the owner or of conf/ has it."""
        normalised = checked_title(title, self.kind)
        others = definitions.names(connection, self.kind, owner)
        there = {one.title: one.name for one in others if one.id != but}
        for other, name in {**self._declared_titles(), **there}.items():
            if same_title(other) == same_title(normalised):
                what = f"there already is a {self.kind} called {other!r}, with the name {name}"
                raise TakenError(Problem(what, f"{self.kind}.title", "choose another one"))
        return normalised

    def _taken(self, name: str, bot: str | None = None) -> TakenError:
        what = f"the bot {bot!r} already has" if bot else "there already is"
        return TakenError(Problem(f"{what} a {self.kind} {name!r}", f"{self.kind}.name", "choose another name"))


def new_values(
    kind: Kind, name: str, config: Mapping[str, object], description: str, title: str | None, check: Check
) -> Row:
    """The columns of a new definition. The title defaults to the one in the configuration."""
    plain, title = lifted(config, title)
    checked = check(name, plain)
    return {"name": name, "title": title, "description": one_line(description, kind), "config": checked}


@requires("read")
def taken_names(space: Workspace, store: DefinitionStore[D]) -> set[str]:
    """The names that a new definition of the project cannot have."""
    return store.names(space)


def declared(group: str, config_dir: Path | None = None) -> dict[str, Option]:
    """The options of a group by name."""
    return {option.name: option for option in options(config_dir, group)}


def find_declared(group: str, what: str, name: str) -> Option:
    """One option."""
    known = declared(group)
    if name not in known:
        raise not_found(what, name, list(known))
    return known[name]


def declared_content(group: str, name: str, config_dir: Path | None = None) -> dict[str, Any]:
    """The keys of an option, including inherited ones, as JSON. A missing required value is "???".

    Raises:
        UserError: Its files are invalid, or it interpolates a value from outside, which a copy cannot do.
    """
    composed = compose([f"{group}={name}"], config_dir, complete=False).storable[group]
    values = composed[name] if group in ("metric", "dataset") else composed
    read = unescaped_but_environment if group == "target" else unescaped
    try:
        return dict(as_map(json.loads(json.dumps(read(values)))))
    except ValueError as error:
        where = f"{group}.{name}"
        raise UserError(Problem(f"{where} cannot be copied: {error}", where, "write the value itself")) from None


@requires("read")
def remembered_content(space: Workspace, group: str, name: str) -> dict[str, object]:
    """Like `declared_content`, cached until a file of conf/ changes."""
    return space.remembered.get(f"{group}/{name}", conf_dirs(), lambda: declared_content(group, name))


def kind_of(option: Option) -> str | None:
    """The kind of an option, possibly inherited from another file of its group."""
    values = option.values
    for base in [None, *as_list(values.get("defaults"))]:
        files = (folder / option.group / f"{base}.yaml" for folder in conf_dirs())
        file = next((file for file in files if file.is_file()), None)
        if isinstance(base, str) and file is not None:
            values = option_values(file)
        if isinstance(values.get("kind"), str):
            return values["kind"]
    return None


def endpoint_judges() -> list[str]:
    """Names of the judges with their own model at a configurable address."""
    known = declared("judge")
    return [name for name, option in known.items() if name != "target" and kind_of(option) == "openai"]


def given(values: Mapping[str, object]) -> dict[str, object]:
    """The values without missing ones ("???")."""
    return {key: value for key, value in values.items() if value != MISSING}
