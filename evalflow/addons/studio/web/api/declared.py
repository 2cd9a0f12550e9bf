"""The parameters and fields of each route in the OpenAPI document; unknown ones are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from evalflow.errors import Problem, UserError, did_you_mean

Schema = Mapping[str, Any]


class DeclaredRoutes:
    """The parameters and fields of each route, read when they are first needed."""

    def __init__(self) -> None:
        self._described: dict[tuple[str, str], tuple[Schema, Schema]] = {}

    async def expect_known_parameters(self, request: Request) -> None:
        """Refuse parameters of the query that the route does not have; UserError names all of them.

        A mistyped filter would otherwise return everything.
        """
        if not request.query_params:
            return
        operation, _ = self._of(request)
        known = {one["name"]: one["schema"] for one in operation.get("parameters", ()) if one["in"] == "query"}
        unknown = [name for name in request.query_params if name not in known]  # each once, in order
        if unknown:
            what = "this route has no parameter {!r}"
            hints = (did_you_mean(name, known) if known else "it takes no parameters: remove it" for name in unknown)
            problems = zip(unknown, hints, strict=True)
            raise UserError([Problem(what.format(name), f"?{name}", hint) for name, hint in problems])
        given = Counter(name for name, _ in request.query_params.multi_items())
        twice = [name for name, times in given.items() if times > 1 and not _takes_several(known[name])]
        if twice:
            raise UserError([Problem(f"{name!r} is given twice", f"?{name}", "give it once") for name in twice])

    def hint_for_field(self, request: Request, place: Sequence[int | str]) -> str:
        """The nearest field for an unknown one of the body, or those that there are; `place` leads to it."""
        operation, schemas = self._of(request)
        bodies = operation.get("requestBody", {}).get("content", {})
        candidates = [media["schema"] for media in bodies.values()]
        *path, name = place
        for step in path:
            # A step that is not in the schema is the tag of a union.
            candidates = [inner for schema in candidates for inner in _inside(schema, step, schemas)] or candidates
        known = {
            field for schema in candidates for one in _options(schema, schemas) for field in one.get("properties", ())
        }
        return did_you_mean(str(name), known) if known else "remove it"

    def _of(self, request: Request) -> tuple[Schema, Schema]:
        """The operation of the request's route, and the schemas that it refers to."""
        route: APIRoute = request.scope["route"]
        key = route.path_format, request.method
        if key not in self._described:
            document = get_openapi(title="", version="", routes=[route])
            (operation,) = document["paths"][route.path_format].values()
            self._described[key] = operation, document.get("components", {}).get("schemas", {})
        return self._described[key]


def _takes_several(schema: Schema) -> bool:
    return any(one.get("type") == "array" for one in _options(schema, {}))


def _inside(schema: Schema, step: int | str, schemas: Schema) -> Iterator[Schema]:
    for one in _options(schema, schemas):
        inner = one.get("items") if isinstance(step, int) else one.get("properties", {}).get(step)
        if inner is None and isinstance(one.get("additionalProperties"), Mapping):
            inner = one["additionalProperties"]
        if inner is not None:
            yield inner


def _options(schema: Schema, schemas: Schema) -> Iterator[Schema]:
    """A schema without references; of a union, each member."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    members = [member for kind in ("anyOf", "oneOf", "allOf") for member in schema.get(kind, ())]
    if not members:
        yield schema
    for member in members:
        yield from _options(member, schemas)
