"""The API's application: its resources, its errors, and its description at /openapi.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalflow import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI

    from evalflow.app.workspace import Workspace

_ABOUT = """What evalflow's pages do, for programs. Every error is a problem document (RFC 9457), whose `errors` say
where and what to do. Every request brings the server's token. What changes anything carries `Content-Type:
application/json`, or the header `X-Requested-With`. A change names the version it was made from in `If-Match`; a
creation may be sent again under one `Idempotency-Key`."""


def rest_api(workspace: Workspace) -> FastAPI:
    """The REST API, to be mounted."""
    from fastapi import FastAPI
    from starlette.middleware import Middleware

    from evalflow.web.api import (
        bot_metrics,
        bots,
        cases,
        checks,
        compare,
        datasets,
        events,
        metrics,
        run_files,
        runs,
        scores,
        tags,
        thresholds,
        transfer,
        trial,
        uploads,
    )
    from evalflow.web.api.document import describe_problems
    from evalflow.web.api.faults import handle_faults
    from evalflow.web.api.idempotency import OnceByKey

    app = FastAPI(
        title="evalflow",
        version=__version__,
        description=_ABOUT,
        openapi_url="/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        middleware=[Middleware(OnceByKey, workspace=workspace)],
    )
    app.state.workspace = workspace
    about = (bots, trial, bot_metrics, metrics, datasets, cases, uploads, checks, transfer)
    for module in (*about, runs, run_files, events, scores, thresholds, tags, compare):
        app.include_router(module.router)
    handle_faults(app)
    describe_problems(app)
    return app
