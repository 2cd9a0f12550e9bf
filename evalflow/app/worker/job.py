"""One run that a worker executes, from its claim to its end."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalflow.app.core import process
from evalflow.app.core.rederive import facts_of_run
from evalflow.app.studio.space import Workspace
from evalflow.app.worker.live import Follower, LiveScores
from evalflow.app.worker.load import load_scores
from evalflow.errors import EvalflowError, InfrastructureError
from evalflow.run.folder import RunFolder
from evalflow.store import runs
from evalflow.store.tables import now

TELL_S = 1.0
"""How often progress is written down."""
PATIENCE_S = 20.0
"""How long a run that is cancelled may take to finish what is under way, before it is asked again to stop."""


class WorkerJob:
    """A run that is this worker's.

    Args:
        space: Where.
        worker: Its name.
        row: The run, as it was claimed or taken over.
    """

    def __init__(self, space: Workspace, worker: str, row: Mapping[str, Any]) -> None:
        self._space, self._worker, self._row = space, worker, row
        self._path = Path(row["folder"])
        self._files = RunFolder(self._path)
        self._child: subprocess.Popen[bytes] | None = None
        self._pid: int | None = row["pid"]
        self._follower = Follower(self._path, row["progress"].get("expected"))
        self._live: LiveScores | None = None
        self._blind = ""
        self._told = 0.0
        self._asked_to_stop = 0.0
        self._loading: Iterator[int] | None = None
        self._ending: dict[str, Any] = {}
        self._refused = ""
        self._adopted = False

    @property
    def run_id(self) -> str:
        """Which run."""
        return self._row["run_id"]

    @property
    def is_busy(self) -> bool:
        """Whether there is more of it to be taken in at once."""
        return self._loading is not None or self._follower.behind

    def begin(self) -> bool:
        """Start its process, or go on with what is there: a process that lives, or a run that only has to be ended.

        Returns:
            True: it is this worker's to look after.
        """
        manifest = self._manifest()
        self._adopted = process.is_alive(self._path)
        if self._adopted or self._row["task"] == "load":
            return True
        task = self._row["task"]
        asked = self._row["pid"] is not None  # its process was there, and is not any more
        if self._row["cancelling"] or (asked and manifest and manifest["status"] != "running"):
            return True
        if manifest is None:
            arguments = ["run", "--run-id", self.run_id, *self._row["arguments"]]
        else:
            arguments = ["resume", str(self._path), *(["--retry-errors"] if task == "retry" else [])]
        try:
            self._child = process.start(self._path, arguments, self._space.root)
        except BlockingIOError:
            self._adopted = True  # another process is on it after all
            return True
        except OSError as error:
            self._refused = f"{self._path}: {error.strerror}"
            return True
        self._pid = self._child.pid
        return self._note(pid=self._pid)

    def advance(self) -> bool:
        """Follow the run one step; says whether it still is this worker's."""
        if self._refused:
            self._ending = {"state": "failed", "message": self._refused}
            return self._end()
        if self._loading is not None:
            return self._load_on()
        code = self._child.poll() if self._child else None
        alive = code is None and process.is_alive(self._path)
        if alive or (self._child is not None and code is None):
            return self._tell() and self._stop_if_asked()
        if self._adopted and self._was_killed():
            return self.begin()
        self._prepare_ending(code)
        return self._load_on() if self._loading is not None else self._end()

    def give_up(self, why: str) -> None:
        """End the run for a reason of the worker's own; what it has finished is kept."""
        self._ending = {"state": "failed", "message": why}
        self._end()

    def leave(self) -> None:
        """Have the run stop, and put it back into the queue: the next worker goes on with it."""
        process.interrupt(self._path, self._known_pid())
        if self._child is not None:
            self._child.wait()
        with self._space.database.writing(in_turn=False) as connection:
            runs.release(connection, self.run_id, self._worker)

    def _tell(self) -> bool:
        if not self._follower.behind and time.monotonic() - self._told < TELL_S:
            return True
        self._told = time.monotonic()
        return self._take_in()

    def _take_in(self) -> bool:
        """Read the journals on, and save progress and scores in one transaction; says whether the run still is ours."""
        found = self._follower.read()
        live = self._taken(*found)
        progress = self._follower.progress()
        if live is not None:
            progress["latest"] = [{**line, "position": live.position(line)} for line in progress["latest"]]
        values: dict[str, Any] = {"progress": progress, "heartbeat": time.time(), "pid": self._pid}
        if live is not None and "summary" not in self._row["facts"]:
            values["facts"] = live.facts  # of a run that has ended before, those stand until it has ended again
        with self._space.database.writing(in_turn=False) as connection:
            ours = runs.note(connection, self.run_id, self._worker, **values)
            if ours and live is not None:
                live.write(connection)
        if live is not None:
            live.wrote()
        return ours

    def _taken(self, scores: Sequence[Any], answers: Sequence[Any]) -> LiveScores | None:
        """What takes the lines to the tables; None where there is nothing yet, or it cannot tell what they are about.

        Then the scores come to the tables at the end, which says what is wrong.
        """
        if self._live is None and (scores or answers) and not self._blind:
            try:
                self._live = LiveScores(self._row["id"], self._files)
            except EvalflowError as error:
                self._blind = str(error)
        if self._live is None:
            return None
        try:
            self._live.take(scores, answers)
        except EvalflowError as error:
            self._live, self._blind = None, str(error)
        return self._live

    def _note(self, **values: Any) -> bool:
        with self._space.database.writing(in_turn=False) as connection:
            return runs.note(connection, self.run_id, self._worker, heartbeat=time.time(), **values)

    def _stop_if_asked(self) -> bool:
        """Pass a cancellation on: SIGINT, SIGINT again after a while, then SIGKILL."""
        with self._space.database.reading() as connection:
            row = runs.get(connection, self.run_id)
        if row is None or not row["cancelling"]:
            return row is not None
        waited = time.monotonic() - self._asked_to_stop
        if not self._asked_to_stop:
            if process.interrupt(self._path, self._known_pid()):
                self._asked_to_stop = time.monotonic()
        elif waited > 2 * PATIENCE_S:
            process.interrupt(self._path, self._known_pid(), signal.SIGKILL)
        elif waited > PATIENCE_S:
            process.interrupt(self._path, self._known_pid())
        return True

    def _known_pid(self) -> int | None:
        return self._pid or process.read_pid(self._row, self._manifest())

    def _was_killed(self) -> bool:
        """Whether a process that another worker had started ended without writing its status."""
        manifest = self._manifest()
        return (manifest is None or manifest["status"] == "running") and not self._is_cancelled()

    def _manifest(self) -> dict[str, Any] | None:
        return self._files.read_manifest() if self._files.manifest.is_file() else None

    def _prepare_ending(self, code: int | None) -> None:
        """Tell how the run ended, and begin to take in what it found."""
        manifest = self._manifest()
        self._ending = ending(manifest, code, cancelled=self._is_cancelled(), folder=self._path)
        complete = manifest is not None and self._files.scores.is_file()
        more = True
        while more:
            if complete:
                self._follower.read()  # all of it comes from the run's own tables
            else:
                self._take_in()
            more = self._follower.behind
        self._ending["progress"] = self._follower.progress()
        if complete:
            self._loading = load_scores(self._space, self._row["id"], self._files)

    def _load_on(self) -> bool:
        assert self._loading is not None
        try:
            done = next(self._loading, None)
            if done is not None:
                return self._note(loaded=done)
            self._ending["facts"] = facts_of_run(self._files)
        except InfrastructureError:
            self._loading = None  # it begins again; what is in the tables already is put into the same place
            raise
        except EvalflowError as error:
            failure = self._ending.get("message")  # why the run failed comes first
            self._ending["message"] = failure or f"its scores cannot be shown: {error}"
        return self._end()

    def _is_cancelled(self) -> bool:
        with self._space.database.reading() as connection:
            row = runs.get(connection, self.run_id)
        return bool(row and row["cancelling"])

    def _end(self) -> bool:
        self._note(**self._ending, cancelling=False, finished_at=now())
        return False


def ending(manifest: Mapping[str, Any] | None, code: int | None, *, cancelled: bool, folder: Path) -> dict[str, Any]:
    """State, exit code, cost and message of a run whose process is gone.

    Args:
        manifest: run.json; None where it was refused, or never began.
        code: The exit code of the process; None where another worker saw it, or nobody.
        cancelled: Whether it was to stop.
        folder: Its files.
    """
    status = manifest["status"] if manifest else None
    told = manifest.get("exit_code") if manifest else None
    code = told if code is None or (status in ("done", "failed") and told is not None) else code
    values: dict[str, Any] = {"exit_code": code, "cost_usd": manifest.get("cost_usd") if manifest else None}
    if status == "done":
        return {**values, "state": "done"}
    if cancelled:
        return {**values, "state": "cancelled"}
    if manifest is not None and status != "failed" and (code is None or code == 130 or code < 0):
        return {**values, "state": "interrupted"}
    return {**values, "state": "failed", "message": process.error_message(folder)}
