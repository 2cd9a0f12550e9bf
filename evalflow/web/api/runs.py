"""/runs: evaluations, asked for here and carried out by the worker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from evalflow.app.workspace.opened import open_run
from evalflow.app.workspace.run_types import Run, RunEstimate, RunRequest, State
from evalflow.app.workspace.runs import (
    cancel_run,
    create_run,
    delete_run,
    estimate_run,
    get_run,
    list_runs,
    resume_run,
    retry_errors,
)
from evalflow.jsonvalues import DEEPEST, is_too_deep
from evalflow.web.api.deps import Expected, Name, Seen, Space, created, tagged
from evalflow.web.api.paging import Cursor, Page

router = APIRouter(prefix="/runs", tags=["runs"])
Named = Annotated[str, Field(min_length=1, max_length=200)]


def _shallow(values: dict[str, Any]) -> dict[str, Any]:
    if is_too_deep(values):
        raise ValueError(f"more than {DEEPEST} maps and lists within each other")
    return values


Values = Annotated[dict[str, Any], AfterValidator(_shallow)]
"""Keys of the configuration with their values."""


class NewRun(BaseModel):
    """What is to be run; every name is that of something defined here, or else of conf/."""

    model_config = ConfigDict(extra="forbid")

    bot: Named = Field(description='Whose answers are scored; "recorded" takes those that stand in the data.')
    datasets: list[Named] = Field(max_length=100)
    metrics: list[Named] = Field(max_length=200)
    judge: Named | None = Field(
        default=None, description='Of conf/, or "target" for the bot\'s own model (the default).'
    )
    judge_values: Values = Field(default={}, description="Its keys that differ, such as model.")
    embedder: Named = "embedded"
    embedder_values: Values = {}
    thresholds: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(
        default={}, description="Other thresholds, by metric."
    )
    options: Values = Field(default={}, description="Root keys of the configuration, such as limit or budget.")
    title: str = Field(default="", max_length=500)

    def asked(self) -> RunRequest:
        """For the workspace."""
        return RunRequest(**self.model_dump())


class RunFolder(BaseModel):
    """A run that was made on the command line."""

    model_config = ConfigDict(extra="forbid")

    folder: str = Field(min_length=1, max_length=4096, description="Below the working directory, as outputs/runs/ID.")
    trust_program: bool = Field(
        default=False, description="Whether to resume it may start the program that its run.json names."
    )


@router.get("")
def read_runs(
    space: Space,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    bot: Annotated[str | None, Query(max_length=200)] = None,
    state: State | None = None,
) -> Page[Run]:
    """Runs, the newest first."""
    found = list_runs(space, cursor, limit, bot=bot, state=state)
    return Page[Run](items=found.items, next=found.next)


@router.post("", status_code=201)
def post_run(
    space: Space,
    new: NewRun,
    request: Request,
    response: Response,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Run:
    """Trigger a run: all that it uses is frozen and checked, and the worker takes it up."""
    run = create_run(space, new.asked(), idempotency_key)
    created(request, response, run.run_id, run.version)
    return run


@router.post("/estimate")
def post_estimate(space: Space, new: NewRun) -> RunEstimate:
    """Check a run and say what it would take; nothing is sent or kept."""
    return estimate_run(space, new.asked())


@router.post("/open", status_code=201)
def post_folder(space: Space, made: RunFolder, request: Request, response: Response) -> Run:
    """Take in a run that was made on the command line; its scores follow as soon as the worker has read them."""
    run = open_run(space, Path(made.folder), trust_program=made.trust_program)
    response.headers["Location"] = f"{request.url.path.removesuffix('open')}{run.run_id}"
    tagged(response, run.version)
    return run


@router.get("/{run}")
def read_run(space: Space, run: Name, response: Response) -> Run:
    """One run, and how far it is; its ETag changes with its progress."""
    return _tagged(get_run(space, run), response)


@router.post("/{run}/cancel")
def post_cancel(space: Space, run: Name, seen: Seen, response: Response) -> Run:
    """Stop a run; what is finished is kept. A run that goes on changes by itself: If-Match may be left out."""
    return _tagged(cancel_run(space, run, seen), response)


@router.post("/{run}/resume")
def post_resume(space: Space, run: Name, expected: Expected, response: Response) -> Run:
    """Finish a run that has stopped; nothing that is finished is asked again."""
    return _tagged(resume_run(space, run, expected), response)


@router.post("/{run}/retry")
def post_retry(space: Space, run: Name, expected: Expected, response: Response) -> Run:
    """Ask again what ended in error, and nothing else."""
    return _tagged(retry_errors(space, run, expected), response)


@router.delete("/{run}", status_code=204)
def remove_run(space: Space, run: Name, expected: Expected) -> None:
    """Forget a run that has ended; its folder stays."""
    delete_run(space, run, expected)


def _tagged(run: Run, response: Response) -> Run:
    tagged(response, run.version)
    return run
