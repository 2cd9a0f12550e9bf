"""JSON Schemas of the files of each config group, by which editors complete, check and explain them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evalflow.app.core.assemble import KINDS
from evalflow.config.explain import meanings_of
from evalflow.config.key_notes import EXAMPLES, MEANINGS
from evalflow.config.schema import FIELDS, DatasetConfig, RunConfig
from evalflow.config.yaml_text import SCHEMA_MARK, safe_yaml
from evalflow.metrics.kinds.retrieval import measure_names
from evalflow.paths import GROUPS, OWN_FOLDER, private_folder, share_dir, write_atomically
from evalflow.summary.gate_config import gate_keys
from evalflow.values.jsonvalues import is_list, is_object

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import core_schema


Schema = dict[str, Any]
SCHEMAS = Path(OWN_FOLDER) / "schema"
"""The folder for the schemas of files that evalflow writes."""
_DIALECT = "http://json-schema.org/draft-07/schema#"  # the newest draft that all editors support
_ABOUT = ("description", "default", "examples")
_PARTS = (*GROUPS[:-1], "observers")
# Matches an interpolation or "???", whose value is known only when the configuration is composed.
_LATER: Schema = {"type": "string", "pattern": r"^(\?\?\?|.*\$\{.+\}.*)$"}
_FIGURE = r"^((precision|recall|hit|ndcg)@\d+|(precision|recall|f1|f2)\[.+\])$"
"""Figures of a rank, and of a single class."""
_DEFAULTS: Schema = {
    "type": "array",
    "description": "Hydra's defaults list: the files that this one starts from.",
    "examples": [["_openai", "_self_"]],
}


def group_schema(group: str) -> Schema:
    """JSON Schema (draft 7) of a file of that group, with the keys' meanings as descriptions.

    No key is required, not even `kind`: a file may inherit them from other files.
    """
    if group == "dataset":
        return _finished(group, _models([DatasetConfig]), [{"$ref": "#/$defs/DatasetConfig"}])
    if group == "experiment":
        definitions = _models([RunConfig])
        keys = definitions["RunConfig"]["properties"]
        about = {part: {key: keys[part][key] for key in _ABOUT if key in keys[part]} for part in _PARTS}
        keys |= {part: {"type": "object", **about[part]} for part in _PARTS}
        return _finished(group, definitions, [{"$ref": "#/$defs/RunConfig"}])
    kinds: Mapping[str, type[BaseModel]] = {name: KINDS[group].config(name) for name in KINDS[group].names()}
    definitions, names = _named_models(list(dict.fromkeys(kinds.values())))
    references = {kind: {"$ref": f"#/$defs/{names[model]}"} for kind, model in kinds.items()}
    rules: list[Schema] = [
        {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": reference}
        for kind, reference in references.items()
    ]
    # A file may inherit its kind; it must then fit some kind.
    known = {"properties": {"kind": {"enum": list(kinds)}}}
    rules.append({"if": {"required": ["kind"]}, "then": known, "else": {"anyOf": list(references.values())}})
    return _finished(group, definitions, rules)


def _models(models: list[type[BaseModel]]) -> dict[str, Schema]:
    """Return the models' schemas by name, with all referenced ones. In the models themselves no key is required."""
    return _named_models(models)[0]


def _named_models(models: list[type[BaseModel]]) -> tuple[dict[str, Schema], dict[type[BaseModel], str]]:
    """As `_models`, with the name of each model: two packages may have models of the same name."""
    from pydantic.json_schema import models_json_schema

    references, schema = models_json_schema(
        [(model, "validation") for model in models],
        ref_template="#/$defs/{model}",
        schema_generator=documented_generator(),
    )
    definitions = cast("dict[str, Schema]", schema["$defs"])
    names = {model: str(references[model, "validation"]["$ref"]).removeprefix("#/$defs/") for model in models}
    for name in names.values():
        definitions[name] = _loosened(definitions[name])
    return definitions, names


