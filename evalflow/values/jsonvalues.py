"""JSON values: parsing untrusted text, naming kinds of values, and JSONPath."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, Self, TypeGuard, cast

from evalflow.limited import LimitExceeded, Work

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath

JsonObject = Mapping[str, object]
"""An object of a JSON text, whose values are narrowed where they are used."""
PATIENCE_S = 2.0  # time limit in seconds for one path on one document
_PLACES = Work("evalflow.limited.paths:places", imports=("jsonpath",))


DEEPEST = 64
"""Maximum nesting of maps and lists; no real data needs more. Deeper values could be written but not read again."""

_ESCAPE = re.compile(
    rb"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


_HUGE = re.compile(rb"\d(?:[eE]\+?\d{3}|\d{99})")  # matches any text of a number that is too large for a float


def overflows(text: bytes, value: object) -> bool:
    """Whether a number in a JSON text is too large for a float. The value is searched only if the text suggests one."""
    return _HUGE.search(text) is not None and not is_finite(value)


class Unusable(ValueError):
    """JSON that no file can hold; the message says why."""


def parsed(text: bytes) -> object:
    """Parse a JSON reply, or raise ValueError; Unusable if a number is not finite, or it is nested too deeply."""
    from pydantic_core import from_json

    value = from_json(mended(text), allow_inf_nan=False)
    # A text with so few brackets cannot be deep, and counting them is much faster than parsing.
    if text.count(b"{") + text.count(b"[") > DEEPEST and is_too_deep(value):
        raise Unusable(f"more than {DEEPEST} lists and objects within each other")
    if overflows(text, value):
        raise Unusable("a number is too large; numbers end at about 1.8e308")
    return value


class WrittenFloat(float):
    """A number of a JSON text that remembers how it is written, since 250.10 is not the same text as 250.1."""

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made


def refuse_constant(constant: str) -> object:
    """Refuse NaN and Infinity, which Python's decoder of JSON would take."""
    raise ValueError(f"{constant} is not JSON")


class RepeatedKey(ValueError):
    """An object of a JSON text has a key more than once, with different values."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is there more than once, with different values; give it once")


def distinct(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """The object of these pairs, as `json` takes its `object_pairs_hook`; RepeatedKey if two values of a key differ."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next((key for key, value in pairs if made[key] != value), None)
        if twice is not None:
            raise RepeatedKey(twice)
    return made


def as_written(text: bytes) -> object:
    """The value of a JSON text, with each float as it is written; ValueError if it is not JSON."""
    return json.loads(mended(text), parse_float=WrittenFloat, parse_constant=refuse_constant)


def mended(text: bytes) -> bytes:
    """JSON in which each half of a surrogate pair, left by a cut-off model, has become the replacement character."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], text)


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether a JSON value is a list."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value of a case is a list or a tuple."""
    return isinstance(value, list | tuple)


def is_too_deep(value: Any, left: int = DEEPEST) -> bool:
    """Whether maps and lists in a JSON value are nested deeper than `left`."""
    inner = value.values() if is_object(value) else value if is_list(value) else None
    return inner is not None and (left == 0 or any(is_too_deep(item, left - 1) for item in inner))


def is_finite(value: object) -> bool:
    """Whether no float in a JSON value is infinite."""
    if isinstance(value, float):
        return math.isfinite(value)
    return all(map(is_finite, value.values() if is_object(value) else value if is_list(value) else ()))


def kind(value: object) -> str:
    """The kind of a JSON value, in words."""
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


def as_map(value: Any) -> Mapping[str, object]:
    """The object, or an empty one for anything else."""
    return value if is_mapping(value) else {}


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a JSON value is an object, of whatever class."""
    return isinstance(value, Mapping)


def as_list(value: Any) -> list[object]:
    """The list, or an empty one for anything else."""
    return value if is_list(value) else []


def _mistyped(values: Mapping[str, object], key: str, expected: str) -> ValueError:
    return ValueError(f"{key}: expected {expected}, got {kind(values[key]) if key in values else 'nothing'}")


def object_at(values: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The object under a key; ValueError for anything else."""
    value = values.get(key)
    if not is_object(value):
        raise _mistyped(values, key, "an object")
    return value


def objects_at(values: Mapping[str, object], key: str, *, optional: bool = False) -> list[dict[str, object]]:
    """The list of objects under a key; ValueError for anything else. Null or nothing is empty if it is `optional`."""
    value = values.get(key)
    if optional and value is None:
        return []
    items = [item for item in as_list(value) if is_object(item)]
    if not is_list(value) or len(items) < len(value):
        raise _mistyped(values, key, "a list of objects")
    return items


def text_at(values: Mapping[str, object], key: str) -> str:
    """The text under a key; ValueError for anything else."""
    value = values.get(key)
    if not isinstance(value, str):
        raise _mistyped(values, key, "text")
    return value


