"""Datasets: those that people fill with cases, and the files that conf/ declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evalflow.app.workspace import library
from evalflow.app.workspace.bots import Origin
from evalflow.app.workspace.space import TakenError, Workspace, not_found, stale
from evalflow.app.workspace.validate import check_name, one_line
from evalflow.errors import Problem

if TYPE_CHECKING:
    from sqlalchemy import Connection

Generates = Literal["answer", "actual"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A source of cases.

    Attributes:
        name: Unique; the dataset's name in runs.
        description: For people.
        generates: The case field that a live bot's reply fills.
        cases: How many it has; None where its files were not counted.
        origin: conf: a file declares it, and it cannot be changed here.
        version: Counts changes of what stands here, not of the cases; 0 for conf.
        created_at, updated_at: ISO 8601, UTC; empty for conf.
    """

    name: str
    description: str
    generates: Generates = "answer"
    cases: int | None = None
    origin: Origin = "workspace"
    version: int = 0
    created_at: str = ""
    updated_at: str = ""


def list_datasets(space: Workspace) -> list[Dataset]:
    """All datasets: the defined ones by name, then those of conf/."""
    from evalflow.store import definitions

    with space.database.reading() as connection:
        rows, counted = definitions.all_named(connection, "datasets"), definitions.counts(connection)
    own = [_dataset(row, counted.get(row["id"], 0)) for row in rows]
    taken = {dataset.name for dataset in own}
    return own + [
        Dataset(name, option.description, origin="conf")
        for name, option in library.declared("dataset").items()
        if name not in taken
    ]


def get_dataset(space: Workspace, name: str) -> Dataset:
    """One dataset.

    Raises:
        NotFoundError: There is none.
    """
    for dataset in list_datasets(space):
        if dataset.name == name:
            return dataset
    raise not_found("dataset", name, [dataset.name for dataset in list_datasets(space)])


def create_dataset(space: Workspace, name: str, description: str = "", generates: Generates = "answer") -> Dataset:
    """A new dataset, without cases.

    Raises:
        TakenError: The name is in use.
        UserError: The name cannot be used.
    """
    values = dataset_values(name, description, generates)
    with space.database.writing() as connection:
        add_dataset(connection, values)
    return get_dataset(space, name)


def dataset_values(name: str, description: str, generates: Generates) -> dict[str, Any]:
    """The columns of a dataset that is to be, for `add_dataset`.

    Raises:
        TakenError: conf/ declares one of that name.
        UserError: The name or the description cannot be used.
    """
    check_name(name, "dataset")
    if name in library.declared("dataset"):
        raise _taken(name)
    return {"name": name, "description": one_line(description, "dataset"), "generates": generates}


def add_dataset(connection: Connection, values: Mapping[str, Any]) -> int:
    """Add a dataset within a transaction; gives its id.

    Raises:
        TakenError: The name is in use.
    """
    from evalflow.store import definitions

    if definitions.named(connection, "datasets", values["name"]):
        raise _taken(values["name"])
    return definitions.add_named(connection, "datasets", values)


def update_dataset(
    space: Workspace, name: str, expected: int, *, description: str | None = None, generates: Generates | None = None
) -> Dataset:
    """Change what is said of a dataset; what is not given stays.

    Raises:
        NotFoundError: There is none that can be changed.
        StaleError: It was changed meanwhile.
    """
    from evalflow.store import definitions

    row = own_row(space, name)
    values = {
        "description": row["description"] if description is None else one_line(description, "dataset"),
        "generates": row["generates"] if generates is None else generates,
    }
    with space.database.writing() as connection:
        if not definitions.change_named(connection, "datasets", row["id"], expected, values):
            raise stale("dataset", name, expected, definitions.named(connection, "datasets", name) or row, values)
    return get_dataset(space, name)


def delete_dataset(space: Workspace, name: str, expected: int) -> None:
    """Delete a dataset and its cases; runs keep their own copies.

    Raises:
        NotFoundError: There is none that can be deleted.
        StaleError: It was changed meanwhile.
    """
    from evalflow.store import definitions

    row = own_row(space, name)
    with space.database.writing() as connection:
        if not definitions.delete_named(connection, "datasets", row["id"], expected):
            raise stale("dataset", name, expected, definitions.named(connection, "datasets", name) or row, {})


def own_row(space: Workspace, name: str) -> dict[str, Any]:
    """The row of a dataset that was defined here.

    Raises:
        NotFoundError, TakenError: There is none, or conf/ declares it.
    """
    from evalflow.store import definitions

    with space.database.reading() as connection:
        row = definitions.named(connection, "datasets", name)
    if row is not None:
        return row
    if name in library.declared("dataset"):
        hint = "copy it under another name, and change the copy"
        raise TakenError(
            Problem(f"the dataset {name!r} is declared in conf/, and cannot be changed here", "dataset", hint)
        )
    raise not_found("dataset", name, [dataset.name for dataset in list_datasets(space)])


def _taken(name: str) -> TakenError:
    return TakenError(Problem(f"there already is a dataset {name!r}", "dataset.name", "choose another name"))


def _dataset(row: Mapping[str, Any], counted: int) -> Dataset:
    return Dataset(
        row["name"],
        row["description"],
        row["generates"],
        counted,
        "workspace",
        row["version"],
        row["created_at"],
        row["updated_at"],
    )
