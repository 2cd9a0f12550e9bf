"""The API's application: its resources, its errors, and its description at /openapi.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalflow import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI

    from evalflow.app.studio.space import Workspace

_ABOUT = """What evalflow's pages do, for programs. Every error is a problem document (RFC 9457), whose `errors` say
where and what to do. Every request brings the server's token. What changes anything carries `Content-Type:
application/json`, or the header `X-Requested-With`. A change names the version it was made from in `If-Match`; a
creation may be sent again under one `Idempotency-Key`."""


def rest_api(workspace: Workspace) -> FastAPI:
    """The REST API, to be mounted."""
    from fastapi import FastAPI
    from starlette.middleware import Middleware

    from evalflow.web.api import bots, compare, datasets, metrics, runs, transfer, uploads
    from evalflow.web.api.idempotency import IdempotencyKeys
    from evalflow.web.api.problems import describe_problems, handle_faults

    app = FastAPI(
        title="evalflow",
        version=__version__,
        description=_ABOUT,
        openapi_url="/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        middleware=[Middleware(IdempotencyKeys, workspace=workspace)],
    )
    app.state.workspace = workspace
    for router in (
        *(bots.router, bots.trial_router, bots.metrics_router, metrics.router),
        *(datasets.router, datasets.cases_router, uploads.router, metrics.checks_router, transfer.router),
        *(runs.router, runs.files_router, runs.events_router, runs.scores_router, runs.thresholds_router),
        *(datasets.tags_router, compare.router),
    ):
        app.include_router(router)
    handle_faults(app)
    describe_problems(app)
    return app
