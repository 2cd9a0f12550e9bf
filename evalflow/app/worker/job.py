"""One run of a worker, from its claim to its end."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalflow.app.core import process
from evalflow.app.core.rederive import facts_of_run
from evalflow.app.studio.intake import Intake
from evalflow.app.studio.space import Workspace
from evalflow.errors import EvalflowError, InfrastructureError
from evalflow.run.folder import RunFolder
from evalflow.store import runs
from evalflow.store.tables import now

PROGRESS_S = 1.0
"""How often progress is saved."""
PATIENCE_S = 20.0
"""How long a cancelled run may take to finish its calls before it gets a second SIGINT."""


class WorkerJob:
    """A run that a worker has claimed or taken over.

    Args:
        space: The workspace.
        worker: The worker's name.
        row: The row of the run.
    """

    def __init__(self, space: Workspace, worker: str, row: Mapping[str, Any]) -> None:
        self._space, self._worker, self._row = space, worker, row
        self._path = Path(row["folder"])
        self._files = RunFolder(self._path)
        self._child: subprocess.Popen[bytes] | None = None
        self._pid: int | None = row["pid"]
        self._is_adopted = False
        self._refused = ""
        self._intake: Intake | None = None
        self._unreadable: EvalflowError | None = None
        self._saved_at = self._interrupted_at = 0.0
        self._ending: dict[str, Any] = {}
        self._loading: Iterator[bool] | None = None

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._row["run_id"]

    @property
    def is_busy(self) -> bool:
        """Whether more of its results can be read at once."""
        return self._loading is not None or (self._intake is not None and self._intake.behind)

    def begin(self) -> bool:
        """Start the run's process. If it has one already, follow it; if only the end is missing, end the run.

        Returns:
            Whether the run is still this worker's.
        """
        manifest = self._manifest()
        self._is_adopted = process.is_alive(self._path)
        if self._is_adopted or self._row["task"] == "load":
            return True
        task = self._row["task"]
        was_started = self._row["pid"] is not None
        if self._row["cancelling"] or (was_started and manifest and manifest["status"] != "running"):
            return True
        if manifest is None:
            arguments = ["run", "--run-id", self.run_id, *self._row["arguments"]]
        else:
            arguments = ["resume", str(self._path), *(["--retry-errors"] if task == "retry" else [])]
        try:
            self._child = process.start(self._path, arguments, self._space.root)
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
            if self._is_adopted and self._was_killed():
                return self.begin()
            manifest = self._manifest()
            self._ending = ending(manifest, code, is_cancelled=self._is_cancelled(), folder=self._path)
            self._loading = self._load(is_complete=manifest is not None and self._files.scores.is_file())
        try:
            is_ours = next(self._loading, None)
        except InfrastructureError:
            self._loading = None  # restarted at the next step, from the progress in the database
            raise
        return self._end(self._ending) if is_ours is None else is_ours

    def give_up(self, why: str) -> None:
        """End the run with an error of the worker; finished scores are kept."""
        self._end({"state": "failed", "message": why})

    def leave(self) -> None:
        """Stop the run, and put it back into the queue for the next worker."""
        process.interrupt(self._path, self._known_pid())
        if self._child is not None:
            self._child.wait()
        with self._space.database.writing(in_turn=False) as connection:
            runs.release(connection, self.run_id, self._worker)

    def _save_progress(self) -> bool:
        is_behind = self._intake is not None and self._intake.behind
        if not is_behind and time.monotonic() - self._saved_at < PROGRESS_S:
            return True
        self._saved_at = time.monotonic()
        return self._take_in()

    def _take_in(self, **values: Any) -> bool:
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
                    saved: dict[str, Any] = {"progress": self._intake.write(connection, block)}
                    if "summary" not in self._row["facts"]:  # facts of an earlier end stay valid until the next end
                        saved["facts"] = self._intake.facts
                    self._note_in(connection, **saved)
        except InfrastructureError:
            self._intake = None
            raise
        return is_ours

    def _opened_intake(self) -> Intake | None:
        """The reader of the journals; None if there are none yet, or they cannot be read."""
        if self._intake or self._unreadable or not self._files.manifest.is_file():
            return self._intake
        with self._space.database.reading() as connection:
            row = runs.get(connection, self.run_id)
        return Intake(row) if row else None

    def _load(self, *, is_complete: bool) -> Iterator[bool]:
        """Load the rest of the journals, and the results that only the files of a finished run have.

        Args:
            is_complete: Whether the run has written scores.parquet.

        Yields:
            Whether the run is still this worker's, after each transaction.
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

    def _note(self, **values: Any) -> bool:
        with self._space.database.writing(in_turn=False) as connection:
            return self._note_in(connection, **values)

    def _note_in(self, connection: Any, **values: Any) -> bool:
        return runs.note(connection, self.run_id, self._worker, heartbeat=time.time(), **values)

    def _stop_if_asked(self) -> bool:
        """Forward a cancellation: SIGINT, SIGINT again after a while, then SIGKILL."""
        with self._space.database.reading() as connection:
            row = runs.get(connection, self.run_id)
        if row is None or not row["cancelling"]:
            return row is not None
        waited = time.monotonic() - self._interrupted_at
        if not self._interrupted_at:
            if process.interrupt(self._path, self._known_pid()):
                self._interrupted_at = time.monotonic()
        elif waited > 2 * PATIENCE_S:
            process.interrupt(self._path, self._known_pid(), signal.SIGKILL)
        elif waited > PATIENCE_S:
            process.interrupt(self._path, self._known_pid())
        return True

    def _known_pid(self) -> int | None:
        return self._pid or process.read_pid(self._row, self._manifest())

    def _was_killed(self) -> bool:
        """Whether a process started by another worker ended without writing its status."""
        manifest = self._manifest()
        return (manifest is None or manifest["status"] == "running") and not self._is_cancelled()

    def _manifest(self) -> dict[str, Any] | None:
        return self._files.read_manifest() if self._files.manifest.is_file() else None

    def _is_cancelled(self) -> bool:
        with self._space.database.reading() as connection:
            row = runs.get(connection, self.run_id)
        return bool(row and row["cancelling"])

    def _end(self, values: Mapping[str, Any]) -> bool:
        self._note(**values, cancelling=False, finished_at=now())
        return False


def ending(manifest: Mapping[str, Any] | None, code: int | None, *, is_cancelled: bool, folder: Path) -> dict[str, Any]:
    """State, exit code, cost and message of a run whose process has ended.

    Args:
        manifest: run.json; None if the run was refused or never started.
        code: The exit code of the process; None if this worker did not see it end.
        is_cancelled: Whether the run was cancelled.
        folder: Its files.
    """
    status = manifest["status"] if manifest else None
    recorded = manifest.get("exit_code") if manifest else None
    code = recorded if code is None or (status in ("done", "failed") and recorded is not None) else code
    values: dict[str, Any] = {"exit_code": code, "cost_usd": manifest.get("cost_usd") if manifest else None}
    if status == "done":
        return {**values, "state": "done"}
    if is_cancelled:
        return {**values, "state": "cancelled"}
    if manifest is not None and status != "failed" and (code is None or code == 130 or code < 0):
        return {**values, "state": "interrupted"}
    return {**values, "state": "failed", "message": process.error_message(folder)}
