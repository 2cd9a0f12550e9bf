"""A workspace: a database, and the folder that its runs are created in."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from evalflow.addons.studio.store import DEFAULT_PROJECT, Database, audit, definitions, open_database, people
from evalflow.addons.studio.store.results import AnswerRanking
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.store.schema import INTEGER_END
from evalflow.addons.studio.store.scores import People
from evalflow.addons.studio.work.access import Actor, local_person, requires
from evalflow.addons.studio.work.trials import TrialBudget
from evalflow.app.core.case_kinds import CaseKinds
from evalflow.calls.connections import Connection as CallConnection
from evalflow.calls.connections import Connections
from evalflow.engine.folder import RunFolder, refuse_links
from evalflow.errors import ConflictError, Problem, UserError, did_you_mean
from evalflow.paths import from_home
from evalflow.values.jsonvalues import is_mapping, is_object

if TYPE_CHECKING:
    from sqlalchemy import Connection

OF_SERVER = frozenset({"user", "connection"})
"""Kinds of objects that belong to no project."""
SETTLED_S = 2.0
"""A file changed more recently may change again without a new timestamp, so its value is not cached."""
PACKED_FILES = 2
UNFINISHED = ".evalflow-restore"
"""A folder in a workspace that is being restored."""
RANKINGS = 16
"""How many rankings to keep in memory, at 9 bytes an answer."""
KINDS = 8
"""For how many selections of cases to keep what checks know of them, up to a thousand cases of each."""
State = tuple[tuple[str, int, int, int, int], ...]


class Remembered:
    """A cache of JSON values. It is safe to use from several threads: at worst, two compute the same value."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._known: tuple[State, dict[str, str]] = ((), {})

    def get(self, key: str, folders: Sequence[Path], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A copy of the value, cached or computed.

        `make` computes it from the files below the folders and from nothing else; its errors are not cached.
        """
        before = _state(folders)
        state, values = self._known
        if state == before and key in values:
            return json.loads(values[key])
        made = make()
        newest = max((max(modified, changed) for _, modified, changed, _, _ in before), default=0)
        if before == _state(folders) and newest / 1e9 <= self._now() - SETTLED_S:
            kept = values if state == before else {}
            self._known = (before, {**kept, key: json.dumps(made)})
        return made


def _state(folders: Sequence[Path]) -> State:
    """Name, mtime, ctime, size and inode of each file, to detect changes."""
    return tuple(sorted(entry for folder in folders for entry in _files(str(folder))))


def _files(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".yaml"):
                stat = os.stat(entry.path)  # noqa: PTH116 - an entry of a link would describe the link itself
                yield entry.path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


class Recent(Generic[T]):
    """The values that were used last. It is safe to use from several threads: at worst, two compute the same value."""

    def __init__(self, size: int) -> None:
        self._size, self._values, self._turn = size, OrderedDict[Hashable, T](), Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, known or computed."""
        with self._turn:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._turn:
            self._values[key] = made
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return made


FILE = Path(".evalflow") / "evalflow.db"
"""The default database, below the working directory."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, in order. `next` is the cursor of the following page; null at the end."""

    items: Sequence[T]
    next: str | None = None

    @staticmethod
    def of(items: Sequence[S], limit: int, key: str = "id") -> Page[S]:
        """A page of the first `limit` items. If there are more, the cursor is the `key` of the page's last item."""
        return Page(items[:limit], str(getattr(items[limit - 1], key)) if len(items) > limit else None)


def every_item(read: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """All items of a list that is read in pages; the first page is read at once."""
    return _items_from(read, read(None))


def _items_from(read: Callable[[str | None], Page[T]], page: Page[T]) -> Iterator[T]:
    yield from page.items
    while page.next is not None:
        page = read(page.next)
        yield from page.items


def place_of(cursor: str | None, *kinds: type[float], end: int = INTEGER_END) -> Any:
    """The numbers, of these kinds, in the cursor of a list; None without a cursor.

    Integers are smaller than `end`, the bound of their column's type.
    """
    try:
        numbers = None if cursor is None else [kind(part) for kind, part in zip(kinds, cursor.split(","), strict=True)]
        if not all(0 <= one < end if isinstance(one, int) else math.isfinite(one) for one in numbers or ()):
            raise ValueError
    except ValueError:
        raise invalid_cursor() from None
    return numbers and tuple(numbers)


def row_number(cursor: str | None, end: int = INTEGER_END) -> int | None:
    """The row number in the cursor of a list of rows."""
    place = place_of(cursor, int, end=end)
    return place and place[0]


def invalid_cursor() -> UserError:
    """The error for a cursor that no page of the list has returned."""
    return UserError(Problem("this is not a cursor of this list", "?cursor", "take `next` of the previous page"))


class NotFoundError(UserError):
    """Nothing of that name exists."""


class TakenError(ConflictError):
    """The name is in use, or the current state does not allow the operation."""


class StaleError(UserError):
    """Somebody else has changed the object since it was read."""

    def __init__(self, problem: Problem, current: int) -> None:
        self.current = current
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A database and a working directory.

    Attributes:
        root: The working directory of its runs, with conf/, prompts/ and outputs/.
        project_id, project: The project that is worked in.
        identify: Who acts now. It raises SignedOutError once a session has ended, also for a page that is still open.
        remembered: Cached values composed from conf/.
        rankings: Of the answers of runs that have ended.
        kinds: What checks know of the cases of runs that were estimated.
        labelled: People's scores of the answers of runs that have ended.
        rendering, asking: Limits on threads that render prompts, and on threads that wait for a bot or judge on trial.
            These threads are used for nothing else, so that a slow template or bot delays no listing or estimate.
        trials, asks: The turns of people who try something, and who wait for a bot or judge.
        computing: The turns of people for whom the server computes; see `takes_turn`.
        packed: Limits how many Excel and Parquet files are read at once: a process with much memory reads each.
    """

    database: Database
    root: Path
    project_id: int
    project: str = DEFAULT_PROJECT
    identify: Callable[[], Actor] = field(default=local_person, compare=False)
    remembered: Remembered = field(default_factory=Remembered, compare=False)
    rankings: Recent[AnswerRanking] = field(default_factory=lambda: Recent(RANKINGS), compare=False)
    kinds: Recent[CaseKinds] = field(default_factory=lambda: Recent(KINDS), compare=False)
    labelled: Recent[People] = field(default_factory=lambda: Recent(RANKINGS), compare=False)
    rendering: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16), compare=False)
    asking: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16), compare=False)
    trials: TrialBudget = field(default_factory=TrialBudget, compare=False)
    asks: TrialBudget = field(default_factory=TrialBudget.of_waiting, compare=False)
    computing: TrialBudget = field(default_factory=TrialBudget.of_work, compare=False)
    packed: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(PACKED_FILES), compare=False)

    @property
    def runs(self) -> Path:
        """The folder of the project's runs."""
        outputs = self.root / "outputs"
        return outputs / "runs" if self.project == DEFAULT_PROJECT else outputs / "projects" / self.project / "runs"

    def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of one query of the store."""
        with self.database.reading() as connection:
            return query(connection, *args, **kwargs)

    @contextmanager
    def changing(self, action: str, kind: str, name: str, fields: Iterable[str] = ()) -> Generator[Connection]:
        """A write transaction that also records who changed what. `fields`: the names of the changed ones."""
        actor, project = self.identify(), None if kind in OF_SERVER else self.project
        with self.database.writing() as connection:
            yield connection
            audit.add(connection, actor.name, actor.address, project, action, kind, name, list(dict.fromkeys(fields)))

    def personal_key(self, key: str) -> str:
        """A digest of an idempotency key, so that another person's or project's equal key is another one."""
        return hashlib.sha256(f"{self.identify().name}\0{self.project}\0{key}".encode()).hexdigest()

    def in_project(self, name: str) -> Workspace:
        """The workspace in another project."""
        row = self.read(definitions.id_of, "project", name)
        if row is None:
            raise not_found("project", name, [])
        return replace(self, project_id=row, project=name)

    @property
    def allowed(self) -> Connections | None:
        """The connections as they are now; None where nobody has an account: any address may be called."""
        with self.database.reading() as connection:
            rows = definitions.listed(connection, "connection") if people.has_users(connection) else None
        return None if rows is None else Connections(tuple(map(CallConnection.of, rows)))

    def resolve(self, values: Mapping[str, object], key: str) -> Mapping[str, object]:
        """The configuration of a bot, judge or embedder with its `connection` replaced by address and key."""
        allowed = self.allowed
        return values if allowed is None else allowed.resolve(values, key)

    async def render(self, work: Callable[[], T]) -> T:
        """Run a function that renders users' prompts, in a thread, when it is its person's turn."""
        return await to_thread.run_sync(
            self._in_turn, self.trials, work, limiter=self.rendering, abandon_on_cancel=True
        )

    async def ask(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run a function that calls a bot or a judge, in a thread with its own event loop, when it is its turn."""

        def alone() -> T:
            return asyncio.run(work())

        return await to_thread.run_sync(self._in_turn, self.asks, alone, limiter=self.asking, abandon_on_cancel=True)

    def _in_turn(self, turns: TrialBudget, work: Callable[[], T]) -> T:
        with turns.turn(self.identify().name):
            return work()

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def refuse_unfinished(root: Path) -> None:
    """UserError if a restore into this folder has not ended: its database or its runs may be missing."""
    if (root / UNFINISHED).exists():
        what = f"a restore has not ended here: there is {UNFINISHED}"
        hint = f"if it was killed, delete {UNFINISHED}, .evalflow and outputs, empty the database, and restore again"
        raise UserError(Problem(what, str(root), hint))


def open_workspace(url: str | None = None) -> Workspace:
    """The workspace of the working directory.

    Without a URL, its database is `.evalflow/evalflow.db`. `database.made` is set if the file has just been created,
    `database.backup` if it was copied before its schema was changed.

    Raises:
        UserError: The database cannot be opened, or a restore was killed here.
    """
    root = Path.cwd()
    refuse_unfinished(root)
    database = open_database(url or f"sqlite:///{root / FILE}")
    with database.reading() as connection:
        project = definitions.id_of(connection, "project", DEFAULT_PROJECT)
    assert project is not None
    return Workspace(database, root, project)


@requires("read")
def within(space: Workspace, folder: Path, allowed: Path | None = None) -> str:
    """The real path of a folder, which must be below `allowed`, or else the working directory.

    Others are refused, since a run does what its files say.
    """
    allowed = allowed or space.root
    try:
        real_path = (space.root / folder).resolve()
        real_path.exists()  # raises for a string that cannot be a path
    except (OSError, ValueError, RuntimeError):
        raise UserError(Problem("this cannot be a folder", "folder", "such as outputs/runs/ID")) from None
    if not real_path.is_relative_to(allowed.resolve()):
        hint = "name one below it; copy a run to outputs/runs, if you trust it: it does what its files say"
        named = "the working directory" if allowed == space.root else "the runs of the project"
        raise UserError(Problem(f"{folder} is not below {named}", "folder", hint))
    return str(real_path)


@requires("read")
def run_folder(space: Workspace, run: StoredRun) -> RunFolder:
    """The folder of a run to resume or rewrite: below the working directory, without links in its path or content."""
    real_path = within(space, run.path)
    if real_path != str(run.path):
        what = f"{run.path} leads through a link to {real_path}"
        raise UserError(Problem(what, "folder", "put the folder itself there, without links on the way"))
    folder = RunFolder(Path(real_path))
    refuse_links(folder)
    return folder


@requires("read")
def refuse_elsewhere(space: Workspace, config: Mapping[str, object]) -> None:
    """Check that a run reuses only folders, and writes only to caches, below the working directory.

    For others than the owner, a reused folder must be among the project's runs.
    """
    metrics = _inside(config, "metric")
    runs = None if space.identify().is_owner else space.runs
    named = [("cache.path", _inside(config, "cache").get("path"), None), ("baseline", config.get("baseline"), runs)]
    named += [(f"metric.{name}.steps_from", _inside(metrics, name).get("steps_from"), runs) for name in metrics]
    for key, value, allowed in named:
        if value is None:
            continue
        try:
            within(space, from_home(str(value)), allowed)
        except UserError as error:
            hint = "start such a run on the command line"
            raise UserError(Problem(error.problems[0].what, key, hint)) from None


def _inside(config: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = config.get(key)
    return value if is_mapping(value) else {}


def not_found(what: str, name: str, known: list[str]) -> NotFoundError:
    """The error for an unknown name, with a similar one as a hint."""
    return NotFoundError(Problem(f"there is no {what} {name!r}", what, did_you_mean(name, known) if known else ""))


def stale(
    what: str, name: str, expected: int, version: int, updated_at: str = "", changed: Sequence[str] = ()
) -> StaleError:
    """The error for a change based on an older version; `changed`: the keys that differ in the current version."""
    others = f"; it differs from yours in {', '.join(changed)}" if changed else ""
    when = f" at {datetime.fromisoformat(updated_at):%H:%M} UTC" if updated_at else ""
    problem = Problem(
        f"someone changed the {what} {name!r}{when}: it has version {version}, not {expected}{others}",
        what,
        "load the current version, and change that",
    )
    return StaleError(problem, version)


def differing(there: Mapping[str, object], wanted: Mapping[str, object]) -> list[str]:
    """The keys, as in `changed_keys`, that change if the wanted values replace the current ones."""
    return [key for name, value in wanted.items() for key in changed_keys(name, there.get(name), value)]


def changed_keys(key: str, there: object, wanted: object) -> list[str]:
    """The keys where two JSON values differ, one level deep, such as `config.model`; without `key`, such as `model`."""
    if there == wanted:
        return []
    if not is_object(there) or not is_object(wanted):
        return [key]
    old, new = there, wanted
    return [
        f"{key}.{inner}" if key else inner for inner in dict.fromkeys([*old, *new]) if old.get(inner) != new.get(inner)
    ]
