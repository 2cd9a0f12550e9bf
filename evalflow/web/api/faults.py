"""How errors become problem documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalflow.app.workspace import NotFoundError, StaleError
from evalflow.errors import ConflictError, InfrastructureError, Problem, UserError
from evalflow.web.problem import Fault, problem_response

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response


def handle_faults(app: FastAPI) -> None:
    """Answer every error of the API's routes with a problem document."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(UserError, _refused)
    app.add_exception_handler(StaleError, _stale)
    app.add_exception_handler(InfrastructureError, _unavailable)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


def fault_of(problem: Problem) -> Fault:
    """A problem of ours, its key path as a JSON pointer."""
    where = problem.key or problem.where
    pointer = where if not where or where.startswith("?") else "/" + where.replace(".", "/")
    return Fault(pointer=pointer, detail=problem.what, hint=problem.hint)


async def _invalid(_: Request, error: Any) -> Response:
    faults = [Fault(pointer=_pointer(entry["loc"]), detail=entry["msg"]) for entry in error.errors()]
    return problem_response(422, "the request is not what this route takes", faults)


async def _refused(_: Request, error: Any) -> Response:
    kinds = {NotFoundError: 404, ConflictError: 409}
    return _user_error(error, next((status for kind, status in kinds.items() if isinstance(error, kind)), 422))


async def _stale(_: Request, error: Any) -> Response:
    return _user_error(error, 412, current=error.current)


def _user_error(error: UserError, status: int, **more: Any) -> Response:
    faults = [fault_of(problem) for problem in error.problems]
    return problem_response(
        status, faults[0].detail if len(faults) == 1 else f"{len(faults)} things are wrong", faults, **more
    )


async def _unavailable(_: Request, error: Any) -> Response:
    return problem_response(503, str(error))


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