def texts_at(values: Mapping[str, object], key: str) -> list[str]:
    """The list of texts under a key; ValueError for anything else."""
    listed = as_list(values.get(key))
    texts = [text for text in listed if isinstance(text, str)]
    if not is_list(values.get(key)) or len(texts) < len(listed):
        raise _mistyped(values, key, "a list of texts")
    return texts


def count_at(values: Mapping[str, object], key: str) -> int:
    """The whole number under a key, 0 for null or nothing; ValueError for anything else."""
    value = values.get(key)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mistyped(values, key, "a whole number")
    return value


def number_at(values: Mapping[str, object], key: str) -> float:
    """The number under a key; ValueError for anything else."""
    number = as_number(values.get(key))
    if number is None:
        raise _mistyped(values, key, "a number")
    return number


def as_number(value: object) -> float | None:
    """The number; None for anything else, including true and false, and for a whole number too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def present(**values: object) -> dict[str, object]:
    """The values by name, without those that are None."""
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled JSONPath: `single` if it can match once at most, `plain` if it visits nothing twice."""

    text: str
    single: bool
    plain: bool
    _query: JSONPath | CompoundJSONPath

    def value(self, value: object) -> object:
        """The match if there can be one at most, else the list of all; None without one, but for an empty list."""
        matches = self.matches(value)
        if self.single:
            return matches[0] if matches else None
        return matches or ([] if is_mapping(value) and self._is_of_nothing(value) else None)

    def _is_of_nothing(self, value: Mapping[str, object]) -> bool:
        """Return whether the path leads through empty lists only, as `$.found[*].text` if nothing was found."""
        from jsonpath import JSONPath

        if not isinstance(self._query, JSONPath) or not self.plain:
            return False
        for end in range(len(self._query.segments)):
            start = JSONPath(env=self._query.env, segments=self._query.segments[:end])
            if (lists := start.findall(value)) and all(match == [] for match in lists):
                return True
        return False

    def matches(self, value: Any) -> list[Any]:
        """All matches; ValueError if it cannot be applied to this value, LimitExceeded if that takes too long."""
        # A text would be parsed as JSON, so that a path such as $.a would match inside it.
        if not isinstance(value, Mapping | list):
            return [value] if self.text.strip() == "$" else []
        if self.plain:
            return self._query.findall(cast("Any", value))
        # A record is not entered, as by a plain path.
        document = json.dumps(value, ensure_ascii=False, default=lambda _: None)
        task = {"path": self.text, "document": document}
        try:
            places = _PLACES.call(task, PATIENCE_S, f"the JSONPath {self.text}")
        except LimitExceeded:
            raise
        except ValueError as error:
            raise ValueError(f"{self.text}: {error}") from None
        return [reduce(getitem, one["at"], cast("Any", value)) if "at" in one else one["value"] for one in places]


def json_path(text: str) -> Path:
    """Compile a path such as `$.user.name`; ValueError says why it is not one."""
    import jsonpath
    from jsonpath import segments, selectors

    try:
        query = jsonpath.compile(text)
    except (jsonpath.JSONPathError, re.error, OverflowError) as error:  # of a pattern or of 1e999 in a filter
        raise ValueError(str(error).splitlines()[0]) from None
    if not isinstance(query, jsonpath.JSONPath):
        return Path(text, single=False, plain=False, _query=query)
    plain_types = (selectors.NameSelector, selectors.IndexSelector, selectors.SliceSelector, selectors.WildcardSelector)
    plain = all(
        isinstance(segment, segments.JSONPathChildSegment)
        and len(segment.selectors) == 1
        and isinstance(segment.selectors[0], plain_types)
        for segment in query.segments
    )
    return Path(text, query.singular_query(), plain, query)


def look_up(path: str, fields: Mapping[str, object]) -> object:
    """The field, or the value at a dotted path in it, such as `metadata.category`; None if absent."""
    if "." not in path:
        return fields.get(path)
    here: object = fields
    for part in path.split("."):
        here = as_map(here).get(part)
    return here


def written(value: Any) -> str:
    """Text unchanged; anything else as JSON, so that 3 and "3" read the same, records such as contexts as objects.

    ValueError for an object that JSON cannot express.
    """
    return value if isinstance(value, str) else _ENCODER.encode(value)


def json_text(value: object) -> str:
    """Any value as JSON, in its own order, records as objects; ValueError as in `written`."""
    return json.dumps(value, ensure_ascii=False, default=_object_of)


def _object_of(value: object) -> dict[str, object] | str:
    if isinstance(value, date | time):
        return value.isoformat()
    if not is_dataclass(value) or isinstance(value, type):
        raise ValueError(f"an object of the class {type(value).__qualname__} cannot be written as JSON")
    values: dict[str, object] = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: inner for name, inner in values.items() if inner is not None}


# Creating one takes longer than using it.
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=_object_of)
