"""Rows of cases: parsed as rows of files are, and converted for storage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from evalflow import datasets as readers
from evalflow.config.schema import DatasetConfig
from evalflow.errors import Problem, UserError
from evalflow.jsonvalues import DEEPEST, is_too_deep
from evalflow.records import Case, Message
from evalflow.store.tables import storable


def read_rows(dataset: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Case]:
    """Parse rows as cases with the reader of files, so that only cases that a file could hold are accepted.

    Raises:
        UserError: Lists the problems of each row (`rows:NUMBER`).
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        with path.open("w", encoding="utf-8") as file:
            for number, row in enumerate(rows, 1):
                if is_too_deep(row):
                    what = f"the row has more than {DEEPEST} maps and lists within each other"
                    raise UserError(Problem(what, f"rows:{number}"))
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


def read_row(dataset: str, row: Mapping[str, Any]) -> Case:
    """Parse one row as a case.

    Raises:
        UserError: Lists its problems; the key of a problem with a field is the field's name.
    """
    try:
        return next(read_rows(dataset, [row]))
    except UserError as error:
        raise UserError([_at_field(problem) for problem in error.problems]) from None


def _at_field(problem: Problem) -> Problem:
    field, colon, what = problem.what.partition(": ")
    if not colon or field not in readers.FIELDS:
        return problem
    return Problem(what, field, problem.hint, field)


def question_of(row: Mapping[str, Any]) -> str:
    """The last user message of a row of JSON lines; empty if there is none."""
    messages = cast("list[dict[str, Any]]", row.get("messages") or [])
    return next((str(message["content"]) for message in reversed(messages) if message["role"] == "user"), "")


def irregular_turns(messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """Problems in the order of a conversation, each with the number of the message, from 0."""
    return list(readers.irregular([Message(message["role"], message["content"]) for message in messages]))


def storable_id(case: Case) -> str:
    """The id of a case with characters replaced that the database cannot store."""
    return storable(case.id)


def stored(body: dict[str, Any]) -> dict[str, Any]:
    """A case as `case_to_row` returns it, with its id, question and tags (all their levels) in columns."""
    levels = [level for tag in body.get("tags", []) for level in readers.tag_levels(tag)]
    return {
        "key": storable(body["id"]),
        "question": storable(question_of(body)),
        "body": body,
        "tags": [storable(level) for level in dict.fromkeys(levels)],
    }
