"""Errors as problem documents (RFC 9457), and their place in the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from evalflow.addons.studio.work.access import ForbiddenError, SignedOutError
from evalflow.addons.studio.work.sign_in_limits import TooManyTriesError
from evalflow.addons.studio.work.space import NotFoundError, StaleError
from evalflow.addons.studio.work.trials import TooManyTrialsError
from evalflow.errors import ConflictError, EvalflowError, InfrastructureError, Problem, UserError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

    from evalflow.addons.studio.web.api.declared import DeclaredRoutes


MEDIA_TYPE = "application/problem+json"
_UNKNOWN_FIELD = frozenset({"extra_forbidden", "unexpected_keyword_argument"})  # of a model, of a dataclass
RETRY = {"Retry-After": "5"}
"""With every 503: the seconds after which the request may be sent again."""


class ProblemError(BaseModel):
    """One problem of a request.

    Attributes:
        pointer: A JSON pointer into the body, or `?name` for a parameter of the query.
        detail: What is wrong there.
        hint: What to do about it.
    """

    pointer: str = ""
    detail: str
    hint: str = ""


class ProblemDocument(BaseModel):
    """The body of every error response."""

    type: str = Field(default="about:blank", description="`about:blank`: the status says it all.")
    title: str = Field(description="The status in words.")
    status: int = Field(ge=400, le=599)
    detail: str = ""
    errors: list[ProblemError] = []


def problem_response(
    status: int, detail: str, errors: Sequence[ProblemError] = (), headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """An error response; `more` are further members of its body."""
    from starlette.responses import Response

    document = ProblemDocument(title=HTTPStatus(status).phrase, status=status, detail=detail, errors=list(errors))
    # Messages quote what was sent, in which a lone surrogate may be.
    text = json.dumps({**document.model_dump(), **more}, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, headers, MEDIA_TYPE)


def handle_faults(app: FastAPI, declared: DeclaredRoutes) -> None:
    """Answer every error of the API's routes with a problem document."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    async def invalid(request: Request, error: Any) -> Response:
        return _invalid(declared, request, error)

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(UserError, _refused)
    app.add_exception_handler(InfrastructureError, _unavailable)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


def fault_of(problem: Problem) -> ProblemError:
    """A problem with its key path as a JSON pointer."""
    where = problem.key or problem.where
    pointer = where if not where or where.startswith("?") else "/" + where.replace(".", "/")
    return ProblemError(pointer=pointer, detail=problem.what, hint=problem.hint)


def _invalid(declared: DeclaredRoutes, request: Request, error: Any) -> Response:
    def fault(kind: str, place: tuple[int | str, ...], message: str) -> ProblemError:
        if kind in _UNKNOWN_FIELD and place[0] == "body":
            what, hint = f"there is no field {place[-1]!r}", declared.hint_for_field(request, place[1:])
            return ProblemError(pointer=_pointer(place), detail=what, hint=hint)
        return ProblemError(pointer=_pointer(place), detail=message)

    faults = [fault(entry["type"], entry["loc"], entry["msg"]) for entry in error.errors()]
    return problem_response(422, "the request is not what this route takes", faults)


_STATUSES: Mapping[type[EvalflowError], int] = {
    StaleError: 412,
    TooManyTriesError: 429,
    TooManyTrialsError: 429,
    NotFoundError: 404,
    ConflictError: 409,
    SignedOutError: 401,
    ForbiddenError: 403,
    InfrastructureError: 503,
}


def status_of(error: EvalflowError) -> int:
    """The status of a response that tells an error; 422 for what was asked wrongly."""
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 422)


async def _refused(_: Request, error: Any) -> Response:
    faults = [fault_of(problem) for problem in error.problems]
    detail = faults[0].detail if len(faults) == 1 else f"{len(faults)} things are wrong"
    more: dict[str, Any] = {"current": error.current} if isinstance(error, StaleError) else {}
    return problem_response(status_of(error), detail, faults, **more)


async def _unavailable(_: Request, error: Any) -> Response:
    return problem_response(503, str(error), headers=RETRY)


async def _http(_: Request, error: Any) -> Response:
    return problem_response(error.status_code, str(error.detail), headers=error.headers)


async def _bug(_: Request, __: Any) -> Response:
    return problem_response(500, "this is a bug in evalflow, not your mistake; the server's output has the details")


def _pointer(place: tuple[int | str, ...]) -> str:
    """`("body", "a", 0)` as `/a/0`; `("query", "limit")` as `?limit`; a header as its name."""
    kind, *rest = place
    if kind == "query":
        return "?" + ".".join(map(str, rest))
    if kind != "body":
        return ".".join(map(str, place))
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in rest)


_REF = "#/components/schemas/{model}"


def describe_problems(app: FastAPI) -> None:
    """Describe our error responses in the OpenAPI document, in place of FastAPI's own."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        made = app.openapi_schema is None
        document = plain()
        if made:
            _describe(document)
        return document

    app.openapi = described


def _describe(document: dict[str, Any]) -> None:
    token = {"type": "http", "scheme": "bearer", "description": "In .evalflow/token; `serve --no-token` asks for none."}
    document.setdefault("components", {})["securitySchemes"] = {"token": token}
    document["security"] = [{"token": []}]
    schema = ProblemDocument.model_json_schema(ref_template=_REF)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas |= {**schema.pop("$defs", {}), "ProblemDocument": schema}
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = {"schema": {"$ref": _REF.format(model="ProblemDocument")}}
    answer = {"description": "What is wrong.", "content": {MEDIA_TYPE: problem}}
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = answer
