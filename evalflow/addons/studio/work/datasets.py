"""Datasets, of the database or of conf/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Literal, TypeVar, cast

from evalflow import datasets as readers
from evalflow.addons.studio.store import definitions
from evalflow.addons.studio.store.rows import Row, from_row
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.definitions import (
    Definition,
    DefinitionStore,
    Origin,
    declared,
    remembered_content,
)
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import declared_title
from evalflow.addons.studio.work.validate import check_name, one_line
from evalflow.app.core.options import Option
from evalflow.config.schema import DatasetConfig
from evalflow.paths import share_dir

Generates = Literal["answer", "actual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(Definition):
    """A source of cases. Its version counts changes of these fields, not of the cases.

    Attributes:
        description: For people.
        generates: The case field that a live bot's reply fills.
        cases: The number of cases; None if its files were not counted.
        drafts: The number of drafts among them; runs leave drafts out.
    """

    description: str
    generates: Generates = "answer"
    cases: int | None = None
    origin: Origin = "workspace"
    drafts: int = 0


DATASETS = DefinitionStore("dataset", partial(from_row, Dataset), "dataset")


@requires("read")
def list_datasets(space: Workspace) -> list[Dataset]:
    """All datasets: those of the database by name, then those of conf/."""
    return _counted(space, DATASETS.every(space, _of_conf))


@requires("read")
def sample_datasets(space: Workspace) -> frozenset[str]:
    """The names of the datasets that ship with evalflow and that nobody here has replaced."""
    own, shipped = {one.name for one in DATASETS.own(space)}, share_dir()
    options = declared("dataset").values()
    return frozenset(one.name for one in options if one.name not in own and one.file.is_relative_to(shipped))


@requires("read")
def get_dataset(space: Workspace, name: str) -> Dataset:
    """One dataset."""
    return _counted(space, [DATASETS.one(space, name, _of_conf)])[0]


def _counted(space: Workspace, datasets: Sequence[Dataset]) -> list[Dataset]:
    counts = space.read(definitions.counts)
    numbers = (counts.get(one.id, (0, 0)) if one.origin == "workspace" else (None, 0) for one in datasets)
    return [replace(one, cases=cases, drafts=drafts) for one, (cases, drafts) in zip(datasets, numbers, strict=True)]


def _of_conf(option: Option) -> Dataset:
    return Dataset(name=option.name, title=declared_title(option), description=option.description, origin="conf")


@requires("edit")
def create_dataset(
    space: Workspace, name: str, description: str = "", generates: Generates = "answer", title: str | None = None
) -> Dataset:
    """Create a dataset without cases."""
    DATASETS.create(space, dataset_values(name, description, generates, title))
    return get_dataset(space, name)


def dataset_values(name: str, description: str, generates: Generates, title: str | None = None) -> Row:
    """The columns of a new dataset, for `DATASETS.add`."""
    check_name(name, "dataset")
    DATASETS.expect_free(name)
    about = one_line(description, "dataset")
    return {"name": name, "title": title, "description": about, "generates": generates}


@requires("edit")
def update_dataset(
    space: Workspace,
    name: str,
    expected: int,
    *,
    title: str | None = None,
    description: str | None = None,
    generates: Generates | None = None,
) -> Dataset:
    """Change a dataset's title, description or `generates`. None leaves a value unchanged."""
    dataset = DATASETS.get(space, name)
    values = {
        "title": title,
        "description": dataset.description if description is None else one_line(description, "dataset"),
        "generates": dataset.generates if generates is None else generates,
    }
    DATASETS.change(space, dataset, expected, values)
    return get_dataset(space, name)


@requires("edit")
def delete_dataset(space: Workspace, name: str, expected: int) -> int:
    """Delete a dataset and its cases; runs keep their own copies."""
    return DATASETS.delete(space, DATASETS.get(space, name), expected)


@requires("read")
def dataset_id(space: Workspace, name: str) -> int:
    """The row id of a dataset in the database."""
    return DATASETS.get(space, name).id


T = TypeVar("T")
COUNTED = 20_000
"""Rows read to compute the total and the tags. In a larger file, later rows are read only to fill the page."""
MAX_TAGS = 500


@dataclass(frozen=True, slots=True)
class FoundCases(Generic[T]):
    """A page of the cases that match a filter.

    Attributes:
        first: The number of matching cases before this page.
        total: The number of matching cases among the cases read.
        is_whole: Whether all cases were read, so that `total` is exact.
        tags: Every tag with the number of cases that have it or a sub-tag, regardless of filters; empty for the
            database.
    """

    items: Sequence[T]
    first: int
    total: int
    is_whole: bool = True
    tags: Sequence[tuple[str, int]] = ()


CaseRow = Mapping[str, object]
"""A case as a row of JSON lines."""


@requires("read")
def declared_dataset(space: Workspace, name: str) -> DatasetConfig:
    """The configuration of a dataset of conf/."""
    return DatasetConfig.model_validate(remembered_content(space, "dataset", name))


@requires("read")
def declared_rows(space: Workspace, name: str) -> Iterator[Row]:
    """All cases of a dataset of conf/, as rows of JSON lines."""
    return map(readers.case_to_row, readers.read(name, declared_dataset(space, name)))


@requires("read")
def declared_page(
    space: Workspace,
    name: str,
    first: int,
    limit: int = 50,
    *,
    tag: str | None = None,
    text: str | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> FoundCases[CaseRow]:
    """A page of cases of a dataset of conf/; only the page is in memory. Reading stops when `is_wanted()` is false."""
    page, total, tags, is_whole = list[Mapping[str, object]](), 0, Counter[str](), True
    tag, searched = readers.tag_name(tag or ""), (text or "").lower()
    for number, row in enumerate(declared_rows(space, name)):
        if number >= COUNTED and (total > first + limit or not is_wanted()):
            is_whole = False
            break
        levels = {level for one in row.get("tags") or () for level in readers.tag_levels(one)}
        if number < COUNTED:
            tags.update(level for level in levels if level in tags or len(tags) < MAX_TAGS)
        if (not tag or tag in levels) and searched in f"{question_of(row)}\n{row['id']}".lower():
            if first <= total < first + limit:
                page.append(row)
            total += 1
    return FoundCases(page, first, total, is_whole, sorted(tags.items()))


def question_of(row: Mapping[str, object]) -> str:
    """The last user message of a row, or else the situation of its simulated user, or ""."""
    messages = cast("list[dict[str, object]]", row.get("messages") or [])
    questions = (str(message["content"]) for message in reversed(messages) if message["role"] == "user")
    return next(questions, str(row.get("scenario") or ""))
