"""What bots, datasets and metrics have in common: each is defined, changed and deleted by name and version."""

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
    """One kind of definition in the database, beside what conf/ declares of it.

    A change and a deletion name the version that they were made from, and fail if it is no longer the current one.

    Attributes:
        noun: What people call one.
        table: Where they are kept.
        group: The group of conf/ whose names they share; None: they share none.
        is_offered: Whether an option of that group can be used in the application.
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
            NotFoundError: There is none.
            TakenError: conf/ declares it, so that it cannot be changed.
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
        """What conf/ declares and the application can use, by name."""
        return {name: option for name, option in self._declared().items() if self.is_offered(option)}

    def expect_free(self, name: str) -> None:
        """Refuse a name that conf/ declares.

        Raises:
            TakenError: It does.
        """
        if name in self._declared():
            raise self._taken(name)

    def add(self, connection: Connection, values: Mapping[str, Any], owner: str | None = None) -> int:
        """Add a row within a transaction; gives its id.

        Args:
            connection: The transaction.
            values: The columns.
            owner: The name of the bot that it belongs to, for the error.

        Raises:
            TakenError: The name is in use.
        """
        if definitions.named(connection, self.table, values["name"], values.get("bot_id")):
            raise self._taken(values["name"], owner)
        return definitions.add(connection, self.table, values)

    def change(self, space: Workspace, row: Mapping[str, Any], expected: int, values: Mapping[str, Any]) -> None:
        """Change a row that still has the expected version.

        Raises:
            NotFoundError: It was deleted meanwhile.
            StaleError: It was changed meanwhile.
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
        """Delete a row that still has the expected version, with what belongs to it.

        Raises:
            NotFoundError: It was deleted meanwhile.
            StaleError: It was changed meanwhile.
        """
        with space.database.writing() as connection:
            deleted = definitions.delete(connection, self.table, row["id"], expected)
        if not deleted:
            raise stale(self.noun, row["name"], expected, self.get(space, row["name"], row.get("bot_id")), {})

    def create(self, space: Workspace, values: Mapping[str, Any], owner: str | None = None) -> None:
        """Add a row in a transaction of its own; see `add`."""
        with space.database.writing() as connection:
            self.add(connection, values, owner)

    def _declared(self) -> dict[str, Option]:
        return library.declared(self.group) if self.group else {}

    def _taken(self, name: str, owner: str | None = None) -> TakenError:
        what = f"the bot {owner!r} already has" if owner else "there already is"
        return TakenError(Problem(f"{what} a {self.noun} {name!r}", f"{self.noun}.name", "choose another name"))
