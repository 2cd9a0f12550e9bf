"""The extension points, called doors, and how extensions are found.

An addition is an entry point of an installed package. evalflow's own addons enter in the same way, by the entry points in
its `pyproject.toml`.

| group | an entry point names |
|---|---|
| `evalflow.metrics`, `evalflow.judges`, `evalflow.embedders`, `evalflow.targets`, `evalflow.simulators` | a kind: `Config`, a pydantic model of its keys, and `build` |
| `evalflow.engines` | a kind of engine, which carries out runs: `Config` and `build` |
| `evalflow.observers` | a kind of observer, which receives each record of a run: `Config` and `build` |
| `evalflow.importers` | a function from the path of another tool's file to rows of cases |
| `evalflow.verbs` | a verb of the command line |
"""  # noqa: E501 - rows of a table

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Generic, TypeVar, cast

from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.extras import PACKAGE

T = TypeVar("T")


@cache
def installed_points() -> EntryPoints:
    """The entry points of all installed packages; cached, since there can be hundreds of files to read."""
    return cast("EntryPoints", entry_points())  # Python 3.11 returns another type with the same `select`


INSTALL = "the addons are not registered; in the checkout of evalflow: python -m pip install -e ."


def has_own_points() -> bool:
    """Whether evalflow is installed, with entry points of its own; a checkout before its set-up is not."""
    return any(_package(point) == PACKAGE for point in installed_points().select(group="evalflow.verbs"))


class Door(Generic[T]):
    """Objects that can be chosen by name: evalflow's own, and entry points of `evalflow.<role>s` in packages.

    Example:
        >>> Door("verb", {"run": "builtins:print"}).get("run") is print
        True
    """

    def __init__(self, role: str, own: Mapping[str, T | str], where: str = "") -> None:
        """A text in `own` is `module:name`, which is imported at its first use.

        `where` names for errors the place in which a user writes the name; by default the key `<role>.kind`.
        """
        self.role = role
        self.own = own
        self._where = where or f"{role}.kind"
        self._read: tuple[EntryPoints, dict[str, EntryPoint]] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: str) -> bool:
        return name in self.own or name in self._added()

    def ships(self, name: str) -> bool:
        """Whether it is evalflow's own, an addon's included."""
        if name in self.own:
            return True
        point = self._added().get(name)
        return point is not None and _package(point) == PACKAGE

    def package(self, name: str) -> str | None:
        """The package that adds a name; None for one of `own`."""
        point = None if name in self.own else self._added().get(name)
        return None if point is None else _package(point)

    def names(self) -> list[str]:
        """All names, evalflow's own first; UserError if two packages, or a package and evalflow, add the same one."""
        return [*self.own, *sorted(self._added())]

    def get(self, name: str) -> T:
        """Load what has a name; UserError if it is unknown, two packages add it, or its package cannot be imported."""
        added, own = self._added(), self.own.get(name)
        if isinstance(own, str):
            return EntryPoint(name, own, "").load()
        if own is not None:
            return own
        if name not in added:
            hint = INSTALL if self.is_unregistered(name) else did_you_mean(name, {*self.own, *added})
            raise UserError(Problem(f"there is no {self._what} {name!r}", self._where, hint))
        try:
            return added[name].load()
        except UserError:  # such as an extra that is not installed
            raise
        except Exception as error:
            what = f"the {self._what} {name!r} cannot be loaded from {_package(added[name])}: {error}"
            raise UserError(Problem(what, self._where, "reinstall or remove that package")) from error

    def is_unregistered(self, name: str) -> bool:
        """Whether the installation is older than the code, so that an unknown name may be right.

        True if none of evalflow's own entry points is installed, or this one is in the checkout's pyproject.toml.
        """
        if not has_own_points():
            return True
        import tomllib

        project = Path(__file__).parents[1] / "pyproject.toml"
        declared = tomllib.loads(project.read_text(encoding="utf-8")) if project.is_file() else {}
        return name in declared.get("project", {}).get("entry-points", {}).get(self._group, ())

    @property
    def _group(self) -> str:
        return f"evalflow.{self.role}s"

    @property
    def _what(self) -> str:
        return f"{self.role} kind" if self._where == f"{self.role}.kind" else self.role

    def _added(self) -> dict[str, EntryPoint]:
        points = installed_points()
        if self._read is None or self._read[0] is not points:  # to select of all of them takes a millisecond
            self._read = points, self._claimed(points)
        return self._read[1]

    def _claimed(self, points: EntryPoints) -> dict[str, EntryPoint]:
        added: dict[str, EntryPoint] = {}
        problems: list[Problem] = []
        for point in points.select(group=self._group):
            other = "evalflow" if point.name in self.own else None
            other = _package(added[point.name]) if point.name in added else other
            if other:
                what = f"the {self._what} {point.name!r} is defined by {other} and by {_package(point)}"
                problems.append(Problem(what, self._where, "uninstall one of them"))
            added[point.name] = point
        if problems:
            raise UserError(problems)
        return added


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
