"""Signing in and out, and choosing a password by a one-time link: plain forms, since NiceGUI serves members only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CapacityLimiter, to_thread

from evalflow.addons.studio.web.api.problems import problem_response
from evalflow.addons.studio.web.security.oidc import CALLBACK, OIDC, OidcProvider
from evalflow.addons.studio.web.security.sign_in import COOKIE, session_key
from evalflow.addons.studio.work.access import ForbiddenError, SignedOutError
from evalflow.addons.studio.work.identities import BACK_TTL, keep_until_back, sign_in_by_identity, take_back
from evalflow.addons.studio.work.people import SHORTEST_PASSWORD
from evalflow.addons.studio.work.sessions import SESSION_TTL, begin_sign_in, choose_password, sign_in, sign_out
from evalflow.errors import EvalflowError, InfrastructureError, UserError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from evalflow.addons.studio.work.space import Workspace

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_LONGEST = 2000
"""Characters of a field."""
_LARGEST = 8 * _LONGEST
"""Bytes of a field, whose characters may be written as %E2%82%AC."""
_TRIES = 20
"""Sign-ins from one address that may wait at once, so that it keeps nobody else waiting for long."""
_HASHING = 4
"""Passwords that are checked at once; each takes 64 MB."""


_BACK_COOKIE = f"{COOKIE}-oidc"
"""The browser that was sent to the provider, so that nobody else's answer signs it in."""


def sign_in_routes(provider: OidcProvider | None = None) -> list[BaseRoute]:
    """/sign-in, /sign-out and /password; with a provider, the way there and back."""
    from starlette.routing import Route

    doors = _Doors(provider)
    there_and_back = _ThereAndBack(provider, doors) if provider else None
    return [
        *(there_and_back.routes() if there_and_back else (Route(path, _no_provider) for path in (OIDC, CALLBACK))),
        Route("/sign-in", doors.form, methods=["GET"]),
        Route("/sign-in", doors.enter, methods=["POST"]),
        Route("/sign-out", _leave, methods=["POST"]),
        Route("/password", _password_form, methods=["GET"]),
        Route("/password", doors.choose, methods=["POST"]),
    ]


class _Doors:
    """Checks passwords: a few at once, and one at a time for the same account from the same address."""

    def __init__(self, provider: OidcProvider | None) -> None:
        self._provider = provider.settings.name if provider else ""
        self._limiter = CapacityLimiter(_HASHING)
        self._waiting: set[tuple[str, str]] = set()

    async def form(self, request: Request) -> Response:
        return self.page(request.query_params.get("next", ""))

    def page(self, wanted: str, name: str = "", fault: str = "", status: int = 200) -> Response:
        """The form, with what went wrong."""
        return _page("sign_in", fault, status, name=name, wanted=wanted, provider=self._provider)

    async def enter(self, request: Request) -> Response:
        fields = await _fields(request)
        workspace: Workspace = request.state.workspace
        name, address = fields.get("name", "").strip().lower(), request.client.host if request.client else ""
        waiting = [one for one, there in self._waiting if there == address]
        if name in waiting or len(waiting) >= _TRIES:
            return self.page(fields.get("next", ""), name, "Another attempt is still being checked. Wait for it.", 429)
        self._waiting.add((name, address))
        try:
            await anyio.sleep(await to_thread.run_sync(begin_sign_in, workspace, name, address))
            given = (workspace, name, fields.get("password", ""), address, request.headers.get("user-agent", ""))
            key = await to_thread.run_sync(sign_in, *given, limiter=self._limiter)
        except SignedOutError:
            return self.page(fields.get("next", ""), name, "The name or the password is wrong.", 401)
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
            return _password_page(code, _sentence(error), 422)
        return _redirect("/sign-in")


async def _no_provider(_: Request) -> Response:
    return problem_response(404, "people do not sign in by OpenID Connect here")


class _ThereAndBack:
    """Signs people in by an OpenID Connect provider."""

    def __init__(self, provider: OidcProvider, doors: _Doors) -> None:
        self._provider, self._doors = provider, doors

    def routes(self) -> list[BaseRoute]:
        from starlette.routing import Route

        return [Route(OIDC, self.leave), Route(CALLBACK, self.come_back)]

    async def leave(self, request: Request) -> Response:
        url, kept = await to_thread.run_sync(self._provider.start)
        kept["next"] = request.query_params.get("next", "")[:_LONGEST]
        key = await to_thread.run_sync(keep_until_back, request.state.workspace, kept)
        response = _redirect(url)
        _set_cookie(response, _BACK_COOKIE, key, BACK_TTL)
        return response

    async def come_back(self, request: Request) -> Response:
        space: Workspace = request.state.workspace
        kept = await to_thread.run_sync(take_back, space, request.cookies.get(_BACK_COOKIE, ""))
        if kept is None:
            return self._doors.page("", fault="This sign-in was not started here, or it took too long.", status=401)
        address, agent = request.client.host if request.client else "", request.headers.get("user-agent", "")
        signs_up = self._provider.settings.signs_up
        try:
            identity = await to_thread.run_sync(self._provider.finish, kept, request.query_params)
            given = partial(sign_in_by_identity, space, identity, address, agent, signs_up=signs_up)
            response = await enter_with(request, await to_thread.run_sync(given), kept["next"])
        except (UserError, InfrastructureError) as error:
            status = 403 if isinstance(error, ForbiddenError) else 401 if isinstance(error, UserError) else 503
            response = self._doors.page(kept["next"], fault=_sentence(error), status=status)
        response.delete_cookie(_BACK_COOKIE, secure=True, httponly=True, samesite="lax", path="/")
        return response


def _sentence(error: EvalflowError) -> str:
    """What went wrong, and the next step, for people."""
    if not isinstance(error, UserError):
        return str(error)
    problem = error.problems[0]
    return f"{problem.what[:1].upper()}{problem.what[1:]}" + (f": {problem.hint}." if problem.hint else ".")


async def enter_with(request: Request, key: str, wanted: str) -> Response:
    """Give a browser its new session in place of the one that it had, and show the page that it wanted."""
    old = session_key(request)
    if old:
        await _end(request.state.workspace, old)
    response = _redirect(_own_path(wanted))
    _set_cookie(response, COOKIE, key, SESSION_TTL)
    return response


def _set_cookie(response: Response, name: str, key: str, ttl: timedelta) -> None:
    age = int(ttl.total_seconds())
    response.set_cookie(name, key, max_age=age, secure=True, httponly=True, samesite="lax", path="/")


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
    form = await request.form(max_files=0, max_fields=10, max_part_size=_LARGEST)
    return {name: value[:_LONGEST] for name, value in form.items() if isinstance(value, str)}


def _own_path(wanted: str) -> str:
    """The path to continue at; anything but a path of this server becomes the first page."""
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if is_own else "/"


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
