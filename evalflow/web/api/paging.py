"""Long lists a page at a time: a cursor says behind what the next one begins, and holds while others come and go."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar, cast

from fastapi import Query
from pydantic import BaseModel, Field

from evalflow.errors import Problem, UserError

T = TypeVar("T")
Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before; none for the first.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]


class Page(BaseModel, Generic[T]):
    """Some of a list, in its order."""

    items: Sequence[T]
    next: str | None = Field(default=None, description="The cursor of those that follow; null at the end.")


def page_of(items: Sequence[T], key: Callable[[T], Sequence[Any]], cursor: str | None, limit: int) -> Page[T]:
    """A page of a list that is short enough to be there as a whole.

    Args:
        items: Sorted by their key.
        key: Unique; of text, numbers and booleans.
        cursor: Of the page before.
        limit: How many at most.

    Raises:
        UserError: The cursor is none.
    """
    behind = None if cursor is None else _read(cursor)
    try:
        rest = [item for item in items if behind is None or list(key(item)) > behind]
    except TypeError:
        raise _no_cursor() from None
    more = _write(key(rest[limit - 1])) if len(rest) > limit else None
    return Page[T](items=rest[:limit], next=more)


def _write(key: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode().rstrip("=")


def _read(cursor: str) -> list[Any]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        found = json.loads(base64.b64decode(padded.encode(), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise _no_cursor() from None
    if not isinstance(found, list):
        raise _no_cursor()
    return cast("list[Any]", found)


def _no_cursor() -> UserError:
    return UserError(Problem("this is no cursor of this list", "?cursor", "take `next` of the page before"))
