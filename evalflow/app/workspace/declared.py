"""The cases of datasets that conf/ declares: there to be read and copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from evalflow import datasets as readers
from evalflow.app.workspace import library
from evalflow.app.workspace.space import Workspace
from evalflow.config.schema import DatasetConfig


def declared_dataset(space: Workspace, name: str) -> DatasetConfig:
    """What conf/ says of a dataset.

    Raises:
        NotFoundError: There is none of that name.
        UserError: Its files are wrong.
    """
    return DatasetConfig.model_validate(library.shown(space, "dataset", name))


def declared_rows(space: Workspace, name: str) -> Iterator[dict[str, Any]]:
    """All cases of a dataset of conf/, as rows of JSON lines.

    Raises:
        NotFoundError: There is none of that name.
        UserError: Its files cannot be read.
    """
    return map(readers.case_to_row, readers.read(name, declared_dataset(space, name)))


def declared_page(space: Workspace, name: str, first: int, limit: int = 50) -> tuple[Sequence[Mapping[str, Any]], bool]:
    """Some cases of a dataset of conf/, and whether others follow.

    Args:
        space: Where.
        name: Which.
        first: The position of the first of them, from 0; its files are read up to there.
        limit: How many at most.

    Raises:
        NotFoundError: There is none of that name.
        UserError: Its files cannot be read.
    """
    found = list(islice(declared_rows(space, name), first, first + limit + 1))
    return found[:limit], len(found) > limit
