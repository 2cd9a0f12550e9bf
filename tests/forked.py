"""Processes that begin with the modules of evalflow loaded: a short run and a server are mostly their import.

They can be killed, interrupted and waited for like any other; what only its start shows takes a real one.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, reduction
from pathlib import Path
from pkgutil import walk_packages
from types import SimpleNamespace
from typing import IO, Any

import evalflow.addons.studio.web

_RUNS = ("evalflow.app.run", "evalflow.addons.studio.work.worker", "numpy", "polars")
_FIRST_USED = (
    "openai.types.chat",
    "instructor.v2.providers.openai.handlers",
    "inscriptis",
    "tokenizers",
    "onnxruntime",
)
"""What a run imports once it needs it: for a request that is longer than all else that a short run does."""
_SERVES = [module.name for module in walk_packages(evalflow.addons.studio.web.__path__, "evalflow.addons.studio.web.")]
os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # set before the import of onnxruntime, which reads it
_SERVER = get_context("forkserver")
# It leaves out those that cannot be imported.
_SERVER.set_forkserver_preload([*_RUNS, *_FIRST_USED, *_SERVES, "pytest"])


def program(*arguments: str) -> None:
    """Be `python -m evalflow`."""
    from evalflow.__main__ import main

    sys.argv = ["evalflow", *arguments]
    main()


class Forked:
    """A process, with what the tests need of `subprocess.Popen`. What it prints goes to a file, or nowhere.

    It calls `does`, a function of a module, with the arguments.
    """

    def __init__(
        self,
        arguments: Sequence[Any],
        folder: Path,
        output: int | None = None,
        *keeps: int,
        env: Mapping[str, str] | None = None,
        does: Callable[..., None] = program,
    ) -> None:
        files = [None if output is None else _File(output), *map(_File, keeps)]
        args = (does, arguments, folder, dict(env or os.environ), files)
        self._process = _SERVER.Process(target=_run, args=args)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float = 300) -> int:
        self._process.join(timeout)
        code = self.poll()
        assert code is not None, f"it still runs after {timeout} s"
        return code

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _popen(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None,
    stdout: IO[bytes],
    pass_fds: Sequence[int],
    **_: Any,
) -> Forked:
    assert command[:3] == [sys.executable, "-m", "evalflow"]
    return Forked(command[3:], cwd, stdout.fileno(), *pass_fds, env=env)


FORKING = SimpleNamespace(Popen=_popen, DEVNULL=subprocess.DEVNULL, STDOUT=subprocess.STDOUT)
"""Stands for the module `subprocess` where `evalflow.addons.studio.work.process` starts a run."""


@dataclass(frozen=True)
class _File:
    """An open file that the process has, too."""

    number: int

    def __reduce__(self) -> Any:
        return _received, (reduction.DupFd(self.number),)


def _received(file: Any) -> _File:
    return _File(file.detach())


def _run(
    does: Callable[..., None],
    arguments: Sequence[Any],
    folder: Path,
    env: Mapping[str, str],
    files: Sequence[_File | None],
) -> None:
    gc.freeze()  # the search for cycles need not look at what was loaded before, nor copy its pages
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    output = os.open(os.devnull, os.O_WRONLY) if files[0] is None else files[0].number
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.path.insert(0, str(folder))
    does(*arguments)
