"""Applies a JSONPath to a document. Filters, descendants and their products may take any time."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any


def places(path: str, document: str) -> list[dict[str, Any]]:
    """What a path leads to in a JSON text: `at` has the keys that lead there; a `value` is not in the document itself.

    ValueError if the path cannot be applied to this document.
    """
    import jsonpath

    value = json.loads(document)
    try:
        return [_place(match.parts, match.obj, value) for match in _query(path).finditer(value)]
    except (jsonpath.JSONPathError, re.error, OverflowError) as error:  # 1e999 is a number to its grammar
        raise ValueError(str(error)) from None


@cache
def _query(path: str) -> Any:
    from jsonpath import JSONPathEnvironment

    return JSONPathEnvironment().compile(path)


def _place(parts: tuple[Any, ...], node_value: Any, value: Any) -> dict[str, Any]:
    try:
        for part in parts:
            value = value[part]
    except (KeyError, IndexError, TypeError):
        return {"value": node_value}  # such as a key, which python-jsonpath can lead to
    return {"at": parts} if value is node_value else {"value": node_value}
