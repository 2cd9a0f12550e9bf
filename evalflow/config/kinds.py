"""The kinds of each configuration group: built in, or entry points of installed packages."""

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
    """A kind: its configuration model and its builder. A class with both attributes serves as well.

    Arguments of `build`, for a judge or an embedder: configuration, name, session; for a target: configuration, name,
    prompts, forms, session; for a simulator: configuration, name, prompts, session; for a metric: name, configuration,
    prompts; for an engine: configuration; for an observer: configuration, observed run.

    `shared_model` names a function, as `module:name`, that returns the model shared by all processes of a machine
    (SharedModel).
    """

    Config: type[C]
    build: Callable[..., T]
    shared_model: str = ""


def lazily(place: str, **options: Any) -> Callable[..., Any]:
    """Return a builder given as `module:name`, which is imported at its first use."""
    return lambda *args, **more: EntryPoint("", place, "").load()(*args, **options, **more)


class Kinds(Door[Kind[C, T]], Generic[C, T]):
    """The door for the kinds of one configuration group.

    The core has the configuration models in `configs`, since the defaults use these kinds. The addon of such a kind is
    loaded only when an object of it is built.
    """

    def __init__(
        self, role: str, own: Mapping[str, Kind[C, T] | str], configs: Mapping[str, type[C]] | None = None
    ) -> None:
        super().__init__(role, own)
        self._configs = configs or {}

    def config(self, kind: str) -> type[C]:
        """Return the model of a kind's configuration; errors as in `get`."""
        return self._configs.get(kind) or self.get(kind).Config
