"""Signing in and out, and choosing a password by a one-time link: plain forms, since NiceGUI serves members only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CapacityLimiter, to_thread

from evalflow.app.studio.access import SignedOutError
from evalflow.app.studio.people import SHORTEST_PASSWORD
from evalflow.app.studio.sessions import SESSION_TTL, choose_password, sign_in, sign_in_delay, sign_out
from evalflow.errors import UserError
from evalflow.web.security.sign_in import COOKIE, session_key

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from evalflow.app.studio.space import Workspace

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_LONGEST = 2000
"""Characters of a field."""
_HASHING = 4
"""Passwords that are checked at once; each takes 64 MB."""


def sign_in_routes() -> list[BaseRoute]:
    """/sign-in, /sign-out and /password."""
    from starlette.routing import Route

    doors = _Doors()
    return [
        Route("/sign-in", doors.form, methods=["GET"]),
        Route("/sign-in", doors.enter, methods=["POST"]),
        Route("/sign-out", _leave, methods=["POST"]),
        Route("/password", _password_form, methods=["GET"]),
        Route("/password", doors.choose, methods=["POST"]),
    ]


class _Doors:
    """Checks passwords: a few at once, and one at a time for the same account from the same address."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(_HASHING)
        self._waiting: set[tuple[str, str]] = set()

    async def form(self, request: Request) -> Response:
        return _sign_in_page(request.query_params.get("next", ""))

    async def enter(self, request: Request) -> Response:
        fields = await _fields(request)
        workspace: Workspace = request.state.workspace
        name, address = fields.get("name", "").strip().lower(), request.client.host if request.client else ""
        if (name, address) in self._waiting:
            return _sign_in_page(
                fields.get("next", ""), name, "Another attempt is still being checked. Wait for it.", 429
            )
        self._waiting.add((name, address))
        try:
            await anyio.sleep(await to_thread.run_sync(sign_in_delay, workspace, name, address))
            given = (workspace, name, fields.get("password", ""), address, request.headers.get("user-agent", ""))
            key = await to_thread.run_sync(sign_in, *given, limiter=self._limiter)
        except SignedOutError:
            return _sign_in_page(fields.get("next", ""), name, "The name or the password is wrong.", 401)
        finally:
            self._waiting.discard((name, address))
        return await enter_with(request, key, fields.get("next", ""))

    async def choose(self, request: Request) -> Response:
        fields = await _fields(request)
        code, password = fields.get("code", ""), fields.get("password", "")
        if password != fields.get("again", ""):
            return _password_page(code, "The two passwords differ.", 422)
        try:
            await to_thread.run_sync(choose_password, request.state.workspace, code, password, limiter=self._limiter)
        except UserError as error:
            problem = error.problems[0]
            return _password_page(code, f"{problem.what[:1].upper()}{problem.what[1:]}: {problem.hint}.", 422)
        return _redirect("/sign-in")


async def enter_with(request: Request, key: str, wanted: str) -> Response:
    """Give a browser its new session in place of the one that it had, and show the page that it wanted."""
    old = session_key(request)
    if old:
        await _end(request.state.workspace, old)
    response = _redirect(_own_path(wanted))
    age = int(SESSION_TTL.total_seconds())
    response.set_cookie(COOKIE, key, max_age=age, secure=True, httponly=True, samesite="lax", path="/")
    return response


async def _leave(request: Request) -> Response:
    key = session_key(request)
    if key:
        await _end(request.state.workspace, key)
    response = _redirect("/sign-in")
    response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="lax", path="/")
    return response


async def _end(workspace: Workspace, key: str) -> None:
    try:
        await to_thread.run_sync(sign_out, workspace, key)
    except SignedOutError:
        return  # it has ended already


async def _password_form(request: Request) -> Response:
    return _password_page(request.query_params.get("code", ""))


async def _fields(request: Request) -> Mapping[str, str]:
    form = await request.form()
    return {name: value[:_LONGEST] for name, value in form.items() if isinstance(value, str)}


def _own_path(wanted: str) -> str:
    """The path to continue at; anything but a path of this server becomes the first page."""
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if is_own else "/"


def _sign_in_page(wanted: str, name: str = "", fault: str = "", status: int = 200) -> Response:
    return _page("sign_in", fault, status, name=name, wanted=wanted)


def _password_page(code: str, fault: str = "", status: int = 200) -> Response:
    return _page("password", fault, status, code=code, shortest=SHORTEST_PASSWORD)


def _page(form: str, fault: str, status: int, **values: Any) -> Response:
    from jinja2 import Environment, FileSystemLoader
    from starlette.responses import HTMLResponse

    templates = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    page = templates.get_template("sign_in.jinja").render(form=form, fault=fault, **values)
    return HTMLResponse(page, status, {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})


def _redirect(path: str) -> Any:
    from starlette.responses import RedirectResponse

    return RedirectResponse(path, 303, {"Cache-Control": "no-store"})
