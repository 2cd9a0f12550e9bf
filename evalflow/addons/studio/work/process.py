"""The process of a run: it can outlive its worker, and holds a file lock while it lives."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from evalflow.calls import budget
from evalflow.calls.budget import Lease
from evalflow.calls.connections import VARIABLE, Connections
from evalflow.errors import Problem, UserError
from evalflow.paths import private_file

LOCK, OUTPUT, CONNECTIONS = "process.lock", "process.log", "process.connections"
MAX_OUTPUT = 4000  # characters read from the end of a process's output


def start(
    folder: Path,
    arguments: Sequence[str],
    root: Path,
    connections: Connections | None = None,
    lease: Lease | None = None,
) -> subprocess.Popen[bytes]:
    """Start `python -m evalflow` for a run, in its own session, so that it outlives its worker.

    `connections`: the only ones that it may call. `lease`: the most that it may spend. None: as this process.

    The process inherits a lock on a file in the run's folder. The lock belongs to the open file: it ends with the last
    process that has the file open, and a process that reuses the pid does not hold it.

    Raises:
        BlockingIOError: Another process works on the run.
    """
    environment = dict(os.environ)
    if connections is not None:
        connections.write(folder / CONNECTIONS)
        environment[VARIABLE] = str((folder / CONNECTIONS).absolute())
    if lease is not None:
        environment[budget.VARIABLE] = lease.model_dump_json()
    output = private_file(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with os.fdopen(output, "ab") as output, working_on(folder) as lock:
        os.truncate(lock, 0)
        os.write(lock, socket.gethostname().encode())
        return subprocess.Popen(  # noqa: S603 - evalflow itself, with the arguments of a checked run
            [sys.executable, "-m", "evalflow", *arguments],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock,),
        )


@contextmanager
def working_on(folder: Path) -> Generator[int]:
    """Hold the run's lock during the block. Raises BlockingIOError if another process works on the run."""
    try:
        import fcntl
    except ImportError:
        hint = "run the worker on Linux or macOS; `python -m evalflow run` works everywhere"
        raise UserError(Problem("the worker needs file locks that this system does not have", hint=hint)) from None
    lock = private_file(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)


def is_alive(folder: Path) -> bool:
    """Whether any process works on the run."""
    if not (folder / LOCK).exists():
        return False
    try:
        with working_on(folder):
            return False
    except BlockingIOError:
        return True


def interrupt(folder: Path, pid: int | None, number: signal.Signals = signal.SIGINT) -> bool:
    """Signal the process of a run; False if it has ended, or runs on another machine.

    Its pid cannot be reused while its lock is held.
    """
    if not pid or not is_alive(folder):
        return False
    host = (folder / LOCK).read_text(encoding="utf-8")
    if host and host != socket.gethostname():
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def error_message(folder: Path) -> str:
    """The error of the run's last process: its output from the last line that begins with `error:`."""
    try:
        with (folder / OUTPUT).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_OUTPUT))
            output = file.read().decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
    at = max(output.rfind("\nerror:"), 0 if output.startswith("error:") else -1)
    return output[at:].strip() if at >= 0 else output[-500:]


def process_name(host: str) -> str:
    """Host, pid and start time: identify this process even if its pid is reused."""
    return f"{host}:{os.getpid()}:{_started(os.getpid())}"


def is_gone(name: str, host: str) -> bool:
    """Whether the process of that name was on this machine and has ended."""
    its_host, pid, started = name.rsplit(":", 2)
    return its_host == host and _started(int(pid)) != started


def _started(pid: int) -> str:
    """The start time of a process, in clock ticks since boot; without /proc, only whether it is running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except FileNotFoundError:
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"
