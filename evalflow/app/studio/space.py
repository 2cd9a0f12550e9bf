"""A workspace: a database, and the folder that its runs are made in."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from anyio import CapacityLimiter, to_thread

from evalflow.errors import ConflictError, Problem, UserError, did_you_mean
from evalflow.run.folder import RunFolder, refuse_links
from evalflow.store import Database, definitions, open_database
from evalflow.store.tables import from_row

SETTLED_S = 2.0
"""A file that was changed more recently may change again without a trace in what its folder says of it."""
State = tuple[tuple[str, int, int, int, int], ...]


class Remembered:
    """Values of JSON by their keys. Any number of threads may use it: at worst, two make the same.

    Args:
        now: The time, in seconds since 1970; for tests.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._known: tuple[State, dict[str, str]] = ((), {})

    def get(self, key: str, folders: Sequence[Path], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A copy of the value, remembered or made.

        Args:
            key: What it is.
            folders: It is made of files below these and of nothing else.
            make: Makes it. What it raises is raised, and not remembered.
        """
        before = _state(folders)
        state, values = self._known
        if state == before and key in values:
            return json.loads(values[key])
        made = make()
        if before == _state(folders) and not self._is_young(before):
            kept = values if state == before else {}
            self._known = (before, {**kept, key: json.dumps(made)})
        return made

    def _is_young(self, state: State) -> bool:
        newest = max((max(modified, changed) for _, modified, changed, _, _ in state), default=0)
        return newest / 1e9 > self._now() - SETTLED_S


def _state(folders: Sequence[Path]) -> State:
    """What tells a changed file: its name, when its content and its entry were changed, its size, and which it is."""
    return tuple(sorted(entry for folder in folders for entry in _files(str(folder))))


def _files(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".yaml"):
                found = os.stat(entry.path)  # noqa: PTH116 - an entry of a link would tell of the link itself
                yield entry.path, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


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
        """Run what renders prompts of users, in a thread."""
        return await to_thread.run_sync(work, limiter=self.rendering, abandon_on_cancel=True)

    async def ask(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run what asks a bot or a judge, in a thread with an event loop of its own."""
        return await to_thread.run_sync(lambda: asyncio.run(work()), limiter=self.asking, abandon_on_cancel=True)

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def open_workspace(url: str | None = None) -> Workspace:
    """The workspace of the working directory.

    Args:
        url: Its database; None: `.evalflow/evalflow.db`. `database.made` says that it was made just now,
            `database.backup` that it was copied before it was brought up to date.

    Raises:
        UserError: The database cannot be opened, or a newer version has made it.
    """
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
        space: The workspace.
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
    """The error for a name that is not there, with a similar one as a hint."""
    return NotFoundError(Problem(f"there is no {what} {name!r}", what, did_you_mean(name, known) if known else ""))


def stale(what: str, name: str, expected: int, row: Mapping[str, Any], wanted: Mapping[str, Any]) -> StaleError:
    """The error for a change of an older version, with the keys that differ from the current one.

    Args:
        what: The kind of thing.
        name: Its name.
        expected: The version that was seen.
        row: As it is now.
        wanted: The values that were to be written, by column.
    """
    changed = [key for column, value in wanted.items() for key in _differences(column, row.get(column), value)]
    differing = f"; it differs from yours in {', '.join(changed)}" if changed else ""
    when = f" at {datetime.fromisoformat(row['updated_at']):%H:%M} UTC" if row.get("updated_at") else ""
    problem = Problem(
        f"someone changed the {what} {name!r}{when}: it has version {row['version']}, not {expected}{differing}",
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


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An HTTP response.

    Attributes:
        request: Digest of the request, as text.
        status: As it was sent.
        headers: Name and value of each.
        body: As it was sent.
    """

    request: str
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


def answered(space: Workspace, key: str) -> StoredResponse | None:
    """The response that was stored under an idempotency key, if one was in the last 30 days."""
    with space.database.reading() as connection:
        row = definitions.get(connection, key)
    return (
        row if row is None else from_row(StoredResponse, row, headers=[(name, value) for name, value in row["headers"]])
    )


def keep_answer(space: Workspace, key: str, answer: StoredResponse) -> None:
    """Store a response under an idempotency key.

    Args:
        space: The workspace.
        key: At most 64 characters, such as a digest.
        answer: The response.
    """
    headers = [list(pair) for pair in answer.headers]
    values = {"key": key, "request": answer.request, "status": answer.status, "headers": headers, "body": answer.body}
    with space.database.writing() as connection:
        definitions.put(connection, values)
