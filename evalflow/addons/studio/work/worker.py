"""The worker: executes queued runs."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evalflow.addons.studio.store import runs
from evalflow.addons.studio.store.rows import now
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.work import leases, process
from evalflow.addons.studio.work.answer_examples import fill_after_run
from evalflow.addons.studio.work.intake import Intake
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.rederive import facts_of_run
from evalflow.engine.folder import RunFolder
from evalflow.errors import BudgetError, EvalflowError, InfrastructureError, Problem, UserError
from evalflow.paths import shown
from evalflow.records.manifest import PLANNED

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from evalflow.records.manifest import Manifest


log = logging.getLogger("evalflow")
TICK_S = 0.2
AGAIN_S = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses between retries while the database is unavailable; the last one repeats."""
_UNFINISHED = (PLANNED, "running")
SILENCE_S = 60.0
"""A worker on another machine counts as dead after this time without a heartbeat."""


class Worker:
    """Executes the runs of a workspace.

    Any number of workers may share a database: each run is claimed by one of them. If a worker is killed, its runs'
    processes continue, and another worker takes the runs over. It resumes those whose process has ended.
    """

    def __init__(self, space: Workspace, at_once: int = 1, silence_s: float = SILENCE_S) -> None:
        self._space = space
        self._at_once = at_once
        self._silence_s = silence_s
        self._host = socket.gethostname()
        self.name = process.process_name(self._host)
        self._jobs: list[WorkerJob] = []
        self._heard: dict[str, tuple[float | None, float]] = {}
        """The last heartbeat of each run of other workers, and when it was first seen, by this worker's clock. So
        neither a clock that differs or jumps nor a time without the database makes a worker silent."""
        self._unsure = False
        """Whether the database failed while a run was claimed, so that the claim may have succeeded."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set. Active runs then continue, and the next worker takes them over.

        While the database is unavailable the worker waits. The processes of runs continue meanwhile and write to files.
        """
        failures = 0
        while not stop.is_set():
            try:
                busy = self.step()
            except InfrastructureError as error:
                pause = AGAIN_S[min(failures, len(AGAIN_S) - 1)]
                failures += 1
                self._heard.clear()
                log.error("%s\nthe worker tries again in %g s", error, pause)
                stop.wait(pause)
                continue
            failures = 0
            if not busy:
                stop.wait(TICK_S)

    def leave(self) -> None:
        for job in self._jobs:
            try:
                job.leave()
            except InfrastructureError as error:
                log.error("%s\n%s stays this worker's; the next worker takes it over", error, job.run_id)
        self._jobs.clear()

    def step(self) -> bool:
        """Claim runs and advance the active ones, once. Returns whether there is more to do at once.

        Raises:
            InfrastructureError: The database does not answer; the next step continues from here.
        """
        self._take_over()
        while len(self._jobs) < self._at_once and self._claim():
            pass
        for job in list(self._jobs):
            if not self._safely(job, job.advance):
                self._jobs.remove(job)
        return any(job.is_busy for job in self._jobs)

    def _safely(self, job: WorkerJob, work: Callable[[], bool]) -> bool:
        """Do one action of a job. A job that fails is ended with its error, so that it does not block others."""
        try:
            return work()
        except InfrastructureError:
            raise
        except Exception as error:
            log.exception("%s cannot be looked after", job.run_id)
            job.give_up(f"its worker could not continue with it: {error!r}")
            return False

    def _claim(self) -> bool:
        with self._space.database.reading() as connection:
            if leases.next_run(connection) is None:
                return False
        with self._taking(in_turn=True) as connection:
            next_run = leases.next_run(connection)
            if next_run is None:
                return False
            if next_run.problem:
                runs.refuse(connection, next_run.run.id, BudgetError.exit_code, leases.message(next_run.problem))
                return True
            row = runs.claim(connection, next_run.run.id, self.name, time.time())
            if row is None:
                return False
            next_run.take(connection)
        self._begin(row)
        return True

    def _take_over(self) -> None:
        running = self._space.read(runs.running)
        known = {job.run_id for job in self._jobs}
        self._heard = {row.run_id: self._heard[row.run_id] for row in running if row.run_id in self._heard}
        for row in running:
            if row.worker == self.name:
                if self._unsure and row.run_id not in known:
                    self._begin(row)
                continue
            lost = row.worker is None or process.is_gone(row.worker, self._host) or self._is_silent(row)
            if not lost or not row.path.is_dir():
                continue
            with self._taking() as connection:
                taken = runs.take_over(connection, row, self.name, time.time())
            if taken:
                log.info("took over %s", row.run_id)
                self._begin(row)
        self._unsure = False

    def _is_silent(self, row: StoredRun) -> bool:
        """Whether this worker has watched the same heartbeat of a run for too long."""
        now_s = time.monotonic()
        heartbeat, since = self._heard.get(row.run_id, (None, now_s))
        if heartbeat != row.heartbeat:
            since = now_s
        self._heard[row.run_id] = (row.heartbeat, since)
        return now_s - since > self._silence_s

    @contextmanager
    def _taking(self, *, in_turn: bool = False) -> Generator[Connection]:
        """A transaction that claims a run. If it fails, the claim may or may not have succeeded."""
        try:
            with self._space.database.writing(in_turn=in_turn) as connection:
                yield connection
        except InfrastructureError:
            self._unsure = True
            raise

    def _begin(self, row: StoredRun) -> None:
        job = WorkerJob(self._space, self.name, row)
        self._jobs.append(job)
        try:
            is_ours = self._safely(job, job.begin)
        except InfrastructureError:
            if not job.is_started:
                self._jobs.remove(job)
                self._unsure = True
            raise
        if not is_ours:
            self._jobs.remove(job)


