"""JSON values: from text of others, what one is in words, and what a path finds in it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath


DEEPEST = 64
"""Maps and lists within each other; nobody writes as many. What is deeper could be written, and not be read again."""

_ESCAPE = re.compile(
    rb"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


class Unusable(ValueError):
    """It is JSON, and no file could hold it; the message says why."""


def parsed(text: bytes) -> Any:
    """The value that a reply in JSON spells out, such as every file of a run can hold.

    Raises:
        Unusable: A number in it is not finite, or it is nested too deeply.
        ValueError: It is no JSON.
    """
    from pydantic_core import from_json

    value = from_json(mended(text), allow_inf_nan=False)
    if is_too_deep(value):
        raise Unusable(f"more than {DEEPEST} lists and objects within each other")
    if not is_finite(value):
        raise Unusable("a number is too large; numbers end at about 1.8e308")
    return value


def mended(text: bytes) -> bytes:
    """JSON in which half of a surrogate pair, which is no character, has become the replacement character.

    A model that is cut off in the middle of an emoji leaves one. No file can hold it, and most parsers refuse it.
    """
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], text)


def is_too_deep(value: Any, left: int = DEEPEST) -> bool:
    """Whether a value of JSON has more than so many maps and lists within each other."""
    if not isinstance(value, dict | list):
        return False
    inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return left == 0 or any(is_too_deep(one, left - 1) for one in inner)


def is_finite(value: Any) -> bool:
    """Whether no float in a value of JSON is infinite."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(is_finite, cast("dict[str, Any]", value).values()))
    return not isinstance(value, list) or all(map(is_finite, cast("list[Any]", value)))


def kind(value: object) -> str:
    """What a JSON value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return f"a boolean ({str(value).lower()})"
        case int() | float():
            return f"a number ({value})"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"


@dataclass(frozen=True, slots=True)
class Path:
    """A JSONPath that is ready to look for values.

    Attributes:
        text: As it was written.
        single: Whether it can match once at most.
    """

    text: str
    single: bool
    _query: JSONPath | CompoundJSONPath

    def matches(self, value: Any) -> list[Any]:
        """All that it finds.

        Raises:
            ValueError: It cannot be applied to this value.
        """
        import jsonpath

        if not isinstance(value, Mapping | list):
            return [value] if self.text == "$" else []
        try:
            return self._query.findall(value)  # pyright: ignore[reportUnknownArgumentType]
        except jsonpath.JSONPathError as error:
            raise ValueError(f"{self.text}: {error}") from None


def json_path(text: str) -> Path:
    """A path from its text, such as `$.user.name`.

    Raises:
        ValueError: It is none; the message says why.
    """
    import jsonpath

    try:
        query = jsonpath.compile(text)
    except jsonpath.JSONPathError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    return Path(text, isinstance(query, jsonpath.JSONPath) and query.singular_query(), query)
