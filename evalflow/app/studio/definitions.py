"""Definitions of bots, datasets and metrics: those in the database, and those that conf/ declares."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evalflow.app.core.options import Option, option_values, options
from evalflow.app.studio.access import requires
from evalflow.app.studio.space import TakenError, Workspace, changed_keys, not_found, stale
from evalflow.app.studio.titles import checked_title, name_for, same_title
from evalflow.app.studio.trash import keep_definition
from evalflow.config.load import compose
from evalflow.config.yaml_text import MISSING, unescaped, unescaped_but_environment
from evalflow.errors import Problem, UserError
from evalflow.paths import conf_dirs
from evalflow.store import definitions
from evalflow.store.definitions import TableName

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class DefinitionStore:
    """One kind of definition in the database, in addition to those of conf/.

    A change or deletion names the version that it is based on, and fails if that version is no longer current.

    Attributes:
        noun: The word for one of them in messages.
        group: The config group of conf/ that shares their names; None if there is none.
    """

    noun: str
    table: TableName
    group: str | None = None
    is_offered: Callable[[Option], bool] = lambda _: True

    def rows(self, space: Workspace, bot: int | None = None) -> list[dict[str, Any]]:
        """All rows of the project by name, or those of one bot."""
        with space.database.reading() as connection:
            return definitions.listed(connection, self.table, bot or space.project_id)

    def find(self, space: Workspace, name: str, bot: int | None = None) -> dict[str, Any] | None:
        """The row of that name; None if there is none."""
        with space.database.reading() as connection:
            return definitions.named(connection, self.table, name, bot or space.project_id)

    def get(self, space: Workspace, name: str, bot: int | None = None) -> dict[str, Any]:
        """The row of that name."""
        row = self.find(space, name, bot)
        if row is not None:
            return row
        if name in self._declared():
            what = f"the {self.noun} {name!r} is declared in conf/, and cannot be changed here"
            raise TakenError(Problem(what, self.noun, "copy it under another name, and change the copy"))
        offered = self.offered()
        known = [row["name"] for row in self.rows(space, bot)]
        raise not_found(self.noun, name, [*known, *(other for other in offered if other not in known)])

    def offered(self) -> dict[str, Option]:
        """The options of conf/ that the application can use, by name."""
        return {name: option for name, option in self._declared().items() if self.is_offered(option)}

    def expect_free(self, name: str) -> None:
        """Refuse a name that conf/ declares."""
        if name in self._declared():
            raise self._taken(name)

    def add(self, connection: Connection, owner: int, values: Mapping[str, Any], bot: str | None = None) -> int:
        """Add a row within a transaction; returns its id. Without a title it has its name as its title.

        `owner` is the id of its project, or of the bot of a metric, whose name is `bot`.
        """
        if definitions.named(connection, self.table, values["name"], owner):
            raise self._taken(values["name"], bot)
        owned: dict[str, Any] = {definitions.OWNERS[self.table]: owner} if self.table in definitions.OWNERS else {}
        if self.table in definitions.TITLED:
            owned["title"] = self._free_title(connection, owner, values.get("title") or values["name"])
        return definitions.add(connection, self.table, {**values, **owned})

    def change(self, space: Workspace, row: Mapping[str, Any], expected: int, values: Mapping[str, Any]) -> None:
        """Change a row of the expected version, or raise StaleError; NotFoundError if it has been deleted.

        Without a title it stays; it follows a new name if there never was another one.
        """
        name, bot, values = values.get("name", row["name"]), row.get("bot_id"), dict(values)
        if self.table in definitions.TITLED:
            kept = name if row["title"] == row["name"] else row["title"]
            values["title"] = checked_title(values.get("title") or kept, self.noun)
        fields = [key for column, value in values.items() for key in changed_keys(column, row[column], value)]
        with space.changing("update", self.noun, row["name"], fields) as connection:
            if name != row["name"] and definitions.named(connection, self.table, name, bot or space.project_id):
                raise self._taken(name)
            if self.table in definitions.TITLED and values["title"] != row["title"]:
                self._free_title(connection, bot or space.project_id, values["title"], row["id"])
            if not definitions.change(connection, self.table, row["id"], expected, values):
                raise stale(self.noun, row["name"], expected, self.get(space, row["name"], bot), values)

    def delete(self, space: Workspace, row: dict[str, Any], expected: int) -> int:
        """Delete a row and its dependents if it still has the expected version; returns its id in the trash, if any."""
        with space.changing("delete", self.noun, row["name"]) as connection:
            kept = keep_definition(space, connection, self.noun, row)
            if not definitions.delete(connection, self.table, row["id"], expected):
                raise stale(self.noun, row["name"], expected, self.get(space, row["name"], row.get("bot_id")), {})
        return kept

    def names(self, space: Workspace) -> set[str]:
        """The names that a new one cannot have."""
        with space.database.reading() as connection:
            found = definitions.names(connection, self.table, space.project_id)
        return {row["name"] for row in found} | set(self._declared())

    def free(self, space: Workspace, title: str) -> tuple[str, str]:
        """A free name and title for a new one in the project, by that title; with a number if it is taken."""
        with space.database.reading() as connection:
            found = definitions.names(connection, self.table, space.project_id)
        taken = {same_title(one) for one in (*(row["title"] for row in found), *self._declared_titles())}
        numbered = (f"{title} {number}" for number in count(2))
        free = next(one for one in chain([title], numbered) if same_title(one) not in taken)
        return name_for(free, self.names(space), self.noun), free

    def create(self, space: Workspace, values: Mapping[str, Any]) -> None:
        """Add a row to the project; see `add`."""
        with space.changing("create", self.noun, values["name"]) as connection:
            self.add(connection, space.project_id, values)

    def _declared(self) -> dict[str, Option]:
        return declared(self.group) if self.group else {}

    def _declared_titles(self) -> dict[str, str]:
        return {option.title: name for name, option in self._declared().items()}

    def _free_title(self, connection: Connection, owner: int, title: str, but: int | None = None) -> str:
        """The title as it is stored; TakenError if another one of the owner, or of conf/, has it."""
        found = checked_title(title, self.noun)
        there = {
            row["title"]: row["name"] for row in definitions.names(connection, self.table, owner) if row["id"] != but
        }
        for other, name in {**self._declared_titles(), **there}.items():
            if same_title(other) == same_title(found):
                what = f"there already is a {self.noun} called {other!r}, with the name {name}"
                raise TakenError(Problem(what, f"{self.noun}.title", "choose another one"))
        return found

    def _taken(self, name: str, bot: str | None = None) -> TakenError:
        what = f"the bot {bot!r} already has" if bot else "there already is"
        return TakenError(Problem(f"{what} a {self.noun} {name!r}", f"{self.noun}.name", "choose another name"))


@requires("read")
def taken_names(space: Workspace, store: DefinitionStore) -> set[str]:
    """The names that a new definition of the project cannot have."""
    return store.names(space)


def declared(group: str, config_dir: Path | None = None) -> dict[str, Option]:
    """The options of a group by name."""
    return {option.name: option for option in options(config_dir, group)}


def find_declared(group: str, what: str, name: str, config_dir: Path | None = None) -> Option:
    """One option."""
    known = declared(group, config_dir)
    if name not in known:
        raise not_found(what, name, list(known))
    return known[name]


def declared_content(group: str, name: str, config_dir: Path | None = None) -> dict[str, Any]:
    """The keys of an option, including all that it inherits, as JSON. A required value that is still missing is "???".

    Raises:
        UserError: Its files are invalid, or it interpolates a value from elsewhere, which a copy could not.
    """
    composed = compose([f"{group}={name}"], config_dir, complete=False).storable[group]
    values = composed[name] if group in ("metric", "dataset") else composed
    read = unescaped_but_environment if group == "target" else unescaped
    try:
        return cast("dict[str, Any]", json.loads(json.dumps(read(values))))
    except ValueError as error:
        where = f"{group}.{name}"
        raise UserError(Problem(f"{where} cannot be copied: {error}", where, "write the value itself")) from None


@requires("read")
def remembered_content(space: Workspace, group: str, name: str) -> dict[str, Any]:
    """The same as `declared_content`, cached until a file of conf/ changes."""
    return space.remembered.get(f"{group}/{name}", conf_dirs(), lambda: declared_content(group, name))


def kind_of(option: Option) -> str | None:
    """The kind of an option, which may be inherited from another file of its group."""
    values = option.values
    for base in [None, *cast("list[Any]", values.get("defaults") or [])]:
        files = (folder / option.group / f"{base}.yaml" for folder in conf_dirs())
        file = next((file for file in files if file.is_file()), None)
        if isinstance(base, str) and file is not None:
            values = option_values(file)
        if isinstance(values.get("kind"), str):
            return values["kind"]
    return None


def endpoint_judges() -> list[str]:
    """Names of the judges that have a model of their own at a configurable address."""
    known = declared("judge")
    return [name for name, option in known.items() if name != "target" and kind_of(option) == "openai"]


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that are still missing ("???")."""
    return {key: value for key, value in values.items() if value != MISSING}