def work(url: str | None, at_once: int, tell: Callable[[str], None], *, attached: bool = False) -> int:
    """Work until SIGINT or SIGTERM; `tell` shows a line. Active runs are then stopped and put back into the queue.

    If `attached`, also end when standard input is closed: the parent process holds it open, so no worker is left behind
    however the parent ends. Active runs then continue, and the next worker takes them over.

    Raises:
        UserError: The database cannot be opened, or `at_once` is invalid.
    """
    from evalflow.addons.studio.work.space import open_workspace

    if at_once < 1:
        raise UserError(Problem(f"--at-once is {at_once}", "command line", "at least 1"))
    stop, alone = threading.Event(), threading.Event()

    def interrupted(*_: object) -> None:
        stop.set()

    def watch() -> None:
        while os.read(0, 4096):  # not by sys.stdin, whose lock a waiting thread would hold while Python exits
            pass
        alone.set()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    if attached:
        threading.Thread(target=watch, daemon=True).start()
    with closing(open_workspace(url)) as space:
        database = space.database
        if database.made:
            tell(f"made   {shown(database.made)}")
        if database.backup:
            tell(f"kept   the database as it was: {shown(database.backup)}")
        tell(f"work   on the runs of {database.shown_url}; stop with Ctrl-C")
        worker = Worker(space, at_once)
        worker.run(stop)
        if not alone.is_set():
            worker.leave()
    return 0


PROGRESS_S = 1.0
"""How often progress is saved."""
PATIENCE_S = 20.0
"""How long a cancelled run may take to finish its calls before it gets a second SIGINT."""


