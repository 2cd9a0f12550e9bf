"""A workspace: a database, and the folder that its runs are made in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyio import CapacityLimiter, to_thread

from evalflow.app.workspace.remembered import Remembered
from evalflow.errors import ConflictError, Problem, UserError, did_you_mean
from evalflow.run.folder import RunFolder, refuse_links

if TYPE_CHECKING:
    from evalflow.store import Database

T = TypeVar("T")
FILE = Path(".evalflow") / "evalflow.db"
"""The database, below the working directory, where none is named."""


class NotFoundError(UserError):
    """There is nothing of that name."""


class TakenError(ConflictError):
    """The name is in use, or what is wanted does not fit what is going on."""


class StaleError(UserError):
    """It was changed by somebody else in the meantime.

    Attributes:
        current: Its version now.
    """

    def __init__(self, problem: Problem, current: int) -> None:
        self.current = current
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where people work.

    Attributes:
        database: What is kept.
        root: The working directory of its runs: conf/, prompts/ and outputs/ are below it.
        remembered: What was composed of conf/.
        rendering, asking: How many threads may render prompts, and wait for bots and judges that are tried. Nothing
            else uses these threads, so that no template and no bot holds up a listing or an estimate.
    """

    database: Database
    root: Path
    remembered: Remembered = field(default_factory=Remembered, compare=False)
    rendering: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4), compare=False)
    asking: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16), compare=False)

    @property
    def runs(self) -> Path:
        """The folder of its runs."""
        return self.root / "outputs" / "runs"

    async def render(self, work: Callable[[], T]) -> T:
        """Do what renders prompts of users."""
        return await to_thread.run_sync(work, limiter=self.rendering, abandon_on_cancel=True)

    async def ask(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do what asks a bot or a judge, in an event loop of its own: it may render and check for a while too."""
        return await to_thread.run_sync(lambda: asyncio.run(work()), limiter=self.asking, abandon_on_cancel=True)

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()


def open_workspace(url: str | None = None) -> Workspace:
    """The workspace of the working directory.

    Args:
        url: Its database; None: `.evalflow/evalflow.db`. `database.made` says that it was made just now,
            `database.backup` that it was copied before it was brought up to date.

    Raises:
        UserError: The database cannot be opened, or a newer version has made it; or SQLAlchemy is not installed.
    """
    try:
        from evalflow.store import open_database
    except ModuleNotFoundError as error:
        what = f"the application needs {error.name}, which is not installed"
        raise UserError(Problem(what, hint="pip install 'evalflow[web]'")) from None
    root = Path.cwd()
    return Workspace(open_database(url or f"sqlite:///{root / FILE}"), root)


def within(space: Workspace, folder: Path) -> str:
    """A folder, links followed; one from elsewhere is neither read, since a run does what its files say, nor written.

    Raises:
        UserError: It lies elsewhere.
    """
    try:
        found = (space.root / folder).resolve()
        found.exists()  # or else it can be no path at all
    except (OSError, ValueError, RuntimeError):
        raise UserError(Problem("this can be no folder", "folder", "such as outputs/runs/ID")) from None
    if not found.is_relative_to(space.root.resolve()):
        hint = "name one below it; copy a run to outputs/runs, if you trust it: it does what its files say"
        raise UserError(Problem(f"{folder} is not below the working directory", "folder", hint))
    return str(found)


def run_folder(space: Workspace, row: Mapping[str, Any]) -> RunFolder:
    """The folder of a run, to be resumed or written again: below the working directory, and through no link.

    Raises:
        UserError: It lies elsewhere, or something in it does.
    """
    found = within(space, Path(row["folder"]))
    if found != row["folder"]:
        what = f"{row['folder']} leads through a link to {found}"
        raise UserError(Problem(what, "folder", "put the folder itself there, without links on the way"))
    folder = RunFolder(Path(found))
    refuse_links(folder)
    return folder


def refuse_elsewhere(space: Workspace, config: Mapping[str, Any]) -> None:
    """See that a run borrows from no folder, and writes to no cache, that is not below the working directory.

    Args:
        space: Where.
        config: The run's configuration, as it is kept.

    Raises:
        UserError: It does.
    """
    metrics = _inside(config, "metric")
    named = [("baseline", config.get("baseline")), ("cache.path", _inside(config, "cache").get("path"))]
    named += [(f"metric.{name}.steps_from", _inside(metrics, name).get("steps_from")) for name in metrics]
    for key, value in named:
        if value is None:
            continue
        try:
            within(space, Path(str(value)).expanduser())
        except UserError:
            what, hint = f"{value} is not below the working directory", "such a run stays with the command line"
            raise UserError(Problem(what, key, hint)) from None


def _inside(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = config.get(key)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def not_found(what: str, name: str, known: list[str]) -> NotFoundError:
    """That there is nothing of that name, and what may have been meant."""
    return NotFoundError(Problem(f"there is no {what} {name!r}", what, did_you_mean(name, known) if known else ""))


def stale(what: str, name: str, expected: int, row: Mapping[str, Any], wanted: Mapping[str, Any]) -> StaleError:
    """That a change was not made, and in what it differs from what stands there now.

    Args:
        what: The kind of thing.
        name: Which.
        expected: The version that was seen.
        row: As it is now.
        wanted: The values that were to be written, by column.
    """
    changed = [key for column, value in wanted.items() for key in _differences(column, row.get(column), value)]
    differing = f"; it differs from yours in {', '.join(changed)}" if changed else ""
    when = f" at {row['updated_at']}" if row.get("updated_at") else ""
    problem = Problem(
        f"{what} {name!r} was changed meanwhile{when}: version {row['version']}, not {expected}{differing}",
        what,
        "look at what it is now, and change that",
    )
    return StaleError(problem, row["version"])


def _differences(key: str, there: Any, wanted: Any) -> list[str]:
    """The keys below which two JSON values differ, one level deep."""
    if there == wanted:
        return []
    if not isinstance(there, dict) or not isinstance(wanted, dict):
        return [key]
    old, new = cast("dict[str, Any]", there), cast("dict[str, Any]", wanted)
    return [f"{key}.{inner}" for inner in dict.fromkeys([*old, *new]) if old.get(inner) != new.get(inner)]
