"""Convert Python values (of NumPy, pandas, dataclasses, pydantic and the like) to JSON values.

A value is converted if its meaning is unambiguous, and refused otherwise. Nothing is converted by `str` or `repr`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import os
import re
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from evalflow.lazy import np
from evalflow.limited.parquet import column_as_printed
from evalflow.values.jsonvalues import DEEPEST, is_list, is_mapping, is_object

_PLAIN = (str, bool, int, type(None))
_MISSING = ("NAType", "NaTType")
"""Names of the types of missing values of pandas, which cannot be compared with others."""
SINGLE = re.compile(r"\bfloat(32|16)\b", re.IGNORECASE)
"""Matches types of numbers with at most 7 digits, whose further digits as Python's floats nobody wrote."""
_FINEST = re.compile(r"(datetime64|timedelta64)\[(?:ns|ps|fs|as)\]")
"""Types of NumPy's times that become whole numbers in Python."""


class NotPlain(ValueError):
    """A value without a JSON equivalent; the message begins with its path."""

    def __init__(self, what: str, place: str = "") -> None:
        self.what = what
        self.place = place
        super().__init__(f"{place}: {what}" if place else what)

    def within(self, key: str | int) -> NotPlain:
        """Return the error with its path extended by one outer level."""
        here = f"[{key}]" if isinstance(key, int) else key
        between = "." if self.place and not self.place.startswith("[") else ""
        return NotPlain(self.what, f"{here}{between}{self.place}")


def plain(value: object) -> object:
    """The value in the types of JSON, decimals apart, which keep their digits; NotPlain if its meaning is not plain.

    Numbers of single precision are those with the fewest digits, as they are printed.
    Arrays, tuples and sets are lists, sets in sorted order. NaN, NaT, NA and masked values are None. Dates and times
    are text in ISO 8601, durations seconds. Objects of dataclasses, pydantic and attrs are dictionaries of their
    fields, and documents with `page_content` are {page_content, metadata}. Enumerations are their values.
    """
    return _plain(value, DEEPEST)


def as_printed(value: Any, kind: str) -> Any:
    """A number, or lists of numbers, with the fewest digits that tell it from others of its type (`kind`)."""
    if is_list(value):
        return [as_printed(one, kind) for one in value]
    single = SINGLE.search(kind)
    return float(str(np.dtype(single[0].lower()).type(value))) if single and isinstance(value, float) else value


def json_text(value: object) -> str:
    """A plain value as JSON in ASCII, with decimals as numbers with all their digits."""
    mark = uuid.uuid4().hex

    def marked(number: object) -> str:
        return f"{mark}{number}{mark}"

    text = json.dumps(value, default=marked)
    return re.sub(f'"{mark}([^"]+){mark}"', r"\1", text) if mark in text else text


def _plain(value: object, left: int) -> object:
    if type(value) in _PLAIN:
        return value
    if not left:
        raise NotPlain(f"more than {DEEPEST} lists and dictionaries within each other")
    if is_object(value):
        return _fields(value, left)
    if type(value) in (list, tuple):
        return _items(cast("Sequence[object]", value), left)
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, Enum):
        return _plain(value.value, left - 1)
    for convert in (_scalar, _array, _record, _collection):
        converted = convert(value, left)
        if converted is not _NOTHING:
            return converted
    if isinstance(value, Iterator):
        raise NotPlain("expected a list, got an iterator, which can be read only once; write list(...)")
    raise NotPlain(f"expected text, a number, a list or a dictionary, got {_name(value)}")


_NOTHING = object()


def _scalar(value: object, left: int) -> object:  # noqa: ARG001 - as the others
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float() | Decimal():
            return _number(value)
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case uuid.UUID():
            return str(value)
        case os.PathLike():
            return _plain(os.fspath(cast("os.PathLike[str]", value)), DEEPEST)
        case bytes() | bytearray() | memoryview():
            raise NotPlain("expected text, got bytes; decode them, or leave them out")
        case _:
            return _NOTHING


def _number(value: float | Decimal) -> float | Decimal | None:
    if math.isnan(value):
        return None
    if not math.isfinite(float(value)):
        raise NotPlain(f"{float(value)} is not a number that a file can hold; write None if there is no number")
    return value if isinstance(value, Decimal) else float(value)


def _array(value: Any, left: int) -> object:
    """The list of an array, or the number of NumPy, of pandas, Polars, PyTorch and others."""
    as_list = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    if not callable(as_list) or isinstance(value, type):
        return _NOTHING
    if type(value).__module__.startswith("polars."):
        return _plain(column_as_printed(value).to_list(), left - 1)
    kind = str(getattr(value, "dtype", ""))
    if finest := _FINEST.fullmatch(kind):
        as_list = value.astype(f"{finest[1]}[us]").tolist
    listed = as_list()
    return _plain(as_printed(listed, kind) if SINGLE.search(kind) else listed, left - 1)


def _record(value: Any, left: int) -> object:
    if isinstance(value, type):
        return _NOTHING
    if hasattr(value, "page_content"):
        attributes = {name: getattr(value, name, None) for name in ("page_content", "metadata")}
        return _fields({name: one for name, one in attributes.items() if one is not None}, left)
    if dataclasses.is_dataclass(value):
        return _fields({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, left)
    if hasattr(cast("object", type(value)), "model_fields") and hasattr(value, "model_dump"):
        return _fields(value.model_dump(), left)
    if hasattr(value, "__attrs_attrs__"):
        return _fields({one.name: getattr(value, one.name) for one in value.__attrs_attrs__}, left)
    as_dict = getattr(value, "_asdict", None)
    if isinstance(value, tuple) and callable(as_dict):
        return _fields(cast("dict[str, object]", as_dict()), left)
    return _NOTHING


def _collection(value: object, left: int) -> object:
    if is_mapping(value):
        return _fields(value, left)
    if isinstance(value, Set) and not isinstance(value, MappingView):
        return sorted(_items(list(cast("Set[object]", value)), left), key=json_text)
    if isinstance(value, Sequence | MappingView | deque):
        return _items(list(cast("Sequence[object]", value)), left)
    return _NOTHING


def _items(values: Sequence[object], left: int) -> list[object]:
    items: list[object] = []
    for place, one in enumerate(values):
        try:
            items.append(_plain(one, left - 1))
        except NotPlain as error:
            raise error.within(place) from None
    return items


def _fields(values: Mapping[Any, object], left: int) -> dict[str, object]:
    fields: dict[str, object] = {}
    for given, one in values.items():
        key = _plain(given, left - 1)
        if not isinstance(key, str | int | float):
            raise NotPlain(f"a key is {_name(given)}, and text is expected")
        name = key if isinstance(key, str) else json.dumps(key)
        if name in fields:
            raise NotPlain(f"two keys are {name!r} as text; rename one of them")
        try:
            fields[name] = _plain(one, left - 1)
        except NotPlain as error:
            raise error.within(name) from None
    return fields


def _name(value: object) -> str:
    kind = type(value)
    name = kind.__qualname__.rpartition("<locals>.")[2]
    return (
        f"an object of the class {name}"
        if kind.__module__ in ("builtins", "__main__")
        else (f"an object of the class {kind.__module__}.{name}")
    )