class WorkerJob:
    """A run that a worker has claimed or taken over."""

    def __init__(self, space: Workspace, worker: str, row: StoredRun) -> None:
        self._space, self._worker, self._row = space, worker, row
        self._path = row.path
        self._files = RunFolder(self._path)
        self._child: subprocess.Popen[bytes] | None = None
        self._pid: int | None = row.pid
        self._is_adopted = False
        self._refused = ""
        self._intake: Intake | None = None
        self._unreadable: EvalflowError | None = None
        self._saved_at = self._interrupted_at = 0.0
        self._ending: dict[str, object] = {}
        self._loading: Iterator[bool] | None = None

    @property
    def run_id(self) -> str:
        return self._row.run_id

    @property
    def is_started(self) -> bool:
        """Whether its process was started here."""
        return self._child is not None

    @property
    def is_busy(self) -> bool:
        """Whether more of its results can be read at once."""
        return self._loading is not None or (self._intake is not None and self._intake.behind)

    def begin(self) -> bool:
        """Start the run's process. If it has one already, follow it; if only the end is missing, end the run.

        Returns:
            Whether the run is still this worker's.
        """
        allowed = self._space.allowed  # these read the database, and so come first
        lease = self._space.read(leases.open_lease, self._row)
        manifest = self._manifest()
        self._is_adopted = process.is_alive(self._path)
        if self._is_adopted or self._row.task == "load":
            return True
        task = self._row.task
        was_started = self._row.pid is not None
        if self._row.cancelling or (was_started and manifest and manifest.status not in _UNFINISHED):
            return True
        if lease is None:
            return self._release()
        arguments = ["resume", str(self._path), *(["--retry-errors"] if task == "retry" else [])]
        try:
            self._child = process.start(self._path, arguments, self._space.root, allowed, lease)
        except BlockingIOError:
            self._is_adopted = True  # another process has started on it meanwhile
            return True
        except OSError as error:
            self._refused = f"{self._path}: {error.strerror}"
            return True
        self._pid = self._child.pid
        return self._note(pid=self._pid)

    def advance(self) -> bool:
        """Advance the run one step; returns whether it is still this worker's."""
        if self._refused:
            return self._end({"state": "failed", "message": self._refused})
        if self._loading is None:
            code = self._child.poll() if self._child else None
            if (self._child is not None and code is None) or process.is_alive(self._path):
                return self._save_progress() and self._stop_if_asked()
            manifest, row = self._manifest(), self._current_row()
            is_cancelled = bool(row and row.cancelling)
            was_killed = manifest is None or manifest.status in _UNFINISHED
            if self._is_adopted and was_killed and not is_cancelled:
                return self.begin()
            self._ending = ending(manifest, code, is_cancelled=is_cancelled, folder=self._path)
            # A run that was cancelled just as it ended has scores.parquet, and nothing that is written after it.
            written = (self._files.scores, self._path / "summary.json")
            self._loading = self._load(is_complete=manifest is not None and all(file.is_file() for file in written))
        try:
            is_ours = next(self._loading, None)
        except InfrastructureError:
            self._loading = None  # restarted at the next step, from the progress in the database
            raise
        return self._end(self._ending) if is_ours is None else is_ours

    def give_up(self, why: str) -> None:
        self._end({"state": "failed", "message": why})

    def leave(self) -> None:
        process.interrupt(self._path, self._known_pid())
        if self._child is not None:
            self._child.wait()
        self._release()

    def _release(self) -> bool:
        """Settle the lease and put the run back into the queue, for another lease."""
        with self._space.database.writing(in_turn=False) as connection:
            if runs.release(connection, self.run_id, self._worker):
                leases.settle(connection, self._row, is_alive=process.is_alive(self._path))
        return False

    def _save_progress(self) -> bool:
        is_behind = self._intake is not None and self._intake.behind
        if not is_behind and time.monotonic() - self._saved_at < PROGRESS_S:
            return True
        self._saved_at = time.monotonic()
        return self._take_in()

    def _take_in(self, **values: object) -> bool:
        """Read new journal lines, and save scores and progress in one transaction.

        Lines that cannot be read are read again when the run has ended: its files may be incomplete until then.
        """
        block = None
        try:
            self._intake = self._opened_intake()
            block = self._intake.read() if self._intake else None
        except InfrastructureError:
            raise
        except EvalflowError as error:
            self._intake, self._unreadable = None, error
        try:
            with self._space.database.writing(in_turn=False) as connection:
                is_ours = self._note_in(connection, pid=self._pid, **values)
                if is_ours and self._intake and block:
                    saved: dict[str, object] = {"progress": self._intake.write(connection, block)}
                    if "summary" not in self._row.facts:  # facts of an earlier end stay valid until the next end
                        saved["facts"] = self._intake.facts
                    self._note_in(connection, **saved)
        except InfrastructureError:
            self._intake = None
            raise
        return is_ours

    def _opened_intake(self) -> Intake | None:
        """The reader of the journals, or None yet, or they cannot be read."""
        if self._intake or self._unreadable or (manifest := self._manifest()) is None or manifest.status == PLANNED:
            return self._intake
        row = self._current_row()
        return Intake(row) if row else None

    def _load(self, *, is_complete: bool) -> Iterator[bool]:
        """Load the rest of the journals, and, if its tables were written, the results that only the files have.

        Yields after each transaction whether the run is still this worker's.
        """
        self._unreadable = None
        is_behind = True
        while is_behind:
            yield self._take_in()
            is_behind = self._intake is not None and self._intake.behind
        if not is_complete:
            return
        try:
            if self._unreadable:
                raise self._unreadable
            assert self._intake is not None
            for block in self._intake.rest():
                with self._space.database.writing(in_turn=False) as connection:
                    is_ours = self._note_in(connection, loaded=self._intake.answers)
                    if is_ours:
                        self._intake.put(connection, block)
                yield is_ours
            self._ending["facts"] = facts_of_run(self._files)
        except InfrastructureError:
            raise
        except EvalflowError as error:  # the run's own error takes precedence
            self._ending["message"] = self._ending.get("message") or f"its scores cannot be shown: {error}"
        else:
            self._fill_examples()

    def _fill_examples(self) -> None:
        if self._ending["state"] != "done" or self._row.task == "load":
            return
        try:
            fill_after_run(self._space, self._row, self._count_filled)
        except InfrastructureError:
            raise
        except EvalflowError as error:
            self._ending["message"] = f"its answers are not saved as the missing answer examples: {error}"

    def _count_filled(self, connection: Connection, cases: int) -> None:
        if not runs.count_filled(connection, self.run_id, self._worker, cases, heartbeat=time.time()):
            raise UserError(Problem("another worker has taken the run over", self.run_id))

    def _note(self, **values: object) -> bool:
        with self._space.database.writing(in_turn=False) as connection:
            return self._note_in(connection, **values)

    def _note_in(self, connection: Connection, **values: object) -> bool:
        return runs.note(connection, self.run_id, self._worker, heartbeat=time.time(), **values)

    def _stop_if_asked(self) -> bool:
        """Forward a cancellation: SIGINT, SIGINT again after a while, then SIGKILL."""
        row = self._current_row()
        if row is None or not row.cancelling:
            return row is not None
        waited = time.monotonic() - self._interrupted_at
        if not self._interrupted_at:
            if process.interrupt(self._path, self._known_pid()):
                self._interrupted_at = time.monotonic()
        elif waited > PATIENCE_S:
            number = signal.SIGKILL if waited > 2 * PATIENCE_S else signal.SIGINT
            process.interrupt(self._path, self._known_pid(), number)
        return True

    def _known_pid(self) -> int | None:
        return self._pid or self._row.pid or ((manifest := self._manifest()) and manifest.process)

    def _manifest(self) -> Manifest | None:
        return self._files.read_manifest() if self._files.manifest.is_file() else None

    def _current_row(self) -> StoredRun | None:
        return self._space.read(runs.get, self.run_id)

    def _end(self, values: Mapping[str, object]) -> bool:
        with self._space.database.writing(in_turn=False) as connection:
            if self._note_in(connection):
                used = leases.settle(connection, self._row, is_alive=process.is_alive(self._path))
                values = {**values, "cancelling": False, "finished_at": now()}
                if used and used.wanted and values["state"] == "failed":
                    values |= leases.after_lease(connection, self._row, used.wanted)
                self._note_in(connection, **values)
        return False


def ending(manifest: Manifest | None, code: int | None, *, is_cancelled: bool, folder: Path) -> dict[str, object]:
    """State, exit code, cost and message of a run whose process has ended."""
    status = manifest.status if manifest else None
    recorded = manifest.exit_code if manifest else None
    code = recorded if code is None or (status in ("done", "failed") and recorded is not None) else code
    values: dict[str, object] = {"exit_code": code, "cost_usd": manifest.cost_usd if manifest else None}
    if status == "done":
        return {**values, "state": "done"}
    if is_cancelled:
        return {**values, "state": "cancelled"}
    if status not in (None, PLANNED, "failed") and (code is None or code in (6, 130) or code < 0):
        return {**values, "state": "interrupted"}
    return {**values, "state": "failed", "message": process.error_message(folder)}
