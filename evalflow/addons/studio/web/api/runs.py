"""/runs: evaluations, their events, files, thresholds, scores and labels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Annotated, Any, BinaryIO, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field

from evalflow.addons.studio.web.api.deps import (
    Cursor,
    Expected,
    Headers,
    Name,
    Paging,
    RequestBody,
    Seen,
    Space,
    attached,
    json_lines,
    json_lines_described,
)
from evalflow.addons.studio.work import run_files, runs, spending, verdicts
from evalflow.addons.studio.work.metrics import MetricDefinition
from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.reruns import failed_only
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.scores import PassRate, Score, ScoreFilter, get_score, list_scores, pass_rates
from evalflow.addons.studio.work.space import Page
from evalflow.errors import InfrastructureError, UserError
from evalflow.report.html import report_policy

router = APIRouter(prefix="/runs", tags=["runs"])


FailedIn = Annotated[
    str | None,
    Query(max_length=200, description="Id of a run: take only the cases that failed in it, or had an error."),
]


class RunFolderIn(RequestBody):
    """The folder of a run made on the command line."""

    folder: str = Field(min_length=1, max_length=4096, description="Below the working directory, or in object storage.")
    trust_program: bool = Field(
        default=False, description="Whether resuming it may start the program that its run.json names."
    )


@router.get("")
def read_runs(
    space: Space,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    bot: Annotated[str | None, Query(max_length=200)] = None,
    state: runs.State | None = None,
    text: Annotated[str | None, Query(max_length=200)] = None,
) -> Page[runs.Run]:
    """Runs, the newest first; those with each word of `text` in their title, id, bot, datasets, metrics or models."""
    return runs.list_runs(space, cursor, limit, bot=bot, state=state, text=text)


@router.post("", status_code=201)
def post_run(
    space: Space,
    new: RunRequest,
    headers: Headers,
    failed_in: FailedIn = None,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> runs.Run:
    """Start a run: its bot, cases and metrics are checked and frozen, and the worker picks it up."""
    run = runs.create_run(space, failed_only(space, new, failed_in) if failed_in else new, idempotency_key)
    return headers.locate(run, run.run_id)


@router.post("/estimate")
def post_estimate(space: Space, new: RunRequest, failed_in: FailedIn = None) -> runs.RunEstimate:
    """Check a run and estimate its calls and cost; nothing is sent or saved."""
    return runs.estimate_run(space, failed_only(space, new, failed_in) if failed_in else new)


@router.post("/open", status_code=201)
def post_folder(space: Space, made: RunFolderIn, headers: Headers, request: Request) -> runs.Run:
    """Open a run made on the command line; its scores appear once the worker has read them."""
    run = open_run(space, made.folder, trust_program=made.trust_program)
    return headers.locate(run, run.run_id, request.url.path.rpartition("/")[0])


@router.get("/{run}")
def read_run(space: Space, run: Name, headers: Headers) -> runs.Run:
    """One run with its progress; the ETag changes with the progress."""
    return headers.tag(runs.get_run(space, run))


@router.post("/{run}/cancel")
def post_cancel(space: Space, run: Name, seen: Seen, headers: Headers) -> runs.Run:
    """Stop a run; finished work is kept. If-Match is optional, because progress changes the version."""
    return headers.tag(runs.cancel_run(space, run, seen))


@router.post("/{run}/resume")
def post_resume(space: Space, run: Name, expected: Expected, headers: Headers) -> runs.Run:
    """Finish a run that has stopped; finished work is not repeated."""
    return headers.tag(runs.resume_run(space, run, expected))


@router.post("/{run}/retry")
def post_retry(space: Space, run: Name, expected: Expected, headers: Headers) -> runs.Run:
    """Retry only what ended in an error."""
    return headers.tag(runs.retry_errors(space, run, expected))


@router.delete("/{run}", status_code=204)
def remove_run(space: Space, run: Name, expected: Expected) -> None:
    """Forget a run that has ended, with people's verdicts on its scores and the results that they excluded.

    Its folder stays, with the labels that it was calibrated with: they follow equal answers into other runs, and are
    lost to those at their next `calibrate` if you remove it.
    """
    runs.delete_run(space, run, expected)


@router.get("/{run}/budget")
def read_run_budget(space: Space, run: Name) -> spending.RunSpending:
    """The amounts that a run has spent and may spend of its project's budget."""
    return spending.run_spending(space, run)


events_router = APIRouter(prefix="/runs/{run}", tags=["runs"])
POLL_S = 0.5
"""Seconds between polls of the run."""
KEEP_ALIVE_S = 15.0
"""Seconds without an event after which a comment is sent, to keep the connection open."""


def _run(space: Space, run: Name) -> runs.Run:
    return runs.get_run(space, run)


@events_router.get("/events", response_class=EventSourceResponse)
async def read_events(space: Space, current: Annotated[runs.Run, Depends(_run)]) -> AsyncIterator[ServerSentEvent]:
    """The progress of a run: an event `progress` at each change, and one `end` with the last state."""
    sent: Any = None
    quiet = 0.0
    while True:
        now = {"state": current.state, "cancelling": current.cancelling, "progress": current.progress}
        if now != sent:
            yield ServerSentEvent(event="progress", data=now)
            sent, quiet = now, 0.0
        if current.state in runs.ENDED:
            yield ServerSentEvent(event="end", data={"state": current.state, "exit_code": current.exit_code})
            return
        if quiet >= KEEP_ALIVE_S:
            yield ServerSentEvent(comment="still here")
            quiet = 0.0
        await asyncio.sleep(POLL_S)
        quiet += POLL_S
        try:
            current = await to_thread.run_sync(runs.get_run, space, current.run_id)
        except UserError:  # the run was deleted, or the session or the right has ended
            return
        except InfrastructureError:  # the next poll finds the database back
            continue


