"""Instances of schemas, checked against the models that the schemas come from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from evalflow.testing.replies import Instances


class Inner(BaseModel):
    verdict: Literal["no", "yes"]
    score: Annotated[int, Field(ge=1, le=5)]


class Every(BaseModel):
    items: list[Inner]
    named: dict[str, int]
    optional: str | None
    share: Annotated[float, Field(gt=0, lt=1)]
    below: Annotated[int, Field(le=-2)]
    above: Annotated[int, Field(gt=7)]
    word: Annotated[str, Field(min_length=8)]
    short: Annotated[str, Field(max_length=2)]
    few: Annotated[list[str], Field(min_length=2, max_length=2)]
    yes: bool
    constant: Literal["only"]
    nothing: None


def test_an_instance_is_valid_and_always_the_same() -> None:
    first, second = (Instances(length=3).make(Every.model_json_schema()) for _ in range(2))
    made = Every.model_validate(first)
    assert first == second
    assert [item.verdict for item in made.items] == ["no"] * 3
    assert len(made.few) == 2


def test_lengths_and_values_by_name() -> None:
    instances = Instances(length={"items": 2}, values={"verdict": "yes", "score": 4})
    made = Every.model_validate(instances.make(Every.model_json_schema()))
    assert made.items == [Inner(verdict="yes", score=4)] * 2


def test_joined_schemas_have_the_properties_of_all() -> None:
    schema: dict[str, Any] = {
        "$defs": {"A": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"type": ["boolean", "null"]}}}],
    }
    assert Instances().make(schema) == {"a": 0, "b": True}


@pytest.mark.parametrize(
    ("schema", "message"),
    [({"type": "float"}, "no JSON type is called 'float'"), ({"$ref": "#/$defs/X"}, "refers to #/\\$defs/X")],
)
def test_a_broken_schema_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Instances().make(schema)
