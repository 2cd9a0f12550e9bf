"""The values of `kind:` keys: built in, or entry points of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from evalflow.errors import Problem, UserError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")


@cache
def installed_points() -> EntryPoints:
    """The entry points of all installed packages; cached, since there can be hundreds of files to read."""
    from importlib.metadata import entry_points

    return cast("EntryPoints", entry_points())  # Python 3.11 returns another type with the same `select`


class Kinds(Generic[T]):
    """The kinds of one configuration group, each loaded on first use.

    An entry point of the group must load an object of the same type as the built-in ones.

    Args:
        role: The configuration group, for messages: judge, target, metric.
        group: The entry point group.
        builtin: A loader for each built-in kind.
    """

    def __init__(self, role: str, group: str, builtin: Mapping[str, Callable[[], T]]) -> None:
        self._role = role
        self._group = group
        self._builtin = builtin

    def names(self) -> list[str]:
        """All kinds.

        Raises:
            UserError: Two packages, or a package and evalflow, define the same kind.
        """
        return sorted({*self._builtin, *self._plugins()})

    def get(self, kind: str) -> T:
        """Load a kind.

        Raises:
            UserError: There is no such kind, two packages define it, or its package cannot be imported.
        """
        plugins = self._plugins()
        if kind in self._builtin:
            return self._builtin[kind]()
        if kind not in plugins:
            known = {*self._builtin, *plugins}
            raise UserError(
                Problem(f"there is no {self._role} kind {kind!r}", f"{self._role}.kind", did_you_mean(kind, known))
            )
        try:
            return cast("T", plugins[kind].load())
        except Exception as error:
            what = f"the {self._role} kind {kind!r} cannot be loaded from {_package(plugins[kind])}: {error}"
            raise UserError(Problem(what, f"{self._role}.kind", "reinstall or remove that package")) from error

    def _plugins(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        problems: list[Problem] = []
        for point in installed_points().select(group=self._group):
            other = "evalflow" if point.name in self._builtin else None
            other = _package(found[point.name]) if point.name in found else other
            if other:
                what = f"the {self._role} kind {point.name!r} is defined by {other} and by {_package(point)}"
                problems.append(Problem(what, f"{self._role}.kind", "uninstall one of them"))
            found[point.name] = point
        if problems:
            raise UserError(problems)
        return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
