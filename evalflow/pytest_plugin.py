"""A plugin for pytest: a run whose gates are tests.

# conftest.py
pytest_plugins = ["evalflow.pytest_plugin"]

# test_bot.py
from evalflow.pytest_plugin import evalflow_run

test_guardrails = evalflow_run("experiment=guardrail_gate")
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from evalflow.api.functions import gates_of, load, run
from evalflow.api.results import RunResult
from evalflow.errors import EvalflowError

Ended = tuple[RunResult, Sequence[Mapping[str, Any]]]
"""A run, and what its gates say."""
_CACHED: dict[str, Ended | EvalflowError] = {}
"""The runs of this process, so that all gates of a run are tests of one."""
_KEPT_S = 24 * 3600  # how long what workers share is kept


@dataclass(frozen=True)
class EvalflowRun:
    """A run that is collected as one test for each of its gates; made by `evalflow_run`."""

    overrides: tuple[str, ...]
    options: dict[str, Any]
    undecided: Literal["fail", "skip"]
    name: str

    def gates(self) -> list[str]:
        return gates_of(*self.overrides, **self.options)

    def result(self) -> Ended:
        """The run and its gates. It is started for the first of its tests, and workers of pytest-xdist share it.

        EvalflowError as by `run`.
        """
        if self.name not in _CACHED:
            session = os.environ.get("PYTEST_XDIST_TESTRUNUID")
            ended = self._once(_shared_file(session, self.name)) if session else self._started()
            _CACHED[self.name] = ended if isinstance(ended, EvalflowError) else (ended, ended.gates)
        found = _CACHED[self.name]
        if isinstance(found, EvalflowError):
            raise found
        return found

    def _started(self) -> RunResult | EvalflowError:
        try:
            return run(*self.overrides, **self.options, progress=False)
        except EvalflowError as error:
            return error

    def _once(self, file: Path) -> RunResult | EvalflowError:
        """Start the run, or read what another worker has made of it."""
        with file.open("a+", encoding="utf-8") as shared:
            fcntl.flock(shared, fcntl.LOCK_EX)
            shared.seek(0)
            if text := shared.read():
                known = json.loads(text)
                return load(known["folder"]) if "folder" in known else EvalflowError(known["error"])
            found = self._started()
            failed = isinstance(found, EvalflowError)
            shared.write(json.dumps({"error": str(found)} if failed else {"folder": str(found.folder)}))
            return found


def evalflow_run(
    *overrides: str,
    cases: Any = None,
    target: Callable[..., Any] | None = None,
    config_dir: str | Path | None = None,
    undecided: Literal["fail", "skip"] = "fail",
) -> Any:
    """A run to assign to a name that begins with `test`: it becomes one test for each of its gates.

    The run starts with the first of these tests, and a gate that fails shows its sentence. The arguments are those of
    `evalflow.run`; `undecided` says whether a gate that the scores cannot decide fails or is skipped.
    """
    options = {"cases": cases, "target": target, "config_dir": config_dir}
    about = repr([overrides, undecided, *(str(one) for one in options.values())])
    name = hashlib.sha256(about.encode()).hexdigest()[:16]
    return EvalflowRun(overrides, options, undecided, name)


def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> pytest.Collector | None:
    """Collect a run that is assigned to a name that pytest takes for a test's."""
    if isinstance(obj, EvalflowRun) and collector.istestfunction(lambda: None, name):
        return GateTests.from_parent(collector, name=name, evaluated=obj)  # pyright: ignore[reportUnknownMemberType]
    return None


class GateTests(pytest.Collector):
    """The gates of a run."""

    def __init__(self, *, evaluated: EvalflowRun, **rest: Any) -> None:
        super().__init__(**rest)
        self._evaluated = evaluated

    def collect(self) -> Iterator[pytest.Item]:
        try:
            gates = self._evaluated.gates()
        except EvalflowError as error:
            raise self.CollectError(str(error)) from None
        if not gates:
            what = "this run has no gate, so that it could not fail"
            raise self.CollectError(f"{what}\n  hint: add one, such as 'gate={{faithfulness: {{mean: \">= 0.8\"}}}}'")
        for gate in gates:
            one = GateTest.from_parent(self, name=gate, evaluated=self._evaluated)  # pyright: ignore[reportUnknownMemberType]
            yield one


class GateTest(pytest.Item):
    """One gate."""

    def __init__(self, *, evaluated: EvalflowRun, **rest: Any) -> None:
        super().__init__(**rest)  # pyright: ignore[reportUnknownMemberType]
        self._evaluated = evaluated

    def runtest(self) -> None:
        result, gates = self._evaluated.result()
        rows = [row for row in gates if row["name"] == self.name]
        said = "\n".join(row["message"] for row in rows)
        if not rows or any(row["passed"] is False for row in rows):
            raise GateError(f"{said or f'{self.name}: the run has no such gate'}\nreport {result.report.path}")
        if any(row["passed"] is None for row in rows):
            if self._evaluated.undecided == "skip":
                pytest.skip(f"undecided: {said}")
            raise GateError(f"undecided: {said}\nreport {result.report.path}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The gate's sentence, or the error of the run; a traceback for a bug only."""
        if isinstance(excinfo.value, GateError | EvalflowError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.parent.name if self.parent else ''}: {self.name}"


class GateError(AssertionError):
    """A gate failed, or is undecided."""


def _shared_file(session: str, name: str) -> Path:
    folder = Path(tempfile.gettempdir()) / f"evalflow-pytest-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for old in folder.iterdir():
        if time.time() - old.stat().st_mtime > _KEPT_S:
            old.unlink(missing_ok=True)
    here = f"{session} {Path.cwd()}"  # a session started within another one inherits its id
    return folder / f"{hashlib.sha256(here.encode()).hexdigest()[:16]}-{name}.json"
