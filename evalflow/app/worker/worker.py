"""The worker: takes queued runs one after the other."""

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
"""Pauses before a database that is away is asked again; the last holds from then on."""
SILENCE_S = 60.0
"""A worker on another machine without a heartbeat for so long is lost."""


class Worker:
    """Carries out the runs of a workspace.

    Any number of workers may share a database: each run is claimed by one of them. What a worker leaves behind when it
    is killed goes on, and the next one takes it up: its process where that lives, else the run by `resume`.

    Args:
        space: The workspace.
        at_once: Runs under way at the same time.
        silence_s: After how long without a heartbeat a worker on another machine is lost.
    """

    def __init__(self, space: Workspace, at_once: int = 1, silence_s: float = SILENCE_S) -> None:
        self._space = space
        self._at_once = at_once
        self._silence_s = silence_s
        self._host = socket.gethostname()
        self.name = process.process_name(self._host)
        self._jobs: list[WorkerJob] = []
        self._unsure = False
        """Whether the database went away while a run was claimed, so that it may be this worker's by now."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; runs under way then go on by themselves, and the next worker takes them over.

        A database that is away is waited for: the processes of runs go on meanwhile, and what they find is in files.
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
        """Have what is under way stop, and wait in the queue for the next worker."""
        for job in self._jobs:
            try:
                job.leave()
            except InfrastructureError as error:
                log.error("%s\n%s stays this worker's; the next worker takes it over", error, job.run_id)
        self._jobs.clear()

    def step(self) -> bool:
        """Take what is to be taken and look after what is under way, once; says whether there is more to do at once.

        Raises:
            InfrastructureError: The database does not answer; the next step goes on where this one stopped.
        """
        self._take_over()
        while len(self._jobs) < self._at_once and self._claim():
            pass
        for job in list(self._jobs):
            if not self._safely(job, job.advance):
                self._jobs.remove(job)
        return any(job.is_busy for job in self._jobs)

    def _safely(self, job: WorkerJob, work: Callable[[], bool]) -> bool:
        """Do something for a job; one that fails is given up and says why, so that it is not in the way of others."""
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
        """A transaction that makes a run this worker's, of which it may never hear how it ended."""
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
    """Work until SIGINT or SIGTERM; what is under way then stops, and waits in the queue.

    Args:
        url: The workspace's database; None: that of the working directory.
        at_once: Runs under way at the same time.
        console: Where to say what is done.
        attached: Whether it ends, too, when standard input does, which whoever started it holds open: however that
            ended, no worker is left behind. What is under way then goes on, for the next worker to take over.

    Raises:
        UserError: The database cannot be opened, or `at_once` is no number of runs.
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
