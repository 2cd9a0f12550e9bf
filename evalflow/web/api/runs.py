"""/runs: evaluations, their events, files, thresholds and scores."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from evalflow.app.studio.metrics import MetricDefinition
from evalflow.app.studio.run_files import (
    FileName,
    RunFile,
    carry_threshold,
    keep_threshold,
    list_files,
    open_file,
    restore_threshold,
)
from evalflow.app.studio.run_types import ENDED, Run, RunEstimate, RunRequest, State
from evalflow.app.studio.runs import (
    cancel_run,
    create_run,
    delete_run,
    estimate_run,
    get_run,
    list_runs,
    open_run,
    resume_run,
    retry_errors,
)
from evalflow.app.studio.scores import PassRate, Score, ScoreFilter, get_score, list_scores, pass_rates
from evalflow.jsonvalues import DEEPEST, is_too_deep
from evalflow.report.html import report_policy
from evalflow.web.api.deps import Cursor, Expected, Limit, Name, Page, Seen, Space, created, tagged

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


class RunFolderIn(BaseModel):
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
def post_folder(space: Space, made: RunFolderIn, request: Request, response: Response) -> Run:
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


events_router = APIRouter(prefix="/runs/{run}", tags=["runs"])
PAUSE_S = 0.5
"""Between two looks at the run."""
QUIET_S = 15.0
"""After which a comment says that the connection still stands."""


def _found(space: Space, run: Name) -> Run:
    return get_run(space, run)


@events_router.get("/events", response_class=EventSourceResponse)
async def read_events(space: Space, found: Annotated[Run, Depends(_found)]) -> AsyncIterator[ServerSentEvent]:
    """How a run is going: an event `progress` whenever that changes, and at last one `end` with its state."""
    told: Any = None
    quiet = 0.0
    while True:
        now = {"state": found.state, "cancelling": found.cancelling, "progress": found.progress}
        if now != told:
            yield ServerSentEvent(event="progress", data=now)
            told, quiet = now, 0.0
        if found.state in ENDED:
            yield ServerSentEvent(event="end", data={"state": found.state, "exit_code": found.exit_code})
            return
        if quiet >= QUIET_S:
            yield ServerSentEvent(comment="still here")
            quiet = 0.0
        await asyncio.sleep(PAUSE_S)
        quiet += PAUSE_S
        found = await to_thread.run_sync(get_run, space, found.run_id)


files_router = APIRouter(prefix="/runs/{run}/files", tags=["runs"])
_AT_ONCE = 256 * 1024
_TYPES = {
    "html": "text/html; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "xml": "application/xml",
    "parquet": "application/vnd.apache.parquet",
}
SHOWN = "sandbox allow-scripts; frame-ancestors 'none'"
"""Of a page that is shown: it has an origin of its own, and so reaches nothing of this application."""


@files_router.get("")
def read_files(space: Space, run: Name) -> Page[RunFile]:
    """What a run wrote and is still there."""
    return Page[RunFile](items=list_files(space, run), next=None)


@files_router.get(
    "/{file}",
    response_class=StreamingResponse,
    responses={200: {"content": {kind.partition(";")[0]: {} for kind in _TYPES.values()}}},
)
def read_file(space: Space, run: Name, file: FileName) -> StreamingResponse:
    """One of these files; the report is shown, the others are downloads."""
    opened, size = open_file(space, run, file)
    suffix = file.rpartition(".")[2]
    headers = {"Content-Length": str(size), "Cache-Control": "no-cache"}
    if suffix == "html":
        headers["Content-Security-Policy"] = f"{SHOWN}; {report_policy()}"
    else:
        said = re.sub(r"[^\w.-]", "_", run, flags=re.ASCII)  # of a run from elsewhere, whatever its files say
        headers["Content-Disposition"] = f'attachment; filename="{said}-{file}"'
    return StreamingResponse(_blocks(opened, size), media_type=_TYPES[suffix], headers=headers)


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """As much as was promised: the journal of a run that goes on grows meanwhile."""
    with file:
        while size > 0 and (block := file.read(min(_AT_ONCE, size))):
            size -= len(block)
            yield block


thresholds_router = APIRouter(prefix="/runs/{run}/thresholds/{metric}", tags=["scores"])


class ThresholdOut(BaseModel):
    """A threshold."""

    model_config = ConfigDict(extra="forbid")

    threshold: Annotated[float, Field(allow_inf_nan=False, description="On the scale of the scores.")]


@thresholds_router.put("")
def put_threshold(
    space: Space, run: Name, metric: Name, other: ThresholdOut, expected: Expected, response: Response
) -> Run:
    """Judge a run by another threshold from now on: its gates, exit code and reports follow; nothing is run again."""
    return _tagged(keep_threshold(space, run, metric, other.threshold, expected), response)


@thresholds_router.delete("")
def remove_threshold(space: Space, run: Name, metric: Name, expected: Expected, response: Response) -> Run:
    """Judge a run by the threshold that it was made with again."""
    return _tagged(restore_threshold(space, run, metric, expected), response)


@thresholds_router.post("/carry")
def post_carried(space: Space, run: Name, metric: Name, other: ThresholdOut) -> MetricDefinition:
    """Put a threshold, and nothing else, into the metric of the run's bot for its next runs; the run stays."""
    return carry_threshold(space, run, metric, other.threshold)


scores_router = APIRouter(prefix="/runs/{run}", tags=["scores"])
Text = Annotated[str | None, Query(max_length=500)]
Number = Annotated[float | None, Query(allow_inf_nan=False)]


class Thresholds(BaseModel):
    """Other thresholds than the run's, by metric."""

    model_config = ConfigDict(extra="forbid")

    thresholds: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(default={}, max_length=200)


@scores_router.get("/scores")
def read_scores(
    space: Space,
    run: Name,
    cursor: Cursor = None,
    limit: Limit = 50,
    metric: Text = None,
    status: Literal["scored", "undefined", "error", "skipped"] | None = None,
    tag: Annotated[str | None, Query(max_length=200, description="Of cases with this tag, or one below it.")] = None,
    text: Annotated[str | None, Query(max_length=500, description="With this in question, answer or case id.")] = None,
    low: Number = None,
    high: Number = None,
    passed: bool | None = None,
    sort: Annotated[
        Literal["input", "score", "-score"], Query(description="The order of the data; or of one metric, by score.")
    ] = "input",
) -> Page[Score]:
    """Fetch results: each score with its case, answer and reason."""
    wanted = ScoreFilter(metric=metric, status=status, tag=tag, text=text, low=low, high=high, passed=passed)
    found = list_scores(space, run, wanted, cursor, limit, sort=sort)
    return Page[Score](items=found.items, next=found.next)


@scores_router.get("/scores/{score}")
def read_score(space: Space, run: Name, score: Name) -> Score:
    """One score with the judge's steps."""
    return get_score(space, run, score)


@scores_router.post("/pass-rates")
def post_pass_rates(space: Space, run: Name, other: Thresholds) -> Page[PassRate]:
    """What shares pass, by these thresholds or else the run's; nothing is run again."""
    return Page[PassRate](items=pass_rates(space, run, other.thresholds))
