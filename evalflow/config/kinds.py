"""The kinds of judges, embedders, targets and metrics: built in, or entry points of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from evalflow.doors import Door

C = TypeVar("C", bound=BaseModel)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[C, T]):
    """A kind: the model of its configuration, and what builds one. A class with both attributes serves as well.

    `build` takes, for a judge or an embedder: configuration, name, session; for a target: configuration, name, prompts,
    forms, session; for a metric: name, configuration, prompts. `shared_model` is the function, as `module:name`, that
    gives the model that all processes on a machine can share (SharedModel).
    """

    Config: type[C]
    build: Callable[..., T]
    shared_model: str = ""


def lazily(place: str, **options: Any) -> Callable[..., Any]:
    """What builds a kind, as `module:name`; imported when the first one is built."""
    return lambda *args, **more: EntryPoint("", place, "").load()(*args, **options, **more)


class Kinds(Door[Kind[C, T]], Generic[C, T]):
    """The door for the kinds of one configuration group.

    Of a kind in `configs` the core has the configuration, since its defaults name it, and an addon builds it; it is
    loaded when the first one is built.
    """

    def __init__(
        self, role: str, own: Mapping[str, Kind[C, T] | str], configs: Mapping[str, type[C]] | None = None
    ) -> None:
        super().__init__(role, own)
        self._configs = configs or {}

    def config(self, kind: str) -> type[C]:
        """The model of a kind's configuration; errors as in `get`."""
        return self._configs.get(kind) or self.get(kind).Config
