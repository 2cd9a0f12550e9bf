"""The server's token. Loopback keeps out other machines; the token keeps out other accounts of this machine.

The token is in `.evalflow/token`, which only its owner can read. It stays the same from start to start, so that open
pages and scripts keep working. A browser sends it once, in the URL that `serve` prints, and then has it in a cookie; a
program sends `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import os
import secrets
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from evalflow.addons.studio.web.security.guards import refuse
from evalflow.errors import Problem, UserError
from evalflow.paths import private_file, private_folder

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Receive, Scope, Send

FILE = Path(".evalflow") / "token"
OPENING = Path(".evalflow") / "open.html"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Health checks need no token."""
SHORTEST = 32
"""Minimum number of characters of a token; a shorter one in the file is replaced."""
COOKIE_S = 30 * 24 * 3600
"""Seconds that a browser keeps the cookie."""
_REFUSAL = (
    "this server asks for its token: open the address that `python -m evalflow serve` printed, or send "
    "Authorization: Bearer TOKEN; the token is in .evalflow/token of the folder that it was started in"
)


class KnownToken:
    """Refuses, with 401, a request without the token.

    The port is part of the cookie's name, because browsers send cookies to all ports of a host.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app = app
        self._token = token.encode()
        self._cookie = cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] not in ("http", "websocket") or scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        from starlette.datastructures import URL, Headers, QueryParams

        headers = Headers(scope=scope)
        given_token = QueryParams(scope["query_string"]).get("token")
        if scope["type"] == "http" and scope["method"] == "GET" and given_token is not None:
            if self._is_valid(given_token):
                await self._enter(str(URL(scope=scope).remove_query_params("token")), scope, receive, send)
                return
        elif self._has_token(headers):
            await self.app(scope, receive, send)
            return
        await _refuse_without_token(headers, scope, receive, send)

    async def _enter(self, url: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Set the cookie and redirect to the URL without the token. The Host header was checked before."""
        from starlette.responses import RedirectResponse

        response = RedirectResponse(url, 303, {"Cache-Control": "no-store"})
        token = self._token.decode()
        response.set_cookie(self._cookie, token, max_age=COOKIE_S, httponly=True, samesite="strict")
        await response(scope, receive, send)

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_valid(credentials.strip()):
            return True
        pairs = (pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
        return any(name == self._cookie and self._is_valid(value) for name, _, value in pairs)

    def _is_valid(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token)


def cookie_name(port: int) -> str:
    """The name of the server's cookie."""
    return f"evalflow-{port}"


def load_token(root: Path) -> str:
    """The token of a folder's servers; a new one if there is none, or if others could have read it."""
    path = root / FILE
    try:
        private_folder(path.parent)
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            saved_token = file.read().strip()
        if (os.name == "nt" or not mode & 0o077) and len(saved_token) >= SHORTEST and saved_token.isascii():
            return saved_token
        path.unlink()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from None
    token = secrets.token_urlsafe(32)
    try:
        _write(path, f"{token}\n")
    except FileExistsError:  # another server in this folder has just written it
        return load_token(root)
    except OSError as error:
        raise _unusable(path, error) from None
    return token


def opening_page(root: Path, url: str) -> Path:
    """Write a page that redirects to the server: other accounts could read the token on a command line."""
    path = root / OPENING
    path.unlink(missing_ok=True)
    _write(path, f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(url)}"><title>evalflow</title>\n')
    return path


def _write(path: Path, text: str) -> None:
    with os.fdopen(private_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
        file.write(text)


def _unusable(path: Path, error: Exception) -> UserError:
    hint = f"remove it: rm {path}; the next start makes a new one"
    return UserError(Problem(f"the token cannot be read or written: {error}", str(path), hint))


async def _refuse_without_token(headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse; a browser gets a page.

    After a link from another site the browser sends no cookie (SameSite=Strict), so the page reloads itself once from
    this origin.
    """
    if scope["type"] != "http" or headers.get("sec-fetch-mode") != "navigate":
        await refuse(scope, receive, send, 401, _REFUSAL, {"WWW-Authenticate": "Bearer"})
        return
    from starlette.responses import HTMLResponse

    followed = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    again = '<meta http-equiv="refresh" content="0">' if followed else ""
    page = f"<!doctype html><title>evalflow: no token</title>{again}<p>{escape(_REFUSAL)}</p>"
    await HTMLResponse(page, 401, {"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"})(scope, receive, send)
