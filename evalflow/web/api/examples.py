"""Answer examples: /datasets/{dataset}/examples and /datasets/{dataset}/cases/{case}/example."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from evalflow.app.studio import answer_examples
from evalflow.app.studio.cases import get_case
from evalflow.app.studio.space import Page
from evalflow.web.api.deps import Name, RequestBody, Space

router = APIRouter(prefix="/datasets/{dataset}", tags=["cases"])
Id = Annotated[int, Path(ge=0, lt=2**63)]


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


class FilledExamples(BaseModel):
    """The number of cases that got an answer example."""

    count: int


@router.get("/examples")
def read_missing(space: Space, dataset: Name) -> MissingExamples:
    """How many cases have no answer example."""
    count, latest = answer_examples.lacking_examples(space, dataset)
    return MissingExamples(count=count, latest=latest)


@router.post("/examples")
def post_examples(space: Space, dataset: Name, source: ExampleSource) -> FilledExamples:
    """Give cases without an answer example the answers of a run."""
    return FilledExamples(count=answer_examples.fill_examples(space, dataset, source.run))


@router.get("/cases/{case}/answers")
def read_answers(space: Space, dataset: Name, case: Id) -> Page[answer_examples.RunAnswer]:
    """The answers of finished runs to a case, of the latest runs first."""
    return Page(answer_examples.run_answers(space, dataset, case))


@router.post("/cases/{case}/example")
async def post_example(space: Space, dataset: Name, case: Id, asked: AskedBot) -> dict[str, Any]:
    """Ask a bot for an answer example; it is not saved: set it as `demo_answer` of the case."""
    found = await to_thread.run_sync(get_case, space, dataset, case)
    return dict(await space.ask(lambda: answer_examples.ask_bot(space, asked.bot, found.body)))
