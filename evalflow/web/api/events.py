"""/runs/{run}/events: how a run is going, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends
from fastapi.sse import EventSourceResponse, ServerSentEvent

from evalflow.app.workspace.run_types import ENDED, Run
from evalflow.app.workspace.runs import get_run
from evalflow.web.api.deps import Name, Space

router = APIRouter(prefix="/runs/{run}", tags=["runs"])
PAUSE_S = 0.5
"""Between two looks at the run."""
QUIET_S = 15.0
"""After which a comment says that the connection still stands."""


def _found(space: Space, run: Name) -> Run:
    return get_run(space, run)


@router.get("/events", response_class=EventSourceResponse)
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
