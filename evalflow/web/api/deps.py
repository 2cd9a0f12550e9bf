"""What routes are given: the workspace, and the version that a change was made from."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header, HTTPException, Path, Request, Response

from evalflow.app.workspace import Workspace

_ETAG = re.compile(r'"(\d{1,18})"\Z')

Name = Annotated[str, Path(max_length=200)]


def _space(request: Request) -> Workspace:
    return request.app.state.workspace


def _expected(
    if_match: Annotated[
        str | None, Header(description="The ETag of what the change was made from, so that nobody's change is lost.")
    ] = None,
) -> int:
    if if_match is None:
        raise HTTPException(428, "send If-Match with the ETag of what you have seen, so that nobody's change is lost")
    return _version(if_match)


def _seen(
    if_match: Annotated[str | None, Header(description="An ETag; nothing is done if it is another one by now.")] = None,
) -> int | None:
    return None if if_match is None else _version(if_match)


def _version(if_match: str) -> int:
    found = _ETAG.match(if_match.strip())
    if found is None:
        raise HTTPException(400, 'If-Match is an ETag as it came, such as "3"')
    return int(found[1])


Space = Annotated[Workspace, Depends(_space)]
"""Where people work."""
Expected = Annotated[int, Depends(_expected)]
"""The version of If-Match."""
Seen = Annotated[int | None, Depends(_seen)]
"""The version of If-Match, which may be left out where the state says enough."""


def tagged(response: Response, version: int) -> None:
    """Give the answer its ETag."""
    response.headers["ETag"] = f'"{version}"'


def created(request: Request, response: Response, name: str, version: int | None = None) -> None:
    """Say where the new one is, and its ETag."""
    response.headers["Location"] = f"{request.url.path}/{name}"
    if version is not None:
        tagged(response, version)
