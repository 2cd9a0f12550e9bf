"""The OpenAPI document, with problem documents as the answer to whatever goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalflow.web.problem import MEDIA_TYPE, ProblemDocument

if TYPE_CHECKING:
    from fastapi import FastAPI

_REF = "#/components/schemas/{model}"


def describe_problems(app: FastAPI) -> None:
    """Have the app's OpenAPI document say what its errors look like, in the place of FastAPI's own."""
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
