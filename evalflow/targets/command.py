"""The connector to a command: one process per case, without a shell."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from evalflow.calls.client import CallSession
from evalflow.config.targets import CommandTargetConfig
from evalflow.errors import Problem, TargetError, UserError, first_of
from evalflow.targets.service import UNPRICED, Connector, LimitedCalls, RawReply, digest

MAX_OUTPUT = 8 * 1024**2  # maximum size of a reply in bytes
KEPT_ERRORS = 4096  # bytes kept from the end of stderr
SHOWN_ERRORS = 10  # lines shown from the end of stderr in an error
_CHUNK = 2**16


class CommandConnector(Connector):
    """Starts the command in its own process group, which is killed at the time limit or when the run is stopped."""

    def __init__(self, config: CommandTargetConfig, session: CallSession) -> None:
        self._argv = config.argv
        if shutil.which(self._argv[0]) is None:
            hint = "argv is a list: the program, then its arguments; a path is taken from the working directory"
            raise UserError(Problem(f"there is no program {self._argv[0]!r}", "target.argv", hint))
        self._calls = LimitedCalls(("command", *self._argv), config, session)
        self.identity = digest(["command", self._argv, list(_contents(self._argv))])

    async def ask(self, data: bytes) -> RawReply:
        errors = bytearray()
        try:
            raw = await self._calls.run(data, partial(self._run, errors))
        except TargetError as error:
            what = f"{error}{_stderr_in_words(errors)}"
            raise TargetError(error.error_type, what, error.raw, error.spend) from None
        return replace(raw, note=_stderr_in_words(errors))

    async def _run(self, errors: bytearray, data: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(limit=_CHUNK, loop=loop), *self._argv, start_new_session=True
            )
        except OSError as error:
            raise TargetError("command", f"the command cannot be started: {error.strerror or error}") from None
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
            raise TargetError("exit_code", _ended(code, errors), spend=UNPRICED)
        return output.result()


async def _feed(stdin: asyncio.StreamWriter | None, data: bytes) -> None:
    """Write the case to stdin. It is no error if the command stops reading early."""
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
            raise TargetError("too_large", f"the command wrote more than {MAX_OUTPUT:,} bytes", spend=UNPRICED)
    return bytes(read)


async def _errors(stderr: asyncio.StreamReader | None, tail: bytearray) -> None:
    assert stderr
    while chunk := await stderr.read(_CHUNK):
        tail += chunk
        del tail[:-KEPT_ERRORS]


async def _kill(process: Process, transport: asyncio.SubprocessTransport) -> None:
    """Kill the process group, which includes children that still hold the pipes of an ended command."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # asyncio reports the end of a process once its pipes close; a full, unread pipe would stay open.
    for stream in range(3):
        if pipe := transport.get_pipe_transport(stream):
            pipe.close()
    await process.wait()


def _ended(code: int, errors: bytearray) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"the command {how}" + ("" if errors.strip() else ", and said nothing on stderr")


def _stderr_in_words(errors: bytearray) -> str:
    lines = [line.rstrip() for line in errors.decode("utf-8", "replace").strip().splitlines()]
    if not lines:
        return ""
    before = "\n  ".join(lines[-SHOWN_ERRORS:-1])
    return f"; stderr: {lines[-1].strip()}" + (f"\n  {before}" if before else "")


def _contents(argv: Sequence[str]) -> Iterator[str]:
    """Digests of the files named as arguments on the command line, such as a script."""
    for word in argv[1:]:
        path = Path(word)
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                with path.open("rb") as file:
                    yield hashlib.file_digest(file, "sha256").hexdigest()
