"""Errors as problem documents (RFC 9457): what went wrong, where, and what to do next; never a traceback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class Fault(BaseModel):
    """One of the things that are wrong.

    Attributes:
        pointer: Where in the body, as a JSON pointer; `?name` for a parameter of the query.
        detail: What is wrong there.
        hint: What to do about it.
    """

    pointer: str = ""
    detail: str
    hint: str = ""


class ProblemDocument(BaseModel):
    """The body of every answer from 400 on."""

    type: str = Field(default="about:blank", description="`about:blank`: the status says it all.")
    title: str = Field(description="The status in words.")
    status: int = Field(ge=400, le=599)
    detail: str = ""
    errors: list[Fault] = []


def problem_response(
    status: int, detail: str, errors: Sequence[Fault] = (), headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """The answer that says what is wrong.

    Args:
        status: 400 to 599.
        detail: In one sentence.
        errors: All things that are wrong, where they can be told apart.
        headers: Further headers.
        more: Further members, such as what has changed meanwhile.
    """
    from starlette.responses import JSONResponse

    document = ProblemDocument(title=_phrase(status), status=status, detail=detail, errors=list(errors))
    return JSONResponse({**document.model_dump(), **more}, status, headers, MEDIA_TYPE)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
