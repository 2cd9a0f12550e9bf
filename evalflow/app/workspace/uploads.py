"""Files of cases: how their columns map, what that gives, and taking them in."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from evalflow import datasets as readers
from evalflow.app.workspace.cases import Fields, append_rows
from evalflow.app.workspace.datasets import own_row
from evalflow.app.workspace.space import Workspace
from evalflow.config.schema import DatasetConfig


def upload_cases(space: Workspace, dataset: str, path: Path, fields: Fields | None = None) -> int:
    """Add the cases of a file: .jsonl, .json, .csv or .parquet.

    Args:
        space: Where.
        dataset: Which.
        path: The file.
        fields: Case field to column or JSONPath; a column with a field's own name needs no entry. See
            `propose_mapping`.

    Raises:
        NotFoundError: There is no such dataset.
        UserError: With what is wrong with each row, or a case with that id is there.
    """
    own_row(space, dataset)
    config = DatasetConfig(path=str(path), fields=dict(fields or {}) or None)
    cases = list(readers.read(dataset, config))
    return append_rows(space, dataset, (readers.case_to_row(case) for case in cases))


def propose_mapping(path: Path) -> tuple[list[str], dict[str, str]]:
    """The columns of a file, and which of them are likely which case field.

    Raises:
        UserError: The file cannot be read.
    """
    columns = readers.columns(DatasetConfig(path=str(path)))
    return columns, dict(readers.propose_fields(columns))


def preview_cases(path: Path, fields: Fields | None, limit: int = 10) -> list[dict[str, Any]]:
    """The first cases of a file as a mapping makes them.

    Raises:
        UserError: With what is wrong with the mapping or with rows.
    """
    config = DatasetConfig(path=str(path), fields=dict(fields or {}) or None)
    return [readers.case_to_row(case) for case in islice(readers.read("preview", config), limit)]
