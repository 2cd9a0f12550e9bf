"""Typed readers of values in other tools' files. A value of another type is refused with its name and its kind."""

from __future__ import annotations

import json
from collections.abc import Mapping

from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.values.jsonvalues import as_list, as_map, distinct, is_finite, kind, refuse_constant

WRITE_TEXT = "write it as text"


def text_in(declared: Mapping[str, object], *keys: str) -> str:
    """The text of the first key that has a value, such as a name; empty if none has one.

    A number counts as text, since YAML reads `label: 3` so. Untranslatable for a boolean, a list or an object.
    """
    key = next((key for key in keys if declared.get(key) not in (None, "")), None)
    return "" if key is None else text_of(declared[key], key)


def text_of(value: object, what: str) -> str:
    """The text, or the number as text; Untranslatable for anything else. `what` names the value in the reason."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Untranslatable(f"its {what} is {kind(value)}, not text", WRITE_TEXT)
    return str(value)


def texts_of(value: object, what: str) -> list[str]:
    """The texts of a list, or the only one; Untranslatable if any is not text."""
    return [text_of(item, what) for item in (as_list(value) if isinstance(value, list) else [value])]


def texts_in(value: object) -> list[str] | None:
    """The texts of a list; None for anything else."""
    items = as_list(value)
    texts = [item for item in items if isinstance(item, str)]
    return texts if isinstance(value, list) and len(texts) == len(items) else None


def objects_in(value: object) -> list[Mapping[str, object]] | None:
    """The objects of a list; None for anything else."""
    items = as_list(value)
    objects = [as_map(item) for item in items if isinstance(item, Mapping)]
    return objects if isinstance(value, list) and len(objects) == len(items) else None


def plain_text(value: object) -> str | None:
    """The text; None for anything else."""
    return value if isinstance(value, str) else None


def parsed_object(value: object) -> Mapping[str, object] | None:
    """The object, also if it is JSON text; None for anything else."""
    return object_in(parsed(value))


def object_in(value: object) -> Mapping[str, object] | None:
    """The object itself; None for anything else."""
    return as_map(value) if isinstance(value, Mapping) else None


def parsed(value: object) -> object:
    """Parse a text that is a JSON object, list or quoted text; any other value, and one with a key twice, stays."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        content = json.loads(value, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return value
    return content if is_finite(content) else value
