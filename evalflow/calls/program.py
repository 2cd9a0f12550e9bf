"""Run a program on this machine without a shell: write its stdin, return its stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence

from evalflow.errors import CallError, first_of

MAX_OUTPUT = 8 * 1024**2  # maximum size of its output in bytes
KEPT_ERRORS = 4096  # bytes kept from the end of stderr
SHOWN_ERRORS = 10  # lines shown from the end of stderr in an error
NO_SHELL = "argv is a list: the program, then its arguments; a path is taken from the working directory"
NOT_STARTED = "command"
"""The `error_type` if a program cannot be started."""
_CHUNK = 2**16


class ProgramFault(CallError):
    """A program could not be started, failed, or wrote too much."""


async def run_program(
    argv: Sequence[str],
    data: bytes,
    errors: bytearray,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> bytes:
    """Run a program in its own process group, killed if the task is cancelled, and return its stdout.

    `env` has variables in addition to this process's; `cwd` is the folder to run it in.

    The end of its stderr is added to `errors`, also when this fails.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=_CHUNK, loop=loop),
            *argv,
            start_new_session=True,
            env={**os.environ, **env} if env else None,
            cwd=cwd,
        )
    except (OSError, ValueError) as error:  # ValueError: an argument with a null character
        what = f"the command cannot be started: {getattr(error, 'strerror', None) or error}"
        raise ProgramFault(NOT_STARTED, what) from None
    process = Process(transport, protocol, loop)
    try:
        async with asyncio.TaskGroup() as streams:
            output = streams.create_task(_output(process.stdout))
            streams.create_task(_errors(process.stderr, errors))
            streams.create_task(_feed(process.stdin, data))
        code = await process.wait()
    except ExceptionGroup as failures:
        await _kill(process, transport)
        raise first_of(failures) from None
    except BaseException:
        await _kill(process, transport)
        raise
    if code != 0:
        raise ProgramFault("exit_code", _ended(code, errors))
    return output.result()


async def _feed(stdin: asyncio.StreamWriter | None, data: bytes) -> None:
    """Write the case to stdin; the program may stop reading early."""
    assert stdin
    with contextlib.suppress(OSError, RuntimeError):
        stdin.write(data)
        await stdin.drain()
    stdin.close()


async def _output(stdout: asyncio.StreamReader | None) -> bytes:
    assert stdout
    read = bytearray()
    while chunk := await stdout.read(_CHUNK):
        read += chunk
        if len(read) > MAX_OUTPUT:
            raise ProgramFault("too_large", f"the command wrote more than {MAX_OUTPUT:,} bytes")
    return bytes(read)


async def _errors(stderr: asyncio.StreamReader | None, tail: bytearray) -> None:
    assert stderr
    while chunk := await stderr.read(_CHUNK):
        tail += chunk
        del tail[:-KEPT_ERRORS]


async def _kill(process: Process, transport: asyncio.SubprocessTransport) -> None:
    """Kill the process group, including children that still hold the pipes of an ended program.

    On Windows, which has no process groups, kill the process only.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    # asyncio reports the end of a process once its pipes close; a full, unread pipe would stay open.
    for stream in range(3):
        if pipe := transport.get_pipe_transport(stream):
            pipe.close()
    await process.wait()


def _ended(code: int, errors: bytearray) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"the command {how}" + ("" if errors.strip() else ", and said nothing on stderr")


def stderr_in_words(errors: bytearray) -> str:
    """Return the last lines of stderr for the end of a message, the last one first; empty without any."""
    lines = [line.rstrip() for line in errors.decode("utf-8", "replace").strip().splitlines()]
    if not lines:
        return ""
    before = "\n  ".join(lines[-SHOWN_ERRORS:-1])
    return f"; stderr: {lines[-1].strip()}" + (f"\n  {before}" if before else "")
