"""Values that do not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """A dataclass that only the type checker treats as frozen.

    Enforcing this at run time would make records five to ten times as slow to build, and many are built for each score.
    """
    return dataclass(slots=True, unsafe_hash=True, kw_only=kw_only)
