"""Puts the application together: what guards it, the REST API, the pages, and the worker beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.middleware import Middleware

    from evalflow.app.studio.space import Workspace
    from evalflow.web.serve import Address, Child

API = "/api/v1"
LARGEST = {API: 32 * 1024**2, "/": 64 * 1024**2}
"""Bytes that a request may bring: to the API as JSON, else as a file of cases."""


def application(workspace: Workspace, address: Address, worker: Child | None, token: str | None) -> FastAPI:
    """The whole application. One for each process, since NiceGUI keeps its pages in one place.

    Args:
        workspace: The door to what is stored.
        address: Where it answers.
        worker: Is started and ended with it; None where the runs are executed elsewhere.
        token: What every request has to bring; None: nothing.
    """
    from fastapi import FastAPI
    from starlette.staticfiles import StaticFiles

    from evalflow.web.api.routes import rest_api
    from evalflow.web.pages.register import add_pages
    from evalflow.web.serve import health_routes

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        if worker is None:
            yield
            return
        async with worker:
            yield

    routes = health_routes(workspace, worker)
    app = FastAPI(openapi_url=None, lifespan=lifespan, middleware=guards(address, token), routes=routes)
    app.mount(API, rest_api(workspace))
    app.mount("/assets", StaticFiles(directory=Path(__file__).with_name("assets")))
    add_pages(app, workspace)
    return app


def guards(address: Address, token: str | None) -> list[Middleware]:
    """What every request goes through, the first outermost.

    Args:
        address: Where the server answers.
        token: What every request has to bring; None: nothing.
    """
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware

    from evalflow.web.security.bodies import BoundedBodies
    from evalflow.web.security.headers import SecurityHeaders
    from evalflow.web.security.hosts import KnownHosts
    from evalflow.web.security.origins import NoForgery, SameOrigin
    from evalflow.web.security.token import KnownToken

    return [
        Middleware(GZipMiddleware),
        Middleware(SecurityHeaders),
        Middleware(KnownHosts, hosts=address.hosts),
        Middleware(SameOrigin),
        *([Middleware(KnownToken, token=token, port=address.port)] if token else []),
        Middleware(NoForgery, prefix=API),
        Middleware(BoundedBodies, largest=LARGEST),
    ]
