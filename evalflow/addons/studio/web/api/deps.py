"""Dependencies of routes: the workspace, If-Match versions, headers of responses, pages of lists."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar, cast

from fastapi import Depends, Header, HTTPException, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from evalflow.addons.studio.work.space import Page, Workspace, invalid_cursor

_ETAG = re.compile(r'"(\d{1,18})"\Z')

Name = Annotated[str, Path(max_length=200)]


def _space(request: Request) -> Workspace:
    return request.state.workspace


def _expected(
    if_match: Annotated[
        str | None, Header(description="The ETag of the version that you changed, so that nobody's change is lost.")
    ] = None,
) -> int:
    if if_match is None:
        raise HTTPException(428, "send If-Match with the ETag of what you have seen, so that nobody's change is lost")
    return _version(if_match)


def _seen(
    if_match: Annotated[str | None, Header(description="An ETag; if it has changed, nothing is done.")] = None,
) -> int | None:
    return None if if_match is None else _version(if_match)


def _version(if_match: str) -> int:
    match = _ETAG.match(if_match.strip())
    if match is None:
        raise HTTPException(400, 'If-Match must be an ETag that GET returned, such as "3"')
    return int(match[1])


Space = Annotated[Workspace, Depends(_space)]
"""The workspace of the application."""
Expected = Annotated[int, Depends(_expected)]
"""The version of If-Match."""
Seen = Annotated[int | None, Depends(_seen)]
"""The version of If-Match, which is optional here."""


class _Versioned(Protocol):
    @property
    def version(self) -> int: ...


V = TypeVar("V", bound=_Versioned)
T = TypeVar("T")


class ResponseHeaders:
    """Sets the headers of a response that names a thing."""

    def __init__(self, request: Request, response: Response) -> None:
        self._path, self._headers = request.url.path, response.headers

    def tag(self, thing: V) -> V:
        """Set the ETag to the version of the thing, and return the thing."""
        self._headers["ETag"] = f'"{thing.version}"'
        return thing

    def locate(self, thing: T, name: str | int, collection: str = "") -> T:
        """Set the Location of a new thing, and its ETag if it has versions; returns the thing.

        `collection`: its path, if the request has another.
        """
        self._headers["Location"] = f"{collection or self._path}/{name}"
        version = getattr(thing, "version", None)
        if version is not None:
            self._headers["ETag"] = f'"{version}"'
        return thing


async def _headers(request: Request, response: Response) -> ResponseHeaders:
    return ResponseHeaders(request, response)


Headers = Annotated[ResponseHeaders, Depends(_headers)]
"""The headers of the response."""


_JSON_LINES = "application/jsonl"


def json_lines(rows: Iterable[Any], name: str) -> StreamingResponse:
    """Rows as JSON lines, to download as a file of that name."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return StreamingResponse(lines, media_type=_JSON_LINES, headers=attached(f"{name}.jsonl"))


def attached(name: str) -> dict[str, str]:
    """The header of a response to download as a file of that name; the id of an opened run in it can be any text."""
    return {"Content-Disposition": f'attachment; filename="{re.sub(r"[^0-9A-Za-z_.-]", "_", name)}"'}


def json_lines_described(about: str) -> dict[int | str, dict[str, Any]]:
    """The response of `json_lines` in the OpenAPI document."""
    return {200: {"content": {_JSON_LINES: {}}, "description": about}}


Title = Annotated[str | None, Field(max_length=1_000, description="The displayed name, in any script; null: its name.")]


class RequestBody(BaseModel):
    """The body of a request; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class CaseCount(BaseModel):
    """The number of cases that were added, deleted or changed."""

    count: int


Cursor = Annotated[
    str | None, Query(max_length=1000, description="`next` of the previous page; empty: the first page.")
]
Limit = Annotated[int, Query(ge=1, le=500, description="Items of a page, at most.")]


class WantedPage(NamedTuple):
    """The page of a list that a request asks for."""

    cursor: str | None
    limit: int

    def of(self, items: Sequence[T], key: Callable[[T], Sequence[Any]]) -> Page[T]:
        """The page of a list that is completely in memory.

        The items are sorted by their key, which is unique and of text, numbers and booleans.
        """
        behind = None if self.cursor is None else _read(self.cursor)
        try:
            rest = [item for item in items if behind is None or list(key(item)) > behind]
        except TypeError:
            raise invalid_cursor() from None
        more = _write(key(rest[self.limit - 1])) if len(rest) > self.limit else None
        return Page(rest[: self.limit], more)


async def _paging(cursor: Cursor = None, limit: Limit = 50) -> WantedPage:
    return WantedPage(cursor, limit)


Paging = Annotated[WantedPage, Depends(_paging)]
"""The page that is asked for."""


def _write(key: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode().rstrip("=")


def _read(cursor: str) -> list[Any]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        decoded = json.loads(base64.b64decode(padded.encode(), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise invalid_cursor() from None
    if not isinstance(decoded, list):
        raise invalid_cursor()
    return cast("list[Any]", decoded)
