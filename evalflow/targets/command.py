"""The connector to a command: one process per case, without a shell."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from evalflow.calls.client import CallSession
from evalflow.calls.program import NO_SHELL, NOT_STARTED, ProgramFault, run_program, stderr_in_words
from evalflow.config.targets import CommandTargetConfig
from evalflow.errors import Problem, TargetError, UserError
from evalflow.targets.service import UNPRICED, Connector, LimitedCalls, RawReply, digest


class CommandConnector(Connector):
    """Starts the command in its own process group, which is killed at the time limit or when the run is stopped."""

    def __init__(self, config: CommandTargetConfig, session: CallSession) -> None:
        self._argv = config.argv
        if shutil.which(self._argv[0]) is None:
            raise UserError(Problem(f"there is no program {self._argv[0]!r}", "target.argv", NO_SHELL))
        self._calls = LimitedCalls(("command", *self._argv), config, session)
        self.identity = digest(["command", self._argv, list(contents(self._argv))])

    async def ask(self, data: bytes) -> RawReply:
        errors = bytearray()
        try:
            raw = await self._calls.run(data, partial(self._run, errors))
        except TargetError as error:
            what = f"{error}{stderr_in_words(errors)}"
            raise TargetError(error.error_type, what, error.raw, error.spend) from None
        return replace(raw, note=stderr_in_words(errors))

    async def _run(self, errors: bytearray, data: bytes) -> bytes:
        try:
            return await run_program(self._argv, data, errors)
        except ProgramFault as error:
            spend = None if error.error_type == NOT_STARTED else UNPRICED
            raise TargetError(error.error_type, str(error), spend=spend) from None


def contents(argv: Sequence[str]) -> Iterator[str]:
    """Digests of the files named as arguments on the command line, such as a script."""
    for word in argv[1:]:
        path = Path(word)
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                with path.open("rb") as file:
                    yield hashlib.file_digest(file, "sha256").hexdigest()
