"""The program as a user runs it, in a folder of its own: in this process, or in one of its own."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core.assemble import composed_settings
from evalflow.cli import run_command
from evalflow.testing import Request, numbered_results
from tests.forked import Forked


@dataclass(frozen=True)
class Program:
    """Runs `python -m evalflow` in a folder."""

    folder: Path

    def __call__(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command line in this process, which takes a tenth of the time that a process of its own takes."""
        out, err = io.StringIO(), io.StringIO()
        with restored(self.folder, {"COLUMNS": "80", **env}), redirect_stdout(out), redirect_stderr(err):
            code = _apart(arguments)
        return subprocess.CompletedProcess(["evalflow", *arguments], code, out.getvalue(), err.getvalue())

    def process(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command line in a process of its own: for what ends with it, or what only its start shows."""
        command = [sys.executable, "-m", "evalflow", *arguments]
        environment = {**os.environ, "COLUMNS": "80", **env}
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600)

    def begin(self, *arguments: str, output: int | None = None) -> Forked:
        """Begin a command line in a process of its own, to be killed or interrupted."""
        return Forked(arguments, self.folder, output)

    @property
    def latest(self) -> Path:
        return (self.folder / "outputs" / "latest").resolve()

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.latest / "run.json").read_text(encoding="utf-8"))

    def wait_for_replies(self, count: int) -> None:
        """Wait until the cache's file has this many replies: they gather for some milliseconds, and more when busy."""
        until = time.monotonic() + 60
        while self._replies() < count:
            assert time.monotonic() < until, f"of {count} replies {self._replies()} are stored"
            time.sleep(0.02)

    def _replies(self) -> int:
        path = self.folder / ".evalflow" / "cache.db"
        with suppress(sqlite3.OperationalError):  # there is no file, or no table in it yet
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=60)) as database:
                return database.execute("SELECT COUNT(*) FROM entries").fetchone()[0]
        return 0

    def write(self, name: str, *rows: dict[str, Any]) -> str:
        """A JSON lines file; gives its name."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


def _apart(arguments: Sequence[str]) -> int:
    """Run a command in this thread, or beside a browser, whose driver keeps an event loop going in it, in another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_command(arguments)
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(run_command, arguments).result()


@contextmanager
def restored(folder: Path, env: dict[str, str]) -> Iterator[None]:
    """Be in a folder with an environment, as a new process would be, and leave nothing of it behind."""
    before, path, modules = dict(os.environ), list(sys.path), set(sys.modules)
    with chdir(folder):
        os.environ.update(env)
        sys.path.insert(0, str(folder))
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                    del sys.modules[name]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def judge_arguments(url: str) -> tuple[str, ...]:
    """The overrides that make a scripted endpoint the judge."""
    return ("judge=openai", "judge.model=scripted", f"judge.base_url={url}", "judge.api_key_env=null")


def real_judge() -> list[str]:
    """The overrides that choose the judge of `make test-live`; the test is skipped if its key is missing."""
    judge = os.environ.get("EVALFLOW_TEST_JUDGE", "judge=openai").split()
    settings = composed_settings(["dataset=conversations", "metric=checks", *judge], None)
    key: str | None = getattr(settings.run.judge, "api_key_env", None)
    if key and not os.environ.get(key):
        pytest.skip(f"{key} IS NOT SET: no real judge was asked; EVALFLOW_TEST_JUDGE='judge=...' names another")
    return judge


def faithful_judge(claims: dict[str, list[tuple[str, str]]]) -> Callable[[Request], Any]:
    """A judge of faithfulness: for each answer, its claims with their verdicts."""

    def script(request: Request) -> Any:
        if request.schema_name == "Claims":
            rows = next(rows for answer, rows in claims.items() if answer in request.text)
            return {"claims": [claim for claim, _ in rows]}
        rows = next(rows for rows in claims.values() if rows and f"1. {rows[0][0]}" in request.text)
        return numbered_results({"reason": f"about {claim}", "verdict": verdict} for claim, verdict in rows)

    return script
