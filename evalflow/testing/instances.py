"""The smallest instance of a JSON schema; the same schema always gives the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Instances:
    """Makes instances.

    Args:
        length: How many items a list gets that sets no `minItems` above it; one number, or one by property name.
        values: What a property is, by its name, wherever it occurs.
    """

    length: int | Mapping[str, int] = 1
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def make(self, schema: Schema) -> Any:
        """An instance of a schema; ValueError for a type that JSON does not know, or a reference that leads nowhere."""
        return self._make(schema, schema, "")

    def _make(self, schema: Schema, root: Schema, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if "$ref" in schema:
            return self._make(_referred(schema["$ref"], root), root, name)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self._make(schema[choice][0], root, name)
        if "allOf" in schema:
            return self._make(_merged(schema["allOf"], root), root, name)
        return self._of_type(schema, root, name)

    def _of_type(self, schema: Schema, root: Schema, name: str) -> Any:
        kinds: str | list[str] = schema.get("type", "object" if "properties" in schema else "string")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        match kind:
            case "object":
                return {key: self._make(part, root, key) for key, part in schema.get("properties", {}).items()}
            case "array":
                item = schema.get("items", {"type": "string"})
                return [self._make(item, root, "") for _ in range(self._length(schema, name))]
            case "string":
                return (name or "text").ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
            case "integer" | "number":
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                raise ValueError(f"no JSON type is called {kind!r}")

    def _length(self, schema: Schema, name: str) -> int:
        wanted = self.length if isinstance(self.length, int) else self.length.get(name, 1)
        return min(max(wanted, schema.get("minItems", 0)), schema.get("maxItems", wanted))


def _number(schema: Schema, *, whole: bool) -> int | float:
    """The least number allowed; the greatest where only an upper bound is set below zero; else zero."""
    step = 1 if whole else 0.5
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + step
    upper = min(schema.get("maximum", 0), schema.get("exclusiveMaximum", step) - step)
    return min(upper, 0)


def _referred(pointer: str, root: Schema) -> Schema:
    found: Any = root
    for step in pointer.removeprefix("#/").split("/"):
        if step not in found:
            raise ValueError(f"the schema refers to {pointer}, which it does not hold")
        found = found[step]
    return found


def _merged(parts: list[Schema], root: Schema) -> Schema:
    merged: dict[str, Any] = {}
    for part in parts:
        whole = _referred(part["$ref"], root) if "$ref" in part else part
        properties = {**merged.get("properties", {}), **whole.get("properties", {})}
        merged |= {**whole, "properties": properties} if properties else dict(whole)
    return merged
