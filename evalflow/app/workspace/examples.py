"""A few cases of a dataset, wherever it is declared, to try things on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from evalflow.app.workspace.cases import list_cases
from evalflow.app.workspace.datasets import get_dataset
from evalflow.app.workspace.declared import declared_rows
from evalflow.app.workspace.space import Workspace


def example_rows(space: Workspace, dataset: str, count: int = 20) -> list[Mapping[str, Any]]:
    """The first cases of a dataset under their fields' own names, as lines of JSON lines.

    Raises:
        NotFoundError: There is no such dataset.
        UserError: Its files cannot be read.
    """
    if get_dataset(space, dataset).origin == "workspace":
        return [case.body for case in list_cases(space, dataset, limit=count).items]
    return list(islice(declared_rows(space, dataset), count))
