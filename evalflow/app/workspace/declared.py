"""The cases of datasets that conf/ declares: there to be read, found by text and tag, and copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from evalflow import datasets as readers
from evalflow.app.workspace import library
from evalflow.app.workspace.case_rows import question_of
from evalflow.app.workspace.space import Workspace
from evalflow.config.schema import DatasetConfig

COUNTED = 20_000
"""Rows that are read for the sake of a total and of tags; a file that is larger is read on only for what is shown."""
MAX_TAGS = 500


@dataclass(frozen=True, slots=True)
class DeclaredPage:
    """Some cases of a dataset of conf/.

    Attributes:
        rows: As rows of JSON lines.
        first: How many that were found stand before them.
        total: How many were found, as far as was read.
        is_whole: Whether all was read, so that `total` is how many there are.
        tags: Every tag with how many cases have it or one below it, whatever is looked for, as far as was read.
    """

    rows: Sequence[Mapping[str, Any]]
    first: int
    total: int
    is_whole: bool
    tags: Sequence[tuple[str, int]]


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


def declared_page(
    space: Workspace,
    name: str,
    first: int,
    limit: int = 50,
    *,
    tag: str | None = None,
    text: str | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> DeclaredPage:
    """Some cases of a dataset of conf/; what is held of its files is a page.

    Args:
        space: Where.
        name: Which.
        first: How many that are found to leave out.
        limit: How many at most.
        tag: Only those with this tag, or one below it.
        text: Only those whose question or id has this in it; capitals do not matter.
        is_wanted: Asked now and then; once it is not, reading ends.

    Raises:
        NotFoundError: There is none of that name.
        UserError: Its files cannot be read.
    """
    found, total, tags, is_whole = list[Mapping[str, Any]](), 0, Counter[str](), True
    tag, words = readers.tag_name(tag or ""), (text or "").lower()
    for number, row in enumerate(declared_rows(space, name)):
        if number >= COUNTED and (total > first + limit or not is_wanted()):
            is_whole = False
            break
        levels = _levels(row)
        if number < COUNTED:
            tags.update(level for level in levels if level in tags or len(tags) < MAX_TAGS)
        if (not tag or tag in levels) and words in f"{question_of(row)}\n{row['id']}".lower():
            if first <= total < first + limit:
                found.append(row)
            total += 1
    return DeclaredPage(found, first, total, is_whole, sorted(tags.items()))


def _levels(row: Mapping[str, Any]) -> set[str]:
    tags = cast("list[str]", row.get("tags") or [])
    return {level for tag in tags for level in readers.tag_levels(tag)}
