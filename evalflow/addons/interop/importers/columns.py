"""Objects of other tools' files that track which keys were read, so that every unread key is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from math import isfinite
from typing import TypeVar

from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.readers import objects_in, parsed, text_of, texts_in
from evalflow.values import cells
from evalflow.values.jsonvalues import as_list, as_map

Value = TypeVar("Value")
_UNKNOWN = "evalflow has no field for it"


class Columns:
    """The keys of one object.

    `rest` keeps the unread ones; `close` lists those that `rest` did not keep. `get` reads a value with everything in
    it; `child` and `children` return objects whose keys are tracked, too. Null, "" and NaN count as missing, so losing
    them does not matter.

    Attributes:
        where: Its place in the file.
        path: The key path from the row to it, ending in a dot; empty for the row itself.
    """

    __slots__ = ("_data", "_inner", "_left", "_read", "path", "where")

    def __init__(self, data: Mapping[str, object], where: str, path: str = "") -> None:
        self.where = where
        self.path = path
        self._data = data
        self._read: set[str] = set()
        self._inner: dict[str, list[Columns]] = {}
        self._left: dict[str, tuple[str, str]] = {}

    @property
    def names(self) -> list[str]:
        """The keys with a value, read or not."""
        return [name for name, value in self._data.items() if not is_missing(value)]

    def __contains__(self, name: str) -> bool:
        return not is_missing(self._data.get(name))

    @property
    def declared(self) -> list[str]:
        """All keys, including those without a value."""
        return list(self._data)

    def declares(self, name: str) -> bool:
        """Whether the key exists, with or without a value."""
        return name in self._data

    def has(self, name: str) -> bool:
        """Whether the key, or one that begins with it and a dot, has a value."""
        return name in self or any(item.startswith(f"{name}.") for item in self.names)

    def peek(self, *names: str) -> object:
        """The value of the first of the keys that has one, without marking it as read; None if none has."""
        return next((self._data[name] for name in names if name in self), None)

    def get(self, *names: str) -> object:
        """Read the first of the keys that has a value; None if none has. The other keys stay unread."""
        for name in names:
            if name in self:
                self._read.add(name)
                return self._data[name]
        return None

    def text(self, *names: str) -> str:
        """Read the first of the keys that has a value as text (numbers too); "" if none has.

        Untranslatable for a boolean, a list or an object.
        """
        name = next((name for name in names if name in self), None)
        return "" if name is None else text_of(self.get(name), name)

    def recorded_answer(self, *names: str) -> object:
        """As `get`, for a recorded answer: "" is accepted if no key has another value."""
        answer = self.get(*names)
        return "" if answer is None and any(self._data.get(name) == "" for name in names) else answer

    def take(self, convert: Callable[[object], Value | None], *names: str) -> Value | None:
        """Read the first of the keys that has a value, converted. If that gives None, the key stays unread."""
        name = next((name for name in names if name in self), None)
        value = None if name is None else convert(self._data[name])
        if name is not None and value is not None:
            self._read.add(name)
        return value

    def case_id(self, *names: str) -> str | int | None:
        """As `take`, for an id: text or a whole number."""
        return self.take(_id, *names)

    def tags(self, name: str) -> list[str] | None:
        """As `take`, for tags: a list of texts, or its JSON text. Blank ones are listed; None if no other is left."""
        tags = self.take(lambda value: texts_in(parsed(value)) or None, name) or []
        known = [tag for tag in tags if tag.strip(" >")]
        if len(known) < len(tags):
            self._left[name] = ("a tag is blank", "")
        return known or None

    def number(self, name: str) -> float | None:
        """Like `take`, for a number of at least 0, or a text that is such a number."""
        return self.take(number_of, name)

    def milliseconds(self, name: str) -> float | None:
        """As `number`, for milliseconds, in seconds."""
        number = self.number(name)
        return None if number is None else number / 1000

    def spread(self, starts: tuple[str, ...]) -> dict[str, object]:
        """Read the keys with one of these prefixes: their values by the rest of the key; JSON texts are parsed."""
        values: dict[str, object] = {}
        for name in self.names:
            start = next((item for item in starts if name.startswith(item)), None)
            if start is not None and name not in self._read:
                values[name.removeprefix(start)] = parsed(self.get(name))
        return values

    def child(self, name: str) -> Columns:
        """The object of a key, also if it is JSON text. For anything else it is empty, and the key stays unread."""
        if name not in self._inner:
            value = parsed(self.peek(name))
            is_object = isinstance(value, Mapping)
            self._inner[name] = [self._wrapped(as_map(value), name)] if is_object else []
            self._read |= {name} if is_object else set()
        inner = self._inner[name]
        return inner[0] if inner else Columns({}, self.where, f"{self.path}{name}.")

    def children(self, name: str) -> list[Columns]:
        """The objects in a key's list or JSON text; if not all are objects, empty, and the key stays unread."""
        if name not in self._inner:
            items = objects_in(parsed(self.peek(name))) or []
            self._inner[name] = [self._wrapped(item, f"{name}[{number}]") for number, item in enumerate(items)]
            self._read |= {name} if self._inner[name] else set()
        return self._inner[name]

    def leave(self, reason: str, *names: str, hint: str = "") -> None:
        """List useless keys in the ledger, unless they were read."""
        for name in names:
            if name in self and name not in self._read and self._data[name] not in ([], {}):
                self._left[name] = (reason, hint)

    def rest(self) -> dict[str, object]:
        """Everything neither read nor left; it counts as read from now on. Lists keep the order of their items."""
        unread: dict[str, object] = {}
        for name in self.names:
            if name in self._left:
                continue
            inner = self._inner.get(name)
            if name not in self._read:
                unread[name] = self._data[name]
            elif inner:
                parts = [item.rest() for item in inner]
                if any(parts):
                    unread[name] = parts if isinstance(parsed(self._data[name]), list) else parts[0]
            self._read.add(name)
        return unread

    def close(self, ledger: Ledger) -> None:
        """Count the columns of a row that was taken, and list those that nobody read."""
        for name in self.names:
            place = f"{self.path}{name}"
            if name in self._left:
                ledger.leave_column(place, self.where, *self._left[name])
            elif name not in self._read and self._data[name] not in ([], {}):
                ledger.leave_column(place, self.where, _UNKNOWN)
            elif name in self._read:
                if not self.path:
                    ledger.take_column(place)
                for inner in self._inner.get(name, ()):
                    inner.close(ledger)

    def _wrapped(self, value: Mapping[str, object], name: str) -> Columns:
        return Columns(value, self.where, f"{self.path}{name}.")


