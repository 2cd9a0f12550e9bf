"""Cases on their way into the store: read like a file's, with what they are found by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from evalflow import datasets as readers
from evalflow.config.schema import DatasetConfig
from evalflow.errors import Problem, UserError
from evalflow.records import Case


def read_rows(dataset: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Case]:
    """The rows as cases, read by what reads files, so that nothing is taken here that a file could not hold.

    Raises:
        UserError: With what is wrong with each (`rows:NUMBER`).
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        with path.open("w", encoding="utf-8") as file:
            for number, row in enumerate(rows, 1):
                try:
                    file.write(json.dumps(row, allow_nan=False) + "\n")
                except (TypeError, ValueError) as error:
                    raise UserError(Problem(f"the row is no JSON: {error}", f"rows:{number}")) from None
        config = DatasetConfig(path=str(path), format="jsonl", allow_irregular=True)
        try:
            yield from list(readers.read(dataset, config))
        except UserError as error:
            raise UserError(
                [Problem(p.what, p.where.replace(str(path), "rows"), p.hint) for p in error.problems]
            ) from None


def stored(body: dict[str, Any]) -> dict[str, Any]:
    """A case as `case_to_row` gives it, with its id, question and tags (all their levels) beside it."""
    from evalflow.store.rows import storable

    messages = cast("list[dict[str, Any]]", body.get("messages") or [])
    question = next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
    levels = [level for tag in body.get("tags", []) for level in readers.tag_levels(tag)]
    return {
        "key": storable(body["id"]),
        "question": storable(question),
        "body": body,
        "tags": [storable(level) for level in dict.fromkeys(levels)],
    }