files_router = APIRouter(prefix="/runs/{run}/files", tags=["runs"])
_BLOCK_BYTES = 256 * 1024
_TYPES = {
    "html": "text/html; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "xml": "application/xml",
    "parquet": "application/vnd.apache.parquet",
}
_REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'none'"
"""Gives the report a separate origin, so that its scripts cannot access this application."""


@files_router.get("")
def read_files(space: Space, run: Name) -> Page[run_files.RunFile]:
    """The files of a run that still exist."""
    return Page(run_files.list_files(space, run))


@files_router.get(
    "/{file}",
    response_class=StreamingResponse,
    responses={200: {"content": {kind.partition(";")[0]: {} for kind in _TYPES.values()}}},
)
def read_file(space: Space, run: Name, file: run_files.FileName) -> StreamingResponse:
    """One file; the report is shown, the others are downloaded."""
    opened, size = run_files.open_file(space, run, file)
    suffix = file.rpartition(".")[2]
    headers = {"Content-Length": str(size)}
    if suffix == "html":
        headers["Content-Security-Policy"] = f"{_REPORT_POLICY}; {report_policy()}"
    else:
        headers |= attached(f"{run}-{file}")
    return StreamingResponse(_blocks(opened, size), media_type=_TYPES[suffix], headers=headers)


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Read at most Content-Length bytes, because the journal of a running run grows."""
    with file:
        while size > 0 and (block := file.read(min(_BLOCK_BYTES, size))):
            size -= len(block)
            yield block


thresholds_router = APIRouter(prefix="/runs/{run}/thresholds/{metric}", tags=["scores"])


class ThresholdOut(RequestBody):
    """A threshold."""

    threshold: Annotated[float, Field(allow_inf_nan=False, description="On the scale of the scores.")]


@thresholds_router.put("")
def put_threshold(
    space: Space, run: Name, metric: Name, other: ThresholdOut, expected: Expected, headers: Headers
) -> runs.Run:
    """Change a run's threshold; gates, exit code and reports are updated, and nothing is re-run."""
    return headers.tag(run_files.keep_threshold(space, run, metric, other.threshold, expected))


@thresholds_router.delete("")
def remove_threshold(space: Space, run: Name, metric: Name, expected: Expected, headers: Headers) -> runs.Run:
    """Reset a run's threshold to the declared one."""
    return headers.tag(run_files.restore_threshold(space, run, metric, expected))


@thresholds_router.post("/carry")
def post_carried(space: Space, run: Name, metric: Name, other: ThresholdOut) -> MetricDefinition:
    """Save a threshold in the bot's metric for its next runs; this run does not change."""
    return run_files.carry_threshold(space, run, metric, other.threshold)


scores_router = APIRouter(prefix="/runs/{run}", tags=["scores"])
Text = Annotated[str | None, Query(max_length=500)]
Number = Annotated[float | None, Query(allow_inf_nan=False)]


class Thresholds(RequestBody):
    """Other thresholds than the run's, by metric."""

    thresholds: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(default={}, max_length=200)


@scores_router.get("/scores")
def read_scores(
    space: Space,
    run: Name,
    paging: Paging,
    metric: Text = None,
    status: Literal["scored", "undefined", "error", "skipped"] | None = None,
    tag: Annotated[str | None, Query(max_length=200, description="Of cases with this tag or a sub-tag of it.")] = None,
    text: Annotated[
        str | None, Query(max_length=500, description="With this in the question, answer or case id.")
    ] = None,
    low: Number = None,
    high: Number = None,
    passed: bool | None = None,
    sort: Annotated[
        Literal["input", "score", "-score"],
        Query(description="In the order of the data, or the scores of one metric in order."),
    ] = "input",
) -> Page[Score]:
    """The scores, each with its case, answer and reason."""
    wanted = ScoreFilter(metric=metric, status=status, tag=tag, text=text, low=low, high=high, passed=passed)
    return list_scores(space, run, wanted, *paging, sort=sort)


@scores_router.get("/scores/{score}")
def read_score(space: Space, run: Name, score: Name) -> Score:
    """One score with the judge's steps."""
    return get_score(space, run, score)


@scores_router.post("/pass-rates")
def post_pass_rates(space: Space, run: Name, other: Thresholds) -> Page[PassRate]:
    """The share of cases that pass, by these thresholds or else the run's; nothing is re-run."""
    return Page(pass_rates(space, run, other.thresholds))


labels_router = APIRouter(prefix="/runs/{run}/labels", tags=["labels"])


@labels_router.get("")
def read_labels(space: Space, run: Name, paging: Paging) -> Page[verdicts.VerdictLabel]:
    """Labels by people who saw the scores, the oldest first; those of reviews are not among them."""
    return verdicts.run_labels(space, run, *paging)


@labels_router.get("/export", response_class=StreamingResponse, responses=json_lines_described("One label a line."))
def export_labels(space: Space, run: Name) -> StreamingResponse:
    """The same as JSON lines: a labels file, which `calibrate` reads and keeps out of corrected means."""
    return json_lines(map(asdict, verdicts.all_run_labels(space, run)), f"{run}-labels")
