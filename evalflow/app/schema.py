"""The command `schema`: JSON Schemas of the files of each config group, for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml
from rich.console import Console

from evalflow.config.explain import meanings_of
from evalflow.config.key_notes import EXAMPLES, MEANINGS
from evalflow.config.schema import DatasetConfig, RunConfig
from evalflow.llm.registry import EMBEDDER_KINDS, JUDGE_KINDS
from evalflow.metrics.registry import METRIC_KINDS
from evalflow.paths import share_dir, write_atomically
from evalflow.report.wording import literal, print_json
from evalflow.targets.registry import TARGET_KINDS

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import core_schema


Schema = dict[str, Any]
SCHEMA_GROUPS = ("dataset", "metric", "judge", "target", "embedder", "experiment")
_DIALECT = "http://json-schema.org/draft-07/schema#"  # the newest draft that all editors support
_ABOUT = ("description", "default", "examples")
_PARTS = ("dataset", "metric", "judge", "target", "embedder")
# Matches an interpolation or "???", whose value is known only when the configuration is composed.
_LATER: Schema = {"type": "string", "pattern": r"^(\?\?\?|.*\$\{.+\}.*)$"}
_DEFAULTS: Schema = {
    "type": "array",
    "description": "Hydra's defaults list: the files that this one starts from.",
    "examples": [["_openai", "_self_"]],
}


def print_schema(group: str | None, out: Path | None, console: Console) -> int:
    """Print the schema of one group, or of all as one document; or write a file for each."""
    found = {name: group_schema(name) for name in ([group] if group else SCHEMA_GROUPS)}
    if out is None:
        document = found[group] if group else found
        return print_json(console, document)
    out.mkdir(parents=True, exist_ok=True)
    for name, schema in found.items():
        write_atomically(out / f"{name}.json", json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    places = {f"{out.as_posix()}/{name}.json": f"conf/{name}/*.yaml" for name in found}
    console.print(f"{len(found)} schemas in {out}; for the YAML extension of VS Code, in .vscode/settings.json:")
    console.print(literal(json.dumps({"yaml.schemas": places}, indent=2)), soft_wrap=True)
    return 0


def group_schema(group: str) -> Schema:
    """JSON Schema (draft 7) of a file of that group, with the keys' meanings as descriptions.

    No key is required, not even `kind`: a file may inherit them from other files.
    """
    if group == "dataset":
        return _finished(group, _models([DatasetConfig]), [{"$ref": "#/$defs/DatasetConfig"}])
    if group == "experiment":
        definitions = _models([RunConfig])
        definitions["RunConfig"]["properties"] |= {part: {"type": "object"} for part in _PARTS}
        return _finished(group, definitions, [{"$ref": "#/$defs/RunConfig"}])
    registry = {"judge": JUDGE_KINDS, "target": TARGET_KINDS, "embedder": EMBEDDER_KINDS, "metric": METRIC_KINDS}[group]
    kinds: dict[str, type[BaseModel]] = {name: registry.config(name) for name in registry.names()}
    definitions = _models(list(dict.fromkeys(kinds.values())))
    references = {kind: {"$ref": f"#/$defs/{model.__name__}"} for kind, model in kinds.items()}
    rules: list[Schema] = [
        {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": reference}
        for kind, reference in references.items()
    ]
    # A file may inherit its kind; it must then fit some kind.
    known = {"properties": {"kind": {"enum": list(kinds)}}}
    rules.append({"if": {"required": ["kind"]}, "then": known, "else": {"anyOf": list(references.values())}})
    return _finished(group, definitions, rules)


def _models(models: list[type[BaseModel]]) -> dict[str, Schema]:
    """The models' schemas by name, with all that they refer to. In the models themselves no key is required."""
    from pydantic.json_schema import models_json_schema

    _, schema = models_json_schema(
        [(model, "validation") for model in models],
        ref_template="#/$defs/{model}",
        schema_generator=documented_generator(),
    )
    definitions = cast("dict[str, Schema]", schema["$defs"])
    for model in models:
        definitions[model.__name__] = _loosened(definitions[model.__name__])
    return definitions


def documented_generator() -> type[GenerateJsonSchema]:
    """A generator for pydantic that puts the meaning of each key, from the docstrings, beside the key."""
    from pydantic.json_schema import GenerateJsonSchema

    class Documented(GenerateJsonSchema):
        def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
            made = super().model_schema(schema)
            model = cast("type[BaseModel]", schema["cls"])
            if "description" in made:
                made["description"] = made["description"].partition("Attributes:")[0].strip()
            properties = made.get("properties", {})
            for name, meaning in meanings_of(model).items():
                field = model.model_fields.get(name)
                key = (field.alias if field else None) or name
                if key in properties:
                    properties[key]["description"] = meaning
            for key, found in properties.items():
                _explain(found, model.__name__, key, properties.get("kind", {}).get("const"))
            return made

    return Documented


def _explain(key_schema: Schema, model: str, key: str, kind: str | None) -> None:
    """Add the meaning, unless there is one, and an example, unless the values are listed."""
    if "description" not in key_schema and (meaning := MEANINGS.get(f"{model}.{key}", MEANINGS.get(key))):
        key_schema["description"] = meaning
    options = [key_schema, *key_schema.get("anyOf", ())]
    if any(one.get("type") == "boolean" or not {"const", "enum"}.isdisjoint(one) for one in options):
        return
    shipped = _shipped_examples()
    known = (EXAMPLES.get(f"{model}.{key}"), shipped.get((kind, key)), EXAMPLES.get(key), shipped.get((None, key)))
    example = next((one for one in known if one is not None), None)
    if example is not None:
        key_schema["examples"] = [example]
    elif key_schema.get("default") is not None:
        key_schema["examples"] = [key_schema["default"]]


@cache
def _shipped_examples() -> Mapping[tuple[str | None, str], Any]:
    """The first value of each key in the configuration that evalflow comes with: by kind and key, and by key alone."""
    found: dict[tuple[str | None, str], Any] = {}

    def note(value: object, kind: str | None = None) -> None:
        if isinstance(value, dict):
            for key, part in cast("dict[Any, Any]", value).items():
                if part not in (None, "???") and not (isinstance(part, str) and "${" in part):
                    found.setdefault((kind, str(key)), part)
                    found.setdefault((None, str(key)), part)
                note(part)
        elif isinstance(value, list):
            for part in cast("list[Any]", value):
                note(part)

    for group in SCHEMA_GROUPS:
        for file in sorted((share_dir() / "conf" / group).glob("*.yaml")):
            values = yaml.safe_load(file.read_text(encoding="utf-8"))
            note(values, values.get("kind"))
    return found


def _loosened(schema: Schema) -> Schema:
    properties: dict[str, Schema] = {"defaults": _DEFAULTS}
    for name, value in schema["properties"].items():
        about = {key: value[key] for key in _ABOUT if key in value}
        rest = {key: part for key, part in value.items() if key not in (*_ABOUT, "title")}
        properties[name] = {**about, "anyOf": [rest, _LATER]}
    return {**schema, "properties": properties, "required": []}


def _finished(group: str, definitions: Mapping[str, Schema], rules: list[Schema]) -> Schema:
    return {
        "$schema": _DIALECT,
        "title": f"evalflow: a file of conf/{group}/",
        "type": "object",
        "allOf": rules,
        "$defs": dict(definitions),
    }
