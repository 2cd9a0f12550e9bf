"""Signing in by passkey, one-time link or provider, and signing out. Plain forms, since NiceGUI only serves members."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from evalflow.addons.studio.web.api.problems import problem_response, status_of
from evalflow.addons.studio.web.security.oidc import CALLBACK, OIDC, OidcProvider, RefusedIdentityError
from evalflow.addons.studio.web.security.sign_in import COOKIE, LINK, PASSKEY, redirect, session_key
from evalflow.addons.studio.work import passkeys
from evalflow.addons.studio.work.access import ForbiddenError, SignedOutError
from evalflow.addons.studio.work.identities import BACK_TTL, keep_until_back, sign_in_by_identity, take_back
from evalflow.addons.studio.work.passkeys import ANSWER_TTL, Browser, Challenge
from evalflow.addons.studio.work.sessions import LONG_SESSION_TTL, sign_out
from evalflow.addons.studio.work.sign_in_limits import TooManyTriesError, expect_free, note_refusal
from evalflow.errors import EvalflowError, InfrastructureError, UserError
from evalflow.values.jsonvalues import parsed

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from evalflow.addons.studio.web.address import PublicMode
    from evalflow.addons.studio.work.space import Workspace

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_LONGEST = 2000
"""Characters of a field."""
_LARGEST = 8 * _LONGEST
"""Maximum bytes of a field, whose characters may be percent-encoded, such as %E2%82%AC."""
_LARGEST_ANSWER = 64 * 1024
"""Maximum bytes of a device's answer."""
_BACK_COOKIE = f"{COOKIE}-oidc"
"""The cookie of the browser sent to the provider, so that only its own answer signs it in."""
_CHALLENGE_COOKIE = f"{COOKIE}-passkey"
"""The cookie of the browser whose device was asked, for the same reason."""


def sign_in_routes(public: PublicMode) -> list[BaseRoute]:
    """The routes /sign-in, /sign-out, /link and /passkey, and with a provider those to and from it."""
    from starlette.routing import Route

    doors = _Doors(public)
    there_and_back = _ThereAndBack(public.provider, doors) if public.provider else None
    return [
        *(there_and_back.routes() if there_and_back else (Route(path, _no_provider) for path in (OIDC, CALLBACK))),
        Route("/sign-in", doors.form, methods=["GET"]),
        Route("/sign-out", _leave, methods=["POST"]),
        Route(LINK, doors.link_form, methods=["GET"]),
        Route(LINK, doors.enter_by_link, methods=["POST"]),
        Route(f"{PASSKEY}/options", doors.ask, methods=["POST"]),
        Route(PASSKEY, doors.take, methods=["POST"]),
    ]


