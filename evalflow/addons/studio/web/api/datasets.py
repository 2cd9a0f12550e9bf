"""/datasets with their cases and answer examples."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from evalflow.addons.studio.store.schema import INTEGER_END
from evalflow.addons.studio.web.api.deps import (
    CaseCount,
    Expected,
    Headers,
    Name,
    Paging,
    RequestBody,
    Space,
    Title,
    json_lines,
    json_lines_described,
)
from evalflow.addons.studio.work import answer_examples, datasets
from evalflow.addons.studio.work.cases import (
    StoredCase,
    activate_cases,
    add_cases,
    copy_dataset,
    delete_cases,
    downloaded_rows,
    get_case,
    list_cases,
    tag_cases,
    update_case,
)
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/datasets", tags=["datasets"])


class NewDataset(RequestBody):
    """A dataset to define, without cases."""

    name: str = Field(max_length=200, description="Lower-case letters, digits and _.")
    title: Title = None
    description: str = Field(default="", max_length=10_000)
    generates: datasets.Generates = Field(default="answer", description="The case field that a live bot's reply fills.")


class DatasetCopy(RequestBody):
    """A copy of a dataset."""

    name: str = Field(max_length=200)
    title: Title = None


class DatasetChange(RequestBody):
    """Changes to a dataset; fields that are left out are unchanged."""

    title: Title = None
    description: str | None = Field(default=None, max_length=10_000)
    generates: datasets.Generates | None = None


@router.get("")
def read_datasets(space: Space, paging: Paging) -> Page[datasets.Dataset]:
    """All datasets: those defined here by name, then those that conf/ declares."""
    return paging.of(datasets.list_datasets(space), lambda one: (one.origin == "conf", one.name))


@router.post("", status_code=201)
def post_dataset(space: Space, new: NewDataset, headers: Headers) -> datasets.Dataset:
    """Define a dataset, without cases."""
    made = datasets.create_dataset(space, new.name, new.description, new.generates, new.title)
    return headers.locate(made, made.name)


@router.get("/{dataset}/export", response_class=StreamingResponse, responses=json_lines_described("One case a line."))
def export_dataset(space: Space, dataset: Name) -> StreamingResponse:
    """All active cases as JSON lines, which load again as a dataset."""
    own = datasets.get_dataset(space, dataset).origin == "workspace"
    rows = downloaded_rows(space, dataset) if own else datasets.declared_rows(space, dataset)
    return json_lines(rows, dataset)


@router.get("/{dataset}")
def read_dataset(space: Space, dataset: Name, headers: Headers) -> datasets.Dataset:
    """One dataset."""
    return headers.tag(datasets.get_dataset(space, dataset))


@router.post("/{dataset}/copies", status_code=201)
def post_copy(space: Space, dataset: Name, copy: DatasetCopy, headers: Headers) -> datasets.Dataset:
    """Copy a dataset, which may be declared in conf/, with all its cases."""
    return headers.tag(copy_dataset(space, dataset, copy.name, copy.title))


@router.patch("/{dataset}")
def patch_dataset(
    space: Space, dataset: Name, change: DatasetChange, expected: Expected, headers: Headers
) -> datasets.Dataset:
    """Change the title or description of a dataset, or the kind of its replies."""
    changed = datasets.update_dataset(
        space, dataset, expected, title=change.title, description=change.description, generates=change.generates
    )
    return headers.tag(changed)


@router.delete("/{dataset}", status_code=204)
def remove_dataset(space: Space, dataset: Name, expected: Expected) -> None:
    """Delete a dataset and its cases; runs keep their own copies."""
    datasets.delete_dataset(space, dataset, expected)


cases_router = APIRouter(prefix="/datasets/{dataset}", tags=["cases"])
MOST_CASES = 10_000
"""Maximum number of cases in a request; upload a file for more."""
Id = Annotated[int, Path(ge=0, lt=INTEGER_END)]
Ids = Annotated[
    list[Annotated[int, Field(ge=0, lt=INTEGER_END)]],
    Field(max_length=MOST_CASES, description="Their ids in the store."),
]
Tag = Annotated[str, Field(min_length=1, max_length=200)]


class NewCases(RequestBody):
    """Cases to add, all or none."""

    items: list[dict[str, Any]] = Field(
        max_length=MOST_CASES, description="Each by field name: question or messages, reference, contexts, tags, ..."
    )
    allow_irregular: bool = Field(default=False, description="Accept turns in any order; else the user's is the last.")


class Tagging(RequestBody):
    """Tags to add and to remove."""

    cases: Ids
    add: list[Tag] = Field(default=[], max_length=50)
    remove: list[Tag] = Field(default=[], max_length=50)


class Activation(RequestBody):
    """Cases to make active, or drafts."""

    cases: Ids
    draft: bool = False


class Deletion(RequestBody):
    """Cases to delete."""

    cases: Ids


@cases_router.get("/cases")
def read_cases(
    space: Space,
    dataset: Name,
    paging: Paging,
    tag: Annotated[
        str | None, Query(max_length=200, description="Only cases with this tag or a sub-tag of it.")
    ] = None,
    text: Annotated[
        str | None, Query(max_length=500, description="Only cases with this in the question or id.")
    ] = None,
    draft: Annotated[bool | None, Query(description="Only drafts, or only active cases.")] = None,
) -> Page[StoredCase]:
    """The cases of a dataset that was defined here, in order."""
    return list_cases(space, dataset, *paging, tag=tag, text=text, draft=draft)


@cases_router.post("/cases", status_code=201)
def post_cases(space: Space, dataset: Name, new: NewCases) -> CaseCount:
    """Add cases, all or none."""
    return CaseCount(count=add_cases(space, dataset, new.items, allow_irregular=new.allow_irregular))


@cases_router.get("/cases/{case}")
def read_case(space: Space, dataset: Name, case: Id, headers: Headers) -> StoredCase:
    """One case."""
    return headers.tag(get_case(space, dataset, case))


@cases_router.put("/cases/{case}")
def put_case(
    space: Space, dataset: Name, case: Id, body: dict[str, Any], expected: Expected, headers: Headers
) -> StoredCase:
    """Replace a case."""
    return headers.tag(update_case(space, dataset, case, expected, body))


@cases_router.post("/cases/delete")
def post_deletion(space: Space, dataset: Name, deletion: Deletion) -> CaseCount:
    """Delete cases."""
    return CaseCount(count=delete_cases(space, dataset, deletion.cases).count)


@cases_router.post("/cases/activate")
def post_activation(space: Space, dataset: Name, wanted: Activation) -> CaseCount:
    """Make drafts active so that runs take them, or cases drafts."""
    return CaseCount(count=activate_cases(space, dataset, wanted.cases, draft=wanted.draft))


@cases_router.post("/cases/tag")
def post_tagging(space: Space, dataset: Name, tagging: Tagging) -> CaseCount:
    """Add tags to many cases, and remove others."""
    return CaseCount(count=tag_cases(space, dataset, tagging.cases, add=tagging.add, remove=tagging.remove))


class MissingExamples(BaseModel):
    """The number of cases without an answer example, and an answer of the latest run that could fill some of them."""

    count: int
    latest: answer_examples.RunAnswer | None


class ExampleSource(RequestBody):
    """A finished run."""

    run: str = Field(max_length=200)


class AskedBot(RequestBody):
    """The bot that is asked."""

    bot: str = Field(max_length=200)


@cases_router.get("/examples")
def read_missing(space: Space, dataset: Name) -> MissingExamples:
    """How many cases have no answer example."""
    count, latest = answer_examples.lacking_examples(space, dataset)
    return MissingExamples(count=count, latest=latest)


@cases_router.post("/examples")
def post_examples(space: Space, dataset: Name, source: ExampleSource) -> CaseCount:
    """Give cases without an answer example the answers of a run."""
    return CaseCount(count=answer_examples.fill_examples(space, dataset, source.run))


@cases_router.get("/cases/{case}/answers")
def read_answers(space: Space, dataset: Name, case: Id) -> Page[answer_examples.RunAnswer]:
    """The answers of finished runs to a case, of the latest runs first."""
    return Page(answer_examples.run_answers(space, dataset, case))


@cases_router.post("/cases/{case}/example")
async def post_example(space: Space, dataset: Name, case: Id, asked: AskedBot) -> dict[str, Any]:
    """Ask a bot for an answer example; it is not saved: set it as `demo_answer` of the case."""
    stored = await to_thread.run_sync(get_case, space, dataset, case)
    return dict(await space.ask(lambda: answer_examples.ask_bot(space, asked.bot, stored.body)))
