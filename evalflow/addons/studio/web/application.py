"""Assemble the application: security middleware, REST API, pages, health checks, and the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from anyio import CapacityLimiter, fail_after, to_thread

from evalflow.addons.studio.work.access import nobody
from evalflow.errors import EvalflowError
from evalflow.version import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from evalflow.addons.studio.web.address import Address
    from evalflow.addons.studio.web.child import Child
    from evalflow.addons.studio.work.space import Workspace

API = "/api/v1"
GZIP_LEVEL = 4
"""Of 1 to 9. Pages are up to a seventh larger than at 9, and take half of the CPU to compress."""
READY_S = 3.0
"""Seconds for the database to answer a check of readiness."""
_ABOUT_API = """What evalflow's pages do, for programs. Every error is a problem document (RFC 9457); its `errors` say
where the problem is and how to fix it. Every request needs the server's token. A change needs `Content-Type:
application/json` or the header `X-Requested-With`. It names the version that it was made from in `If-Match`. The
creation of a run can be repeated with the same `Idempotency-Key`."""


def application(workspace: Workspace, address: Address, worker: Child | None, token: str | None) -> FastAPI:
    """The whole application; one per process, since NiceGUI registers pages globally.

    `worker` starts and stops with it; None if another process executes runs. Without a token, no request needs one; at
    a public address people sign in.
    """
    from fastapi import FastAPI
    from starlette.staticfiles import StaticFiles

    from evalflow.addons.studio.web.observe import RequestsTold, metrics_route, request_histogram
    from evalflow.addons.studio.web.pages.sign_in import sign_in_routes
    from evalflow.addons.studio.web.security.clients import end_with_sessions, guard_events
    from evalflow.addons.studio.web.static import ASSETS, bundle

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            if worker is not None:
                await stack.enter_async_context(worker)
            if address.public:
                stack.callback(asyncio.create_task(end_with_sessions(workspace)).cancel)
            yield

    public = address.public
    registry, seconds = request_histogram()
    scrapers = public.metrics_from if public else ()
    routes = [*health_routes(workspace, worker), metrics_route(workspace, registry, scrapers)]
    routes += sign_in_routes(public) if public else []
    app = FastAPI(
        openapi_url=None, lifespan=lifespan, middleware=security_middleware(workspace, address, token), routes=routes
    )
    api = rest_api()
    if address.public:
        api.openapi()  # also builds its routes; else the first request would build them, and all others wait
    app.mount(API, api)
    scripts, styles = bundle(_SCRIPTS, "js"), bundle(_STYLES, "css")
    app.router.routes += [scripts, styles]
    app.mount("/assets", StaticFiles(directory=ASSETS))
    add_pages(app, scripts.path, styles.path)
    app.add_middleware(RequestsTold, seconds=seconds)  # around all guards
    if address.public:
        guard_events()
    return app


def rest_api() -> FastAPI:
    """The REST API, with its description at /openapi.json."""
    from fastapi import Depends, FastAPI
    from starlette.middleware import Middleware

    from evalflow.addons.studio.web.api import (
        audit,
        bots,
        checks,
        comments,
        compare,
        connections,
        datasets,
        judges,
        metrics,
        people,
        projects,
        reviews,
        runs,
        tags,
        tasks,
        transfer,
    )
    from evalflow.addons.studio.web.api.declared import DeclaredRoutes
    from evalflow.addons.studio.web.api.problems import describe_problems, handle_faults
    from evalflow.addons.studio.web.security.guards import OutagesTold

    declared = DeclaredRoutes()
    app = FastAPI(
        title="evalflow",
        version=__version__,
        description=_ABOUT_API,
        openapi_url="/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        middleware=[Middleware(OutagesTold)],
        dependencies=[Depends(declared.expect_known_parameters)],
    )
    for router in (
        *(bots.router, metrics.bot_router, metrics.router, checks.router, judges.router),
        *(datasets.router, datasets.cases_router, tags.router, transfer.upload_router, transfer.router),
        *(runs.router, runs.files_router, runs.events_router, runs.scores_router, runs.thresholds_router),
        *(
            compare.router,
            compare.rank_router,
            projects.router,
            projects.members_router,
            connections.router,
            audit.router,
        ),
        *(people.users_router, people.router, projects.budget_router, tasks.router, comments.router),
        *(reviews.router, runs.labels_router),
    ):
        app.include_router(router)
    handle_faults(app, declared)
    describe_problems(app)
    return app


_SCRIPTS = ("nonce", "theme", "passkey", "unsaved", "drafts", "too_long", "resend", "keys", "desk", "case_view")
_STYLES = (
    *("theme", "parts", "forms", "metrics", "cases", "runs", "results", "compare", "history", "home", "projects"),
    *("tasks", "desk", "checks", "case_view", "print"),
)


_PAGES = (
    *(
        "bots",
        "bot_home",
        "metrics",
        "library",
        "metric",
        "judges",
        "datasets",
        "import_cases",
        "case",
        "checks",
        "tags",
    ),
    "bad_answer",
    *("projects", "people", "connections", "audit", "runs", "new_run", "run_case", "run", "compare", "history"),
    *("reviews", "review", "teaching", "desk", "tasks"),
)
"""The modules of pages; an address such as /runs/new comes before /runs/{run}."""


def add_pages(app: FastAPI, scripts: str, styles: str) -> None:
    """Mount the pages at the root of the application; `scripts` and `styles` are the paths of theirs."""
    from nicegui import app as pages
    from nicegui import ui

    from evalflow.addons.studio.web.nicegui_core import free_at_once, remember_signatures
    from evalflow.addons.studio.web.static import ASSETS
    from evalflow.addons.studio.web.ui import frame

    remember_signatures()
    free_at_once()
    for name in _PAGES:
        frame.register_pages(import_module(f"evalflow.addons.studio.web.pages.{name}"))
    frame.add()
    # Scripts come first: they must run before the first paint.
    ui.add_head_html(f'<script src="{scripts}"></script><link rel="stylesheet" href="{styles}">', shared=True)
    # Quasar's bar for HTTP requests has no name that a screen reader could read; pages talk by their websocket.
    quasar = cast("dict[str, Any]", pages.config.quasar_config)  # pyright: ignore[reportUnknownMemberType] - untyped there
    quasar["loadingBar"]["skipHijack"] = True
    ui.run_with(  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI
        app,
        title="evalflow",
        favicon=ASSETS / "icon.svg",
        dark=None,
        language="en-GB",
        tailwind=False,
        gzip_middleware_factory=None,
        show_welcome_message=False,
    )


def security_middleware(workspace: Workspace, address: Address, token: str | None) -> list[Middleware]:
    """The guards that every request passes, the outermost first."""
    from nicegui import __version__ as nicegui_version
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware

    from evalflow.addons.studio.web.security.clients import OwnClients
    from evalflow.addons.studio.web.security.guards import (
        LARGEST_JSON,
        LARGEST_UPLOAD,
        BoundedBodies,
        KnownHosts,
        NoForgery,
        OutagesTold,
        SameOrigin,
        SecurityHeaders,
    )
    from evalflow.addons.studio.web.security.projects import InProject
    from evalflow.addons.studio.web.security.proxy import BehindProxy
    from evalflow.addons.studio.web.security.sign_in import SignedIn
    from evalflow.addons.studio.web.security.token import KnownToken
    from evalflow.addons.studio.web.security.turns import FairTurns
    from evalflow.addons.studio.web.static import KeptFiles

    public = address.public
    return [
        *([Middleware(BehindProxy, proxies=public.proxies, user_header=public.user_header)] if public else []),
        Middleware(GZipMiddleware, compresslevel=GZIP_LEVEL),
        Middleware(SecurityHeaders, https_only=public is not None, private=API),
        Middleware(OutagesTold),
        Middleware(KnownHosts, hosts=address.hosts),
        Middleware(SameOrigin, scheme=address.scheme),
        *([Middleware(KnownToken, token=token, port=address.port)] if token else []),
        Middleware(
            InProject, workspace=replace(workspace, identify=nobody) if public else workspace, hidden=public is not None
        ),
        *([Middleware(SignedIn, has_second_factor=public.has_second_factor), Middleware(OwnClients)] if public else []),
        *([Middleware(FairTurns)] if public else []),
        Middleware(NoForgery, prefix=API),
        Middleware(BoundedBodies, largest={API: LARGEST_JSON, "/": LARGEST_UPLOAD}),
        Middleware(KeptFiles, paths=["/assets/", f"/_nicegui/{nicegui_version}/"]),
    ]


def health_routes(workspace: Workspace, worker: Child | None) -> list[BaseRoute]:
    """/healthz: the process is alive. /readyz: database and worker are ready."""
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from evalflow.addons.studio.web.api.problems import RETRY

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        faults = await _faults(workspace, worker)
        if faults:
            return JSONResponse({"status": "unavailable", "faults": faults}, 503, RETRY)
        return JSONResponse({"status": "ok", "faults": []})

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


async def _faults(workspace: Workspace, worker: Child | None) -> list[str]:
    faults: list[str] = []
    try:
        with fail_after(READY_S):
            await to_thread.run_sync(workspace.database.check, limiter=CapacityLimiter(1), abandon_on_cancel=True)
    except EvalflowError as error:
        faults.append(str(error))
    except TimeoutError:
        faults.append(f"the database has not answered for {READY_S:g} s")
    if worker is not None and worker.fault:
        faults.append(f"the worker does not run: {worker.fault}")
    return faults
