"""The command `worker`: carry out queued runs until stopped."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import closing

from rich.console import Console

from evalflow.app.screen import shown
from evalflow.errors import Problem, UserError
from evalflow.report.terminal import literal


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
    from evalflow.app.worker import Worker
    from evalflow.app.workspace import open_workspace

    if at_once < 1:
        raise UserError(Problem(f"--at-once is {at_once}", "command line", "at least 1"))
    stop, alone = threading.Event(), threading.Event()

    def told(*_: object) -> None:
        stop.set()

    def watch() -> None:
        sys.stdin.buffer.read()
        alone.set()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, told)
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
