"""The connectors to programs on this machine: a command, one process per case without a shell, or a Python callable."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic_core import from_json

from evalflow.calls.callables import Threads, called, imported, seen
from evalflow.calls.client import CallSession
from evalflow.calls.program import NO_SHELL, NOT_STARTED, ProgramFault, run_program, stderr_in_words
from evalflow.config.targets import CommandTargetConfig, PythonTargetConfig
from evalflow.errors import CallError, Problem, TargetError, UserError
from evalflow.llm.chat import canonical
from evalflow.prompts import Prompts
from evalflow.records import Case
from evalflow.targets.request_body import Body, variables_of
from evalflow.targets.service import UNPRICED, Connector, LimitedCalls, RawReply, digest, payload, version_of
from evalflow.values.jsonvalues import as_map, written
from evalflow.values.pythonvalues import json_text, plain


class CommandConnector(Connector):
    """Starts the command in its own process group, which is killed at the time limit or when the run is stopped."""

    def __init__(self, config: CommandTargetConfig, prompts: Prompts, session: CallSession) -> None:
        self._argv, self._cwd = config.argv, config.cwd
        if config.cwd is not None and not Path(config.cwd).is_dir():
            raise UserError(Problem(f"there is no folder {config.cwd!r}", "target.cwd"))
        if shutil.which(self._argv[0]) is None and not (config.cwd and (Path(config.cwd) / self._argv[0]).is_file()):
            raise UserError(Problem(f"there is no program {self._argv[0]!r}", "target.argv", NO_SHELL))
        self._calls = LimitedCalls(("command", *self._argv), config, session)
        self._env = Body(config.env, "target.env", prompts) if config.env else None
        placed = [config.env, config.cwd] if config.env or config.cwd else []
        files = list(contents(self._argv, config.cwd))
        self.identity = digest(["command", self._argv, files, *placed, *version_of(config.version)])
        self.is_reusable = config.version is not None

    def render(self, case: Case) -> bytes:
        """The case as JSON; with `env` also the variables that it gives, so that replies are cached by both."""
        data = super().render(case)
        return (
            data if self._env is None else canonical({"env": self._variables(self._env, case), "case": payload(case)})
        )

    async def ask(self, data: bytes) -> RawReply:
        env: Mapping[str, str] | None = None
        if self._env is not None:
            both: dict[str, dict[str, str]] = from_json(data)
            env, data = both["env"], canonical(both["case"])
        errors = bytearray()
        try:
            raw = await self._calls.run(data, partial(self._run, errors, env))
        except TargetError as error:
            what = f"{error}{stderr_in_words(errors)}"
            raise TargetError(error.error_type, what, error.raw, error.spend) from None
        return replace(raw, note=stderr_in_words(errors))

    def _variables(self, env: Body, case: Case) -> dict[str, str]:
        """The values of the environment variables: text as it is, anything else as JSON; null is empty."""
        values = as_map(env.value(variables_of(case)))
        texts = {name: "" if value is None else written(value) for name, value in values.items()}
        wrong = next((name for name, text in texts.items() if "\0" in text), None)
        if wrong is not None:
            raise UserError(Problem(f"{wrong}: an environment variable cannot hold a null character", "target.env"))
        return texts

    async def _run(self, errors: bytearray, env: Mapping[str, str] | None, data: bytes) -> bytes:
        try:
            return await run_program(self._argv, data, errors, env=env, cwd=self._cwd)
        except ProgramFault as error:
            spend = None if error.error_type == NOT_STARTED else UNPRICED
            raise TargetError(error.error_type, str(error), spend=spend) from None


def contents(argv: Sequence[str], cwd: str | None = None) -> Iterator[str]:
    """Digests of the files named as arguments on the command line, such as a script."""
    for word in argv[1:]:
        path = Path(cwd or "", word)
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                with path.open("rb") as file:
                    yield hashlib.file_digest(file, "sha256").hexdigest()


class PythonConnector(Connector):
    """Calls a coroutine function in the event loop, and any other callable in its own thread."""

    def __init__(self, config: PythonTargetConfig, session: CallSession) -> None:
        module, self._callable = imported(config.call)
        self._calls = LimitedCalls(("python", config.call), config, session)
        self._threads = Threads(config.call, config.concurrency.max, config.timeout_s)
        self.identity = digest(["python", config.call, *seen(module, self._callable), *version_of(config.version)])
        self.is_reusable = config.version is not None

    async def ask(self, data: bytes) -> RawReply:
        threaded = not inspect.iscoroutinefunction(self._callable)
        return await self._calls.run(data, self._call, self._threads.room if threaded else None)

    async def _call(self, data: bytes) -> bytes:
        try:
            reply = await called(self._callable, self._threads, from_json(data))
        except TargetError:
            raise
        except CallError as error:
            raise TargetError(error.error_type, str(error), spend=UNPRICED) from error
        try:
            return json_text(plain(reply)).encode()
        except ValueError as error:
            what = f"the callable returned a value that is not JSON: {error}"
            raise TargetError("malformed", what, spend=UNPRICED) from None
