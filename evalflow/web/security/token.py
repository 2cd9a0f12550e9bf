"""Only those who know the server's token: loopback keeps other machines out, not other accounts of this one.

The token stands in `.evalflow/token`, which the owner alone can read, and is kept from start to start, so that open
pages and scripts go on. A browser brings it once, in the address that `serve` prints, and has it in a cookie from then
on; a program sends `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import os
import secrets
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from evalflow.errors import Problem, UserError
from evalflow.paths import private_file, private_folder
from evalflow.web.security.refusal import refuse

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Receive, Scope, Send

FILE = Path(".evalflow") / "token"
OPENING = Path(".evalflow") / "open.html"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What watches over the process knows no token, and is told nothing else."""
SHORTEST = 32
"""Characters of a token; a shorter file is no token of ours."""
KEPT_S = 30 * 24 * 3600
"""How long a browser keeps the cookie."""
_REFUSAL = (
    "this server asks for its token: open the address that `python -m evalflow serve` printed, or send "
    "Authorization: Bearer TOKEN; the token is in .evalflow/token of the folder that it was started in"
)


class KnownToken:
    """Refuses, with 401, whoever does not bring the token.

    Args:
        app: What comes next.
        token: What has to be brought.
        port: The server's. Browsers send a cookie to every port of a host, so that its name has the port in it.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app = app
        self._token = token.encode()
        self._cookie = cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, take the token out of the address, or refuse."""
        if scope["type"] not in ("http", "websocket") or scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        from starlette.datastructures import URL, Headers, QueryParams

        headers = Headers(scope=scope)
        brought = QueryParams(scope["query_string"]).get("token")
        if scope["type"] == "http" and scope["method"] == "GET" and brought is not None:
            if self._is_right(brought):
                await self._enter(str(URL(scope=scope).remove_query_params("token")), scope, receive, send)
                return
        elif self._is_known(headers):
            await self.app(scope, receive, send)
            return
        await _turn_away(headers, scope, receive, send)

    async def _enter(self, url: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Set the cookie, and lead to the address without the token. The Host was checked before this."""
        from starlette.responses import RedirectResponse

        response = RedirectResponse(url, 303, {"Cache-Control": "no-store"})
        token = self._token.decode()
        response.set_cookie(self._cookie, token, max_age=KEPT_S, httponly=True, samesite="strict")
        await response(scope, receive, send)

    def _is_known(self, headers: Headers) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_right(credentials.strip()):
            return True
        pairs = (pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
        return any(name == self._cookie and self._is_right(value) for name, _, value in pairs)

    def _is_right(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token)


def cookie_name(port: int) -> str:
    """The name of the cookie of the server at that port."""
    return f"evalflow-{port}"


def kept_token(root: Path) -> str:
    """The token of the servers of a folder; made where there is none, or where others could have read it.

    Args:
        root: The folder that a server is started in.

    Raises:
        UserError: It cannot be read or written.
    """
    path = root / FILE
    try:
        private_folder(path.parent)
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            found = file.read().strip()
        if (os.name == "nt" or not mode & 0o077) and len(found) >= SHORTEST and found.isascii():
            return found
        path.unlink()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from None
    token = secrets.token_urlsafe(32)
    try:
        _write(path, f"{token}\n")
    except FileExistsError:  # another server of this folder was quicker
        return kept_token(root)
    except OSError as error:
        raise _unusable(path, error) from None
    return token


def opening_page(root: Path, url: str) -> Path:
    """A page that leads a browser to the server, whose command line every account of the machine can read.

    Args:
        root: The folder that the server was started in.
        url: With the token.
    """
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


async def _turn_away(headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse; a browser is told in a page.

    Who follows a link of another site comes without the cookie (SameSite=Strict). The page then asks again, by itself,
    as a page of this server.
    """
    if scope["type"] != "http" or headers.get("sec-fetch-mode") != "navigate":
        await refuse(scope, receive, send, 401, _REFUSAL, {"WWW-Authenticate": "Bearer"})
        return
    from starlette.responses import HTMLResponse

    followed = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    again = '<meta http-equiv="refresh" content="0">' if followed else ""
    page = f"<!doctype html><title>evalflow: no token</title>{again}<p>{escape(_REFUSAL)}</p>"
    await HTMLResponse(page, 401, {"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"})(scope, receive, send)