def documented_generator() -> type[GenerateJsonSchema]:
    """A generator for pydantic that puts the meaning of each key, from the docstrings, beside the key."""
    from pydantic.json_schema import GenerateJsonSchema

    class Documented(GenerateJsonSchema):
        def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
            made = super().model_schema(schema)
            model = cast("type[BaseModel]", schema["cls"])
            if "description" in made:
                about = made["description"].partition("Attributes:")[0]
                made["description"] = about.partition("Example:")[0].strip()
            properties = made.get("properties", {})
            for name, meaning in meanings_of(model).items():
                field = model.model_fields.get(name)
                key = (field.alias if field else None) or name
                if key in properties:
                    properties[key]["description"] = meaning
            for key, subschema in properties.items():
                if name_checks := _checked_names().get(key):
                    name_checks(subschema)
                _explain(subschema, model.__name__, key, properties.get("kind", {}).get("const"))
            return made

    return Documented


def _explain(key_schema: Schema, model: str, key: str, kind: str | None) -> None:
    """Add the meaning, unless there is one, and an example, unless the values are listed."""
    if "description" not in key_schema and (meaning := MEANINGS.get(f"{model}.{key}", MEANINGS.get(key))):
        key_schema["description"] = meaning
    options = [key_schema, *key_schema.get("anyOf", ())]
    if key_schema.get("type") == "null" or any(
        one.get("type") == "boolean" or not {"const", "enum"}.isdisjoint(one) for one in options
    ):
        return
    shipped = _shipped_examples()
    known = (EXAMPLES.get(f"{model}.{key}"), shipped.get((kind, key)), EXAMPLES.get(key), shipped.get((None, key)))
    example = next((one for one in known if one is not None), None)
    if example is not None:
        key_schema["examples"] = [example]
    elif key_schema.get("default") is not None:
        key_schema["examples"] = [key_schema["default"]]


@cache
def _checked_names() -> Mapping[str, Callable[[Schema], None]]:
    """By key, what lets editors complete and check the names in it."""
    statistic: Schema = {"anyOf": [{"enum": [*gate_keys(), *measure_names(())]}, {"pattern": _FIGURE}]}
    field: Schema = {"type": "string", "anyOf": [{"enum": list(FIELDS)}, {"pattern": rf"^({'|'.join(FIELDS)})\..+$"}]}

    def of_gate(schema: Schema) -> None:
        conditions = schema["anyOf"][0]
        while is_object(inner := conditions["additionalProperties"]) and inner.get("type") == "object":
            conditions = inner  # a run's gates are by metric first
        conditions["propertyNames"] = statistic

    return {"gate": of_gate, "needs": lambda schema: schema.update(items=field)}


@cache
def _shipped_examples() -> Mapping[tuple[str | None, str], Any]:
    """The first value of each key in the configuration that evalflow comes with: by kind and key, and by key alone."""
    examples: dict[tuple[str | None, str], Any] = {}

    def note(value: object, kind: str | None = None) -> None:
        if is_object(value):
            for key, part in value.items():
                if part not in (None, "???") and not (isinstance(part, str) and "${" in part):
                    examples.setdefault((kind, str(key)), part)
                    examples.setdefault((None, str(key)), part)
                note(part)
        elif is_list(value):
            for part in value:
                note(part)

    for group in GROUPS:
        for file in sorted((share_dir() / "conf" / group).glob("*.yaml")):
            values = safe_yaml(file.read_text(encoding="utf-8"))
            note(values, values.get("kind"))
    return examples


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


def write_schemas(folder: Path) -> None:
    """Write GROUP.json for each group."""
    private_folder(folder)
    for group in GROUPS:
        write_atomically(folder / f"{group}.json", schema_text(group))


@cache
def schema_text(group: str) -> str:
    """The schema of a group as a file."""
    return json.dumps(group_schema(group), indent=2, ensure_ascii=False) + "\n"


def add_schema_lines(folder: Path) -> None:
    """Write the schemas into a folder, and add the comment naming their schema to the files of its conf/."""
    for file in (folder / "conf").rglob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        write_atomically(file, with_schema_line(file.relative_to(folder), text))
    write_schemas(folder / SCHEMAS)


def with_schema_line(path: Path, text: str) -> str:
    """Add to a file of conf/ the comment that names its schema in `SCHEMAS`; return other files unchanged."""
    if path.suffix != ".yaml" or path.parts[:1] != ("conf",) or path.parent.name not in GROUPS:
        return text
    up = "../" * (len(path.parts) - 1)
    line = f"# {SCHEMA_MARK} $schema={up}{SCHEMAS.as_posix()}/{path.parent.name}.json\n"
    package, rest = text.split("\n", 1) if text.startswith("# @package") else ("", text)
    return f"{package}\n{line}{rest}" if package else f"{line}{rest}"
