"""Observability of a server: a log line for each request, and metrics for Prometheus at /metrics."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from anyio import fail_after, to_thread

from evalflow.addons.studio.web.api.problems import RETRY, problem_response
from evalflow.addons.studio.web.security.guards import NOTES, route_path
from evalflow.addons.studio.work.access import ForbiddenError, SignedOutError
from evalflow.addons.studio.work.server import expect_owner, server_figures
from evalflow.errors import InfrastructureError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Histogram
    from prometheus_client.core import Metric
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from evalflow.addons.studio.store import Database
    from evalflow.addons.studio.work.space import Workspace

log = logging.getLogger("evalflow.requests")
METRICS = "/metrics"
BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
FIGURES_S = 5.0
"""Seconds for the database to give the figures."""
GROUPS = frozenset(
    {
        *("bots", "library", "datasets", "runs", "compare", "history", "projects", "audit", "connections", "users"),
        *(
            "account",
            "tokens",
            "sessions",
            "sign-in",
            "link",
            "passkey",
            "assets",
            "healthz",
            "readyz",
            "metrics",
            "rank",
        ),
        *("uploads", "imports", "exports", "checks", "tags", "_nicegui", "_nicegui_ws"),
    }
)
"""First parts of paths that are counted by their name; all others together, since anybody can ask for any path."""


class RequestsTold:
    """Times every request, logs it, and names it in the header `X-Request-ID`. The path is logged, never the query."""

    def __init__(self, app: ASGIApp, seconds: Histogram) -> None:
        self.app = app
        self._seconds = seconds
        self._ids = (f"{start}-{number}" for start in (secrets.token_hex(4),) for number in count(1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        notes: dict[str, Any] = {"request": next(self._ids), "status": 500}
        scope = {**scope, "state": {**scope.get("state", {}), NOTES: notes}}
        begun = time.perf_counter()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                notes["status"] = message["status"]
                headers = [*message["headers"], (b"x-request-id", notes["request"].encode())]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            took_s = time.perf_counter() - begun
            self._seconds.labels(route_group(route_path(scope)), str(notes["status"])).observe(took_s)
            client = scope.get("client") or ("",)
            fields = {"method": scope["method"], "route": scope["path"], "address": client[0], **notes}
            log.info("request", extra={"fields": {**fields, "ms": round(1000 * took_s, 1)}})


def route_group(path: str) -> str:
    """The group of routes that a path belongs to: `api/` and a resource, or the first part of a page's path."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "p" and len(parts) > 1 else parts
    is_api = parts[:2] == ["api", "v1"]
    first = (parts[2:] if is_api else parts or [""])[:1]
    name = first[0] if first and first[0] in {"", *GROUPS} else "other"
    return f"api/{name}" if is_api else name or "bots"


def request_histogram() -> tuple[CollectorRegistry, Histogram]:
    """A registry with the histogram of requests."""
    from prometheus_client import CollectorRegistry, Histogram

    registry = CollectorRegistry()
    about = "Seconds of requests to this process, by group of routes and status"
    return registry, Histogram(
        "evalflow_request_seconds", about, ["route", "status"], buckets=BUCKETS_S, registry=registry
    )


def metrics_route(workspace: Workspace, registry: CollectorRegistry, networks: Sequence[str]) -> BaseRoute:
    """/metrics: the figures for Prometheus, for the owner and for addresses in the networks."""
    from starlette.responses import Response
    from starlette.routing import Route

    allowed = [ipaddress.ip_network(network) for network in networks]

    def figures() -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(registry)

    async def read(request: Request) -> Response:
        try:
            if not _is_from(request, allowed):
                await to_thread.run_sync(expect_owner, request.state.workspace)
            with fail_after(FIGURES_S):
                text = await to_thread.run_sync(figures, abandon_on_cancel=True)
        except SignedOutError as error:
            return problem_response(401, str(error), headers={"WWW-Authenticate": "Bearer"})
        except ForbiddenError as error:
            return problem_response(403, str(error))
        except TimeoutError:
            return problem_response(503, f"the database has not answered for {FIGURES_S:g} s", headers=RETRY)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(text, media_type=kind, headers={"Cache-Control": "no-store"})

    registry.register(_Figures(workspace.database))  # pyright: ignore[reportArgumentType] - has what it collects with
    return Route(METRICS, read)


def _is_from(request: Request, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    try:
        address = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    return any(address in network for network in networks)


class _Figures:
    """Collects the figures of the database and the open pages at each scrape."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        from evalflow.addons.studio.web.nicegui_core import open_clients

        def gauge(name: str, about: str, value: float) -> Metric:
            return GaugeMetricFamily(f"evalflow_{name}", about, value=value)

        def gauges(name: str, about: str, label: str, values: dict[str, float]) -> Metric:
            family = GaugeMetricFamily(f"evalflow_{name}", about, labels=[label])
            for key, value in values.items():
                family.add_metric([key], value)
            return family

        pages = sum(client.has_socket_connection for client in list(open_clients().values()))
        yield gauge("open_pages", "Pages that are open in browsers, of this process", pages)
        try:
            figures = server_figures(self._database)
        except InfrastructureError:
            yield gauge("database_up", "Whether the database answers", 0)
            return
        yield gauge("database_up", "Whether the database answers", 1)
        yield gauges("runs", "Stored runs by state; queued: the length of the queue", "state", {**figures.runs})
        yield gauge("queue_oldest_seconds", "Since the oldest queued run was created", figures.oldest_s)
        about = "Since the last heartbeat of each worker that has a run"
        yield gauges("worker_silence_seconds", about, "worker", {**figures.silence_s})
        yield gauges("scores", "Finished scores of the stored runs by status", "status", {**figures.scores})
        yield gauge("failed_answers", "Answers in state error of the stored runs", figures.failed_answers)
        yield gauge("calls", "Calls that bots and judges answered in the stored runs", figures.calls)
        yield gauge("cost_usd", "What these calls cost, as far as prices are known", figures.cost_usd)
