"""Texts as the JSON that they spell out, and the other way."""

from __future__ import annotations

import json
from typing import Any

from evalflow.jsonvalues import Unusable, is_finite, mended


class NoJson(ValueError):
    """A text is no JSON; the message says why."""


def json_of(value: Any) -> Any:
    """A text as the JSON that it spells out; anything else as it is.

    Raises:
        NoJson: The text spells out none.
        ValueError, RecursionError: It does, and Python cannot hold it: a number of thousands of digits, say.
    """
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(mended(value.encode("utf-8", "replace")), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise NoJson(f"no JSON: {error}") from None
    if not is_finite(found):
        raise Unusable("a number in it is too large to be compared; numbers end at about 1.8e308")
    return found


def _no_constant(name: str) -> None:
    raise NoJson(f"no JSON: it has no {name}")


def written(value: Any) -> str:
    """Text as it is; anything else as JSON, so that 3 and "3" read the same."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
