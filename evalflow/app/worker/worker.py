"""The worker: executes queued runs."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from evalflow.app.core import process
from evalflow.app.core.screen import shown
from evalflow.app.studio.space import Workspace
from evalflow.app.worker.job import WorkerJob
from evalflow.errors import InfrastructureError, Problem, UserError
from evalflow.report.wording import literal
from evalflow.store import runs

if TYPE_CHECKING:
    from sqlalchemy import Connection


log = logging.getLogger("evalflow")
TICK_S = 0.2
AGAIN_S = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses between retries while the database is unavailable; the last one repeats."""
SILENCE_S = 60.0
"""A worker on another machine counts as dead after this time without a heartbeat."""


class Worker:
    """Executes the runs of a workspace.

    Any number of workers may share a database: each run is claimed by one of them. If a worker is killed, its runs'
    processes continue, and another worker takes the runs over. It resumes those whose process has ended.

    Args:
        space: The workspace.
        at_once: Maximum number of concurrent runs.
        silence_s: A worker on another machine counts as dead after this time without a heartbeat.
    """

    def __init__(self, space: Workspace, at_once: int = 1, silence_s: float = SILENCE_S) -> None:
        self._space = space
        self._at_once = at_once
        self._silence_s = silence_s
        self._host = socket.gethostname()
        self.name = process.process_name(self._host)
        self._jobs: list[WorkerJob] = []
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
                log.error("%s\nthe worker tries again in %g s", error, pause)
                stop.wait(pause)
                continue
            failures = 0
            if not busy:
                stop.wait(TICK_S)

    def leave(self) -> None:
        """Stop active runs and put them back into the queue for the next worker."""
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
            job.give_up(f"its worker could not go on with it: {error!r}")
            return False

    def _claim(self) -> bool:
        with self._space.database.reading() as connection:
            if not runs.waiting(connection):
                return False
        with self._taking() as connection:
            row = runs.claim(connection, self.name, time.time())
        if row is None:
            return False
        self._begin(row)
        return True

    def _take_over(self) -> None:
        with self._space.database.reading() as connection:
            running = runs.running(connection)
        known = {job.run_id for job in self._jobs}
        for row in running:
            if row["worker"] == self.name:
                if self._unsure and row["run_id"] not in known:
                    self._begin(row)
                continue
            silent = time.time() - row["heartbeat"] > self._silence_s
            lost = process.is_gone(row["worker"], self._host) or silent
            if not lost or not Path(row["folder"]).is_dir():
                continue
            with self._taking() as connection:
                taken = runs.take_over(connection, row, self.name, time.time())
            if taken:
                log.info("took over %s", row["run_id"])
                self._begin(row)
        self._unsure = False

    @contextmanager
    def _taking(self) -> Generator[Connection]:
        """A transaction that claims a run. If it fails, the claim may or may not have succeeded."""
        try:
            with self._space.database.writing(in_turn=False) as connection:
                yield connection
        except InfrastructureError:
            self._unsure = True
            raise

    def _begin(self, row: dict[str, object]) -> None:
        job = WorkerJob(self._space, self.name, row)
        self._jobs.append(job)
        if not self._safely(job, job.begin):
            self._jobs.remove(job)


def work(url: str | None, at_once: int, console: Console, *, attached: bool = False) -> int:
    """Work until SIGINT or SIGTERM; active runs are then stopped and put back into the queue.

    Args:
        url: The workspace's database; None: that of the working directory.
        at_once: Maximum number of concurrent runs.
        console: Where to print messages.
        attached: Whether to end when standard input is closed, too. The parent process holds it open, so no worker is
            left behind however the parent ends. Active runs then continue, and the next worker takes them over.

    Raises:
        UserError: The database cannot be opened, or `at_once` is invalid.
    """
    from evalflow.app.studio.space import open_workspace
    from evalflow.app.worker import Worker

    if at_once < 1:
        raise UserError(Problem(f"--at-once is {at_once}", "command line", "at least 1"))
    stop, alone = threading.Event(), threading.Event()

    def interrupted(*_: object) -> None:
        stop.set()

    def watch() -> None:
        sys.stdin.buffer.read()
        alone.set()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    if attached:
        threading.Thread(target=watch, daemon=True).start()
    with closing(open_workspace(url)) as space:
        database = space.database
        if database.made:
            console.print(literal(f"made   {shown(database.made)}"), soft_wrap=True)
        if database.backup:
            console.print(literal(f"kept   the database as it was: {shown(database.backup)}"), soft_wrap=True)
        console.print(literal(f"work   on the runs of {database.shown_url}; stop with Ctrl-C"), soft_wrap=True)
        worker = Worker(space, at_once)
        worker.run(stop)
        if not alone.is_set():
            worker.leave()
    return 0
