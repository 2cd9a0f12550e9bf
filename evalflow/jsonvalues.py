"""JSON values: what one is, in words, and what a path finds in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath


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