def joined(*parts: Mapping[str, object]) -> dict[str, object]:
    """Merge objects: a key that an earlier object has with another value gets a number, such as `source_2`."""
    whole: dict[str, object] = {}
    for part in parts:
        for name, value in part.items():
            names = (name if number == 1 else f"{name}_{number}" for number in count(1))
            whole[next(item for item in names if whole.get(item, value) == value)] = value
    return whole


def leaves(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """The numbers, texts and booleans in a value, each with the last key that leads to it."""
    if isinstance(value, Mapping):
        for name, inner in as_map(value).items():
            yield from leaves(inner, name)
    elif isinstance(value, list):
        for inner in as_list(value):
            yield from leaves(inner, key)
    elif not is_missing(value):
        yield key, value


def finite(value: object, ledger: Ledger, where: str) -> object:
    """The value with null for NaN (missing) and for infinite numbers (listed)."""
    if isinstance(value, float) and not isfinite(value):
        if value == value:
            ledger.leave("values", f"the number {value}", where, "JSON cannot store it: data/ has null instead")
        return None
    if isinstance(value, Mapping):
        return {key: finite(part, ledger, where) for key, part in as_map(value).items()}
    return [finite(item, ledger, where) for item in as_list(value)] if isinstance(value, list) else value


def _id(value: object) -> str | int | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def number_of(value: object) -> float | None:
    """A number of at least 0, such as seconds or dollars, also if a cell has it as text."""
    number = cells.number_of(value)
    return float(number) if number is not None and number >= 0 else None


def is_missing(value: object) -> bool:
    """Whether a value counts as missing: null, "" or NaN."""
    return value is None or value == "" or (isinstance(value, float) and value != value)