class _Doors:
    """The forms, and the requests of the browser's script for passkeys."""

    def __init__(self, public: PublicMode) -> None:
        self._url = public.url
        self._provider = public.provider.settings.name if public.provider else ""

    def browser(self, request: Request) -> Browser:
        address = request.client.host if request.client else ""
        return Browser(self._url, address, request.headers.get("user-agent", ""))

    async def form(self, request: Request) -> Response:
        return self.page(request.query_params.get("next", ""))

    def page(self, wanted: str, fault: str = "", status: int = 200) -> Response:
        """The form, with the error message, if any."""
        return _page("sign_in", fault, status, wanted=_own_path(wanted), provider=self._provider)

    async def link_form(self, request: Request) -> Response:
        return await self._link_page(request, request.query_params.get("code", "")[:_LONGEST])

    async def enter_by_link(self, request: Request) -> Response:
        code = (await _fields(request)).get("code", "")
        try:
            key = await to_thread.run_sync(passkeys.enter_by_link, request.state.workspace, self.browser(request), code)
        except UserError as error:
            return self.page("", _sentence(error), status_of(error))
        return await enter_with(request, key, "/")

    async def _link_page(self, request: Request, code: str) -> Response:
        try:
            user = await to_thread.run_sync(passkeys.link_owner, request.state.workspace, self.browser(request), code)
        except UserError as error:
            return self.page("", _sentence(error), status_of(error))
        return _page("link", "", 200, code=code, name=user.full_name or user.name, is_owner=user.is_owner)

    async def ask(self, request: Request) -> Response:
        """The options for `navigator.credentials`, for the `purpose` that the script names."""
        from starlette.responses import Response

        work = {"enter": passkeys.ask_to_enter, "confirm": passkeys.ask_to_confirm, "add": passkeys.ask_to_add}
        try:
            sent = await _sent(request)
            space, browser = request.state.workspace, self.browser(request)
            if sent.get("purpose") == "join":
                asking = partial(passkeys.ask_to_join, space, browser, str(sent.get("code", ""))[:_LONGEST])
            else:
                asking = partial(work[str(sent.get("purpose"))], space, browser)
            challenge: Challenge = await to_thread.run_sync(asking)
        except (UserError, KeyError, ValueError) as error:
            return _refusal(error)
        response = Response(challenge.options, media_type="application/json", headers={"Cache-Control": "no-store"})
        _set_cookie(response, _CHALLENGE_COOKIE, challenge.key, ANSWER_TTL)
        return response

    async def take(self, request: Request) -> Response:
        """Process a device's answer; `next` in the reply is the browser's next page."""
        from starlette.responses import JSONResponse

        key = request.cookies.get(_CHALLENGE_COOKIE, "")
        try:
            sent = await _sent(request)
            answer = sent.get("answer")
            if not isinstance(answer, dict):
                raise ValueError("no answer")
            session = await to_thread.run_sync(
                self._work, request.state.workspace, self.browser(request), key, sent, cast("dict[str, Any]", answer)
            )
        except (UserError, KeyError, ValueError) as error:
            return _refusal(error)
        wanted = _own_path(str(sent.get("next", ""))[:_LONGEST])
        response = JSONResponse({"next": wanted}, headers={"Cache-Control": "no-store"})
        if session is not None:
            await _replace_session(request, response, session)
        _drop_cookie(response, _CHALLENGE_COOKIE)
        return response

    def _work(
        self, space: Workspace, browser: Browser, key: str, sent: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> str | None:
        """The key of a new session; None if the person already has one."""
        match sent["purpose"]:
            case "enter":
                return passkeys.enter(space, browser, key, answer)
            case "join":
                return passkeys.join(space, browser, str(sent.get("code", ""))[:_LONGEST], key, answer)
            case "confirm":
                return passkeys.confirm(space, browser, key, answer)
            case "add":
                return passkeys.add(space, browser, key, answer)
            case _:
                raise KeyError("purpose")


async def _sent(request: Request) -> Mapping[str, Any]:
    """The JSON object of a request. Raises ValueError if it is none, or too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_ANSWER:
            raise ValueError("too large")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ValueError("not JSON")
    content = parsed(body)
    if not isinstance(content, dict):
        raise ValueError("not an object")
    return cast("dict[str, Any]", content)


def _refusal(error: UserError | KeyError | ValueError) -> Response:
    if isinstance(error, UserError):
        return problem_response(status_of(error), _sentence(error))
    return problem_response(422, "the request is not what this route takes")


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
        try:
            await to_thread.run_sync(expect_free, request.state.workspace, self._doors.browser(request).address)
        except TooManyTriesError as error:
            return self._doors.page("", fault=_sentence(error), status=429)
        url, kept = await to_thread.run_sync(self._provider.start)
        kept["next"] = request.query_params.get("next", "")[:_LONGEST]
        key = await to_thread.run_sync(keep_until_back, request.state.workspace, kept)
        response = redirect(url)
        _set_cookie(response, _BACK_COOKIE, key, BACK_TTL)
        return response

    async def come_back(self, request: Request) -> Response:
        space: Workspace = request.state.workspace
        kept = await to_thread.run_sync(take_back, space, request.cookies.get(_BACK_COOKIE, ""))
        if kept is None:
            return self._doors.page("", fault="This sign-in was not started here, or it took too long.", status=401)
        browser = self._doors.browser(request)
        signs_up = self._provider.settings.signs_up
        try:
            identity = await to_thread.run_sync(self._provider.finish, kept, request.query_params)
            given = partial(sign_in_by_identity, space, identity, browser.address, browser.agent, signs_up=signs_up)
            response = await enter_with(request, await to_thread.run_sync(given), kept["next"])
        except (UserError, InfrastructureError) as error:
            if isinstance(error, RefusedIdentityError):
                await to_thread.run_sync(note_refusal, space, browser.address, None, "oidc: no valid proof")
            status = 403 if isinstance(error, ForbiddenError) else 401 if isinstance(error, UserError) else 503
            response = self._doors.page(kept["next"], fault=_sentence(error), status=status)
        _drop_cookie(response, _BACK_COOKIE)
        return response


def _sentence(error: EvalflowError) -> str:
    """The error and the next step, as sentences."""
    if not isinstance(error, UserError):
        return str(error)
    problem = error.problems[0]
    return f"{problem.what[:1].upper()}{problem.what[1:]}" + (f": {problem.hint}." if problem.hint else ".")


async def enter_with(request: Request, key: str, wanted: str) -> Response:
    """Replace a browser's session by a new one, and redirect to the page it wanted."""
    response = redirect(_own_path(wanted))
    await _replace_session(request, response, key)
    return response


async def _replace_session(request: Request, response: Response, key: str) -> None:
    old = session_key(request)
    if old:
        await _end(request.state.workspace, old)
    _set_cookie(response, COOKIE, key, LONG_SESSION_TTL)  # the server ends most sessions much earlier


def _set_cookie(response: Response, name: str, key: str, ttl: timedelta) -> None:
    age = int(ttl.total_seconds())
    response.set_cookie(name, key, max_age=age, secure=True, httponly=True, samesite="lax", path="/")


def _drop_cookie(response: Response, name: str) -> None:
    response.delete_cookie(name, secure=True, httponly=True, samesite="lax", path="/")


async def _leave(request: Request) -> Response:
    key = session_key(request)
    if key:
        await _end(request.state.workspace, key)
    response = redirect("/sign-in")
    _drop_cookie(response, COOKIE)
    return response


async def _end(workspace: Workspace, key: str) -> None:
    try:
        await to_thread.run_sync(sign_out, workspace, key)
    except SignedOutError:
        return  # it has ended already


async def _fields(request: Request) -> Mapping[str, str]:
    form = await request.form(max_files=0, max_fields=10, max_part_size=_LARGEST)
    return {name: value[:_LONGEST] for name, value in form.items() if isinstance(value, str)}


def _own_path(wanted: str) -> str:
    """The path to continue at; anything but a path of this server becomes the first page."""
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if is_own else "/"


def _page(form: str, fault: str, status: int, **values: Any) -> Response:
    from jinja2 import Environment, FileSystemLoader
    from starlette.responses import HTMLResponse

    templates = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    page = templates.get_template("sign_in.jinja").render(form=form, fault=fault, **values)
    return HTMLResponse(page, status, {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})
