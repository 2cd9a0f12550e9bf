"""Common storage of bots, datasets and metrics: each has a name and a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.app.core.options import Option
from evalflow.app.studio import library
from evalflow.app.studio.space import TakenError, Workspace, not_found, stale
from evalflow.errors import Problem
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
        table: The table they are stored in.
        group: The config group of conf/ that shares their names; None if there is none.
        is_offered: Whether the application can use an option of that group.
    """

    noun: str
    table: TableName
    group: str | None = None
    is_offered: Callable[[Option], bool] = lambda _: True

    def rows(self, space: Workspace, bot: int | None = None) -> list[dict[str, Any]]:
        """All rows by name, or those of one bot."""
        with space.database.reading() as connection:
            return definitions.listed(connection, self.table, bot)

    def find(self, space: Workspace, name: str, bot: int | None = None) -> dict[str, Any] | None:
        """The row of that name; None if there is none."""
        with space.database.reading() as connection:
            return definitions.named(connection, self.table, name, bot)

    def get(self, space: Workspace, name: str, bot: int | None = None) -> dict[str, Any]:
        """The row of that name.

        Raises:
            NotFoundError: It does not exist.
            TakenError: It is declared in conf/ and cannot be changed.
        """
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
        """Refuse a name that conf/ declares.

        Raises:
            TakenError: conf/ declares it.
        """
        if name in self._declared():
            raise self._taken(name)

    def add(self, connection: Connection, values: Mapping[str, Any], owner: str | None = None) -> int:
        """Add a row within a transaction; returns its id. `owner` is the name of its bot, for the error message.

        Raises:
            TakenError: The name is in use.
        """
        if definitions.named(connection, self.table, values["name"], values.get("bot_id")):
            raise self._taken(values["name"], owner)
        return definitions.add(connection, self.table, values)

    def change(self, space: Workspace, row: Mapping[str, Any], expected: int, values: Mapping[str, Any]) -> None:
        """Change a row if it still has the expected version.

        Raises:
            NotFoundError: It has been deleted.
            StaleError: It has been changed.
            TakenError: Its new name is in use.
        """
        name, bot = values.get("name", row["name"]), row.get("bot_id")
        with space.database.writing() as connection:
            if name != row["name"] and definitions.named(connection, self.table, name, bot):
                raise self._taken(name)
            changed = definitions.change(connection, self.table, row["id"], expected, values)
        if not changed:
            raise stale(self.noun, row["name"], expected, self.get(space, row["name"], bot), values)

    def delete(self, space: Workspace, row: Mapping[str, Any], expected: int) -> None:
        """Delete a row and its dependents if it still has the expected version.

        Raises:
            NotFoundError: It has been deleted.
            StaleError: It has been changed.
        """
        with space.database.writing() as connection:
            deleted = definitions.delete(connection, self.table, row["id"], expected)
        if not deleted:
            raise stale(self.noun, row["name"], expected, self.get(space, row["name"], row.get("bot_id")), {})

    def create(self, space: Workspace, values: Mapping[str, Any], owner: str | None = None) -> None:
        """Add a row in a new transaction; see `add`."""
        with space.database.writing() as connection:
            self.add(connection, values, owner)

    def _declared(self) -> dict[str, Option]:
        return library.declared(self.group) if self.group else {}

    def _taken(self, name: str, owner: str | None = None) -> TakenError:
        what = f"the bot {owner!r} already has" if owner else "there already is"
        return TakenError(Problem(f"{what} a {self.noun} {name!r}", f"{self.noun}.name", "choose another name"))
