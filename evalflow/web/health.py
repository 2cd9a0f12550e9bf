"""Whether the server runs (/healthz), and whether it can do its work (/readyz)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import to_thread

from evalflow.app.workspace.runs import list_runs
from evalflow.errors import EvalflowError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from evalflow.app.workspace import Workspace
    from evalflow.web.child import Child


def health_routes(workspace: Workspace, worker: Child | None) -> list[BaseRoute]:
    """The two routes, for what watches over the process."""
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        faults = await _faults(workspace, worker)
        return JSONResponse({"status": "unavailable" if faults else "ok", "faults": faults}, 503 if faults else 200)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


async def _faults(workspace: Workspace, worker: Child | None) -> list[str]:
    faults: list[str] = []
    try:
        await to_thread.run_sync(lambda: list_runs(workspace, limit=1))
    except EvalflowError as error:
        faults.append(str(error))
    except Exception as error:  # whatever it is, it is why nothing can be done
        faults.append(f"the database does not answer: {type(error).__name__}")
    if worker is not None and worker.fault:
        faults.append(f"the worker does not run: {worker.fault}")
    return faults
