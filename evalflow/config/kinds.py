"""The kinds of judges, embedders, targets and metrics: built in, or entry points of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel

from evalflow.errors import Problem, UserError, did_you_mean

C = TypeVar("C", bound=BaseModel)
T = TypeVar("T")


@cache
def installed_points() -> EntryPoints:
    """The entry points of all installed packages; cached, since there can be hundreds of files to read."""
    return cast("EntryPoints", entry_points())  # Python 3.11 returns another type with the same `select`


@dataclass(frozen=True, slots=True)
class Kind(Generic[C, T]):
    """A kind: the model of its configuration, and what builds one. A class with both attributes serves as well.

    `build` takes, for a judge or an embedder: configuration, name, session; for a target: configuration, name, prompts,
    forms, session; for a metric: name, configuration, prompts.
    """

    Config: type[C]
    build: Callable[..., T]


def lazily(place: str, **options: Any) -> Callable[..., Any]:
    """What builds a kind, as `module:name`; imported when the first one is built."""
    return lambda *args, **more: EntryPoint("", place, "").load()(*args, **options, **more)


class Kinds(Generic[C, T]):
    """The kinds of one configuration group: evalflow's own by name, and those of packages by their entry points."""

    def __init__(self, role: str, builtin: Mapping[str, Kind[C, T] | str]) -> None:
        self._role = role
        self._builtin = builtin

    def names(self) -> list[str]:
        """All kinds; UserError if two packages, or a package and evalflow, define the same one."""
        return sorted({*self._builtin, *self._plugins()})

    def ships(self, kind: str) -> bool:
        """Whether a kind is evalflow's own."""
        return kind in self._builtin

    def config(self, kind: str) -> type[C]:
        """The model of a kind's configuration; errors as in `get`."""
        return self.get(kind).Config

    def get(self, kind: str) -> Kind[C, T]:
        """Load a kind; UserError if there is none, two packages define it, or its package cannot be imported."""
        plugins, builtin = self._plugins(), self._builtin.get(kind)
        if isinstance(builtin, str):
            return EntryPoint(kind, builtin, "").load()
        if builtin is not None:
            return builtin
        where = f"{self._role}.kind"
        if kind not in plugins:
            hint = did_you_mean(kind, {*self._builtin, *plugins})
            raise UserError(Problem(f"there is no {self._role} kind {kind!r}", where, hint))
        try:
            return plugins[kind].load()
        except Exception as error:
            what = f"the {self._role} kind {kind!r} cannot be loaded from {_package(plugins[kind])}: {error}"
            raise UserError(Problem(what, where, "reinstall or remove that package")) from error

    def _plugins(self) -> dict[str, EntryPoint]:
        plugins: dict[str, EntryPoint] = {}
        problems: list[Problem] = []
        for point in installed_points().select(group=f"evalflow.{self._role}s"):
            other = "evalflow" if point.name in self._builtin else None
            other = _package(plugins[point.name]) if point.name in plugins else other
            if other:
                what = f"the {self._role} kind {point.name!r} is defined by {other} and by {_package(point)}"
                problems.append(Problem(what, f"{self._role}.kind", "uninstall one of them"))
            plugins[point.name] = point
        if problems:
            raise UserError(problems)
        return plugins


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
