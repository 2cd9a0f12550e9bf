"""Assemble the application: security middleware, REST API, pages, and the worker."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from evalflow.app.studio.runs import list_runs
from evalflow.errors import EvalflowError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from evalflow.app.studio.space import Workspace
    from evalflow.web.serve import Address, Child

API = "/api/v1"


def application(workspace: Workspace, address: Address, worker: Child | None, token: str | None) -> FastAPI:
    """The whole application; one per process, since NiceGUI registers pages globally.

    Args:
        workspace: Everything that is stored.
        address: Where the server listens.
        worker: Started and stopped with the application; None if runs are executed elsewhere.
        token: Required of every request; None: no token is required.
    """
    from fastapi import FastAPI
    from starlette.staticfiles import StaticFiles

    from evalflow.web.api.routes import rest_api
    from evalflow.web.pages.register import add_pages

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        if worker is None:
            yield
            return
        async with worker:
            yield

    routes = health_routes(workspace, worker)
    app = FastAPI(openapi_url=None, lifespan=lifespan, middleware=security_middleware(address, token), routes=routes)
    app.mount(API, rest_api(workspace))
    app.mount("/assets", StaticFiles(directory=Path(__file__).with_name("assets")))
    add_pages(app, workspace)
    return app


def security_middleware(address: Address, token: str | None) -> list[Middleware]:
    """The guards that every request passes, the outermost first.

    Args:
        address: Where the server listens.
        token: Required of every request; None: no token is required.
    """
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware

    from evalflow.web.security.guards import (
        LARGEST_JSON,
        LARGEST_UPLOAD,
        BoundedBodies,
        KnownHosts,
        NoForgery,
        SameOrigin,
    )
    from evalflow.web.security.headers import SecurityHeaders
    from evalflow.web.security.token import KnownToken

    return [
        Middleware(GZipMiddleware),
        Middleware(SecurityHeaders),
        Middleware(KnownHosts, hosts=address.hosts),
        Middleware(SameOrigin),
        *([Middleware(KnownToken, token=token, port=address.port)] if token else []),
        Middleware(NoForgery, prefix=API),
        Middleware(BoundedBodies, largest={API: LARGEST_JSON, "/": LARGEST_UPLOAD}),
    ]


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
