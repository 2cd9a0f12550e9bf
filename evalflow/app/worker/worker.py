"""The worker: takes queued runs, one after the other, and lost ones from workers that are no more."""

from __future__ import annotations

import logging
import socket
import threading
import time
from pathlib import Path

from evalflow.app.worker import process
from evalflow.app.worker.job import Job
from evalflow.app.workspace import Workspace
from evalflow.errors import InfrastructureError

log = logging.getLogger("evalflow")
TICK_S = 0.2
SILENCE_S = 60.0
"""Without a word for so long, a worker on another machine is taken for lost."""


class Worker:
    """Carries out the runs of a workspace.

    Any number of workers may share a database: each run is claimed by one of them. What a worker leaves behind when it
    is killed goes on, and the next one takes it up: its process where that lives, else the run by `resume`.

    Args:
        space: Where.
        at_once: Runs under way at the same time.
        silence_s: After how long without a word a worker of another machine is taken for lost.
    """

    def __init__(self, space: Workspace, at_once: int = 1, silence_s: float = SILENCE_S) -> None:
        self._space = space
        self._at_once = at_once
        self._silence_s = silence_s
        self._host = socket.gethostname()
        self.name = process.own_name(self._host)
        self._jobs: list[Job] = []

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop; what is under way then goes on by itself, and the next worker takes it over."""
        while not stop.is_set():
            if not self.step():
                stop.wait(TICK_S)

    def leave(self) -> None:
        """Have what is under way stop, and wait in the queue for the next worker."""
        for job in self._jobs:
            job.leave()
        self._jobs.clear()

    def step(self) -> bool:
        """Take what is to be taken and look after what is under way, once; says whether there is more to do at once."""
        self._take_over()
        while len(self._jobs) < self._at_once and self._claim():
            pass
        self._jobs = [job for job in self._jobs if self._looked_after(job)]
        return any(job.is_busy for job in self._jobs)

    def _looked_after(self, job: Job) -> bool:
        """Advance a job; one that cannot be is given up and says why, so that it is not in the way of others."""
        try:
            return job.advance()
        except InfrastructureError as error:
            log.error("%s", error)  # the database, which may be there again at the next look
            return True
        except Exception as error:
            log.exception("%s cannot be looked after", job.run_id)
            job.give_up(f"its worker could not go on with it: {error!r}")
            return False

    def _claim(self) -> bool:
        from evalflow.store import runs

        with self._space.database.reading() as connection:
            if not runs.waiting(connection):
                return False
        with self._space.database.writing() as connection:
            row = runs.claim(connection, self.name, time.time())
        if row is None:
            return False
        self._begin(row)
        return True

    def _take_over(self) -> None:
        from evalflow.store import runs

        with self._space.database.reading() as connection:
            others = [row for row in runs.running(connection) if row["worker"] != self.name]
        for row in others:
            silent = time.time() - row["heartbeat"] > self._silence_s
            lost = process.is_gone(row["worker"], self._host) or silent
            if not lost or not Path(row["folder"]).is_dir():
                continue
            with self._space.database.writing() as connection:
                taken = runs.take_over(connection, row, self.name, time.time())
            if taken:
                log.info("took over %s", row["run_id"])
                self._begin(row)

    def _begin(self, row: dict[str, object]) -> None:
        job = Job(self._space, self.name, row)
        job.begin()
        self._jobs.append(job)
