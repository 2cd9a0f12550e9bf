"""What editors are told of the configuration is what evalflow takes."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonschema import Draft7Validator

from evalflow import doors
from evalflow.app.core.json_schema import group_schema
from evalflow.config.surroundings import EngineConfig
from evalflow.config.yaml_text import safe_yaml
from evalflow.paths import GROUPS

CONF = Path(__file__).parents[2] / "conf"
SHIPPED = [file for group in GROUPS for file in sorted((CONF / group).glob("*.yaml"))]


schema_of = cache(group_schema)


def errors(group: str, text: str) -> list[str]:
    return [error.message for error in Draft7Validator(schema_of(group)).iter_errors(safe_yaml(text))]


@pytest.mark.parametrize("group", GROUPS)
def test_is_a_schema(group: str) -> None:
    Draft7Validator.check_schema(group_schema(group))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_shipped_file_fits(file: Path) -> None:
    assert errors(file.parent.name, file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ("metric", "{kind: rubric, treshold: 0.5}"),
        ("metric", "{kind: rubrik}"),
        ("metric", "{kind: judge, score: {op: shares}}"),
        ("judge", "{kind: openai, modle: m}"),
        ("judge", "{defaults: [_openai, _self_], modle: m}"),
        ("judge", "{kind: openai, timeout_s: soon}"),
        ("target", "{kind: http, methods: GET}"),
        ("dataset", "{path: a.jsonl, fromat: csv}"),
        ("experiment", "{limits: 5}"),
        ("experiment", "{gate: {faithfulness: {meen: '>= 0.8'}}}"),
        ("metric", "{kind: rubric, gate: {pass_rat: '>= 0.8'}}"),
        ("metric", "{kind: rubric, needs: [answr]}"),
    ],
)
def test_a_mistake_is_found(group: str, text: str) -> None:
    assert errors(group, text)


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ("experiment", "{gate: {any: {mean: '>= 0.8', point: true}, 'tag:de': {pass_rate: {not_worse_by: 0.02}}}}"),
        ("experiment", "{gate: {any: {'precision[spam]': '>= 0.8', weighted_f2: '> 0', mcc: '> 0'}}}"),
        ("metric", "{kind: retrieval, gate: {mrr: '>= 0.8', 'ndcg@10': '>= 0.5'}}"),
        ("metric", "{kind: rubric, needs: [answer, vars.tone, expected.pages, contexts]}"),
    ],
)
def test_names_that_a_run_takes_are_no_mistakes(group: str, text: str) -> None:
    assert errors(group, text) == []


def test_a_value_may_come_from_the_environment() -> None:
    assert errors("judge", "{kind: openai, timeout_s: '${oc.env:SECONDS}', model: '???'}") == []


def test_keys_come_with_their_meaning() -> None:
    metric: dict[str, Any] = group_schema("metric")["$defs"]["RubricMetricConfig"]["properties"]
    assert "lowest passing score" in metric["threshold"]["description"]


def test_the_keys_of_operations_have_a_meaning_and_each_an_example() -> None:
    definitions = group_schema("metric")["$defs"]
    operations = [one for name, one in definitions.items() if name.endswith("Operation")]
    assert len(operations) > 10
    for operation in operations:
        assert_explained(operation)


def assert_explained(schema: dict[str, Any]) -> None:
    """Assert that a schema has an example, and each of its keys a meaning."""
    assert schema["examples"], schema["title"]
    for part in (schema, *schema.get("$defs", {}).values()):
        assert "Attributes:" not in part.get("description", "")
        keys = {key: value for key, value in part.get("properties", {}).items() if key != "op"}
        assert [key for key, value in keys.items() if "description" not in value] == [], part["title"]


@pytest.mark.parametrize("group", GROUPS)
def test_every_key_has_its_meaning_and_a_true_example(group: str) -> None:
    document = schema_of(group)
    seen = 0
    for name, model in document["$defs"].items():
        for key, found in model.get("properties", {}).items():
            place = f"{name}.{key}"
            options = [found, *found.get("anyOf", ())]
            options += [one for option in options for one in option.get("anyOf", ())]
            listed = any(
                not {"const", "enum"}.isdisjoint(one) or one.get("type") in ("boolean", "null") for one in options
            )
            assert "description" in found, place
            assert "examples" in found or listed, place
            for example in found.get("examples", ()):
                seen += 1
                valid = Draft7Validator({**found, "$defs": document["$defs"]}).is_valid(example)
                assert valid, (place, example)
    assert seen > 5


class First:
    class HouseConfig(EngineConfig):
        kind: Literal["first"]
        width: int = 1

    Config = HouseConfig


class Second:
    class HouseConfig(EngineConfig):
        kind: Literal["second"]
        height: int = 1

    Config = HouseConfig


def test_two_packages_may_call_their_models_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"first": First, "second": Second}
    points = EntryPoints(
        EntryPoint(name, f"{__name__}:{kind.__name__}", "evalflow.engines") for name, kind in kinds.items()
    )
    monkeypatch.setattr(doors, "installed_points", lambda: points)
    schema = Draft7Validator(group_schema("engine"))
    assert schema.is_valid({"kind": "first", "width": 2})
    assert schema.is_valid({"kind": "second", "height": 2})
    assert not schema.is_valid({"kind": "first", "height": 2})
