"""Scripts: what is done with each request."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from evalflow.testing.request import Request
from evalflow.testing.steps import Step, as_step

Script = Callable[[Request], Any]


class ScriptError(AssertionError):
    """The script of a test is wrong: it raised, or was asked more than it has replies for."""


def as_script(value: Script | Iterable[Any] | None) -> Script:
    """A callable from what an endpoint takes as its script.

    Raises:
        TypeError: It is text or a mapping, which would be one reply and not a script.
    """
    if value is None:
        return lambda _: None
    if callable(value):
        return value
    if isinstance(value, str | Mapping | Step):
        raise TypeError("a script is a callable or a list of replies; put a single reply into a list")
    return _Queue(iter(value))


def by_schema(scripts: Mapping[str, Any], otherwise: Script | None = None) -> Script:
    """A script that depends on which schema a request wants, such as one script for each step of a metric.

    Args:
        scripts: For a schema's name: a callable, a list that is used up in order, or one reply that is always given.
        otherwise: For other requests; None answers them with `auto()`.
    """
    known = {name: _always_or_script(value) for name, value in scripts.items()}
    rest = as_script(otherwise)
    return lambda request: known.get(request.schema_name or "", rest)(request)


async def perform(script: Script, request: Request) -> Step:
    """What a script does with a request."""
    value: Any = script(request)
    while callable(value) or inspect.isawaitable(value):
        value = await value if inspect.isawaitable(value) else value(request)
    return as_step(value)


class _Queue:
    """Replies in order. Asked from one thread, but locked since a queue may serve several endpoints."""

    def __init__(self, replies: Iterator[Any]) -> None:
        self._replies = replies
        self._lock = threading.Lock()
        self._given = 0

    def __call__(self, request: Request) -> Any:
        with self._lock:
            try:
                value = next(self._replies)
            except StopIteration:
                raise ScriptError(f"no reply left for request {request.number}, after {self._given}") from None
            self._given += 1
            return value


def _always_or_script(value: Any) -> Script:
    return as_script(cast("Any", value)) if callable(value) or isinstance(value, list) else lambda _: value
