"""A plugin for pytest: a run whose gates are tests. pytest finds it by its entry point.

# test_bot.py
from evalflow.pytest_plugin import evalflow_run

test_guardrails = evalflow_run("experiment=guardrail_gate")
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from evalflow.errors import EvalflowError, Problem, UserError

if TYPE_CHECKING:  # every session of pytest imports this module, those without a run too
    from evalflow.api.metric import Metrics
    from evalflow.api.results import GateOutcome, RunResult


@dataclass(frozen=True, slots=True)
class Ended:
    """A run at its end: what its gates say, and why each of its cases fails; None if the case passes."""

    result: RunResult
    gates: Sequence[GateOutcome]
    cases: Mapping[tuple[str, str], str | None]


_CACHED: dict[str, Ended | EvalflowError] = {}
"""The runs of this process, so that all gates of a run are tests of one."""
_MADE: list[EvalflowRun] = []
"""The runs that modules made so far in this session, each of which must be collected."""
_UNSUPPORTED = ("parametrize", "usefixtures")
_KEPT_S = 24 * 3600  # how long the files shared by workers are kept


@dataclass(frozen=True, eq=False)
class EvalflowRun:
    """A run that is collected as one test for each of its gates; made by `evalflow_run` in a `file`, at a `line`.

    With `each_case` its cases are tests, too.
    """

    overrides: tuple[str, ...]
    options: dict[str, Any]
    undecided: Literal["fail", "skip"]
    each_case: bool
    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"evalflow_run at {os.path.relpath(self.file)}:{self.line}"

    def tests(self) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """The gates that the run would have, by names without limits, and its cases: dataset and id."""
        from evalflow.api.functions import planned

        return planned(*self.overrides, **self.options)

    def ended(self) -> Ended:
        """The run at its end. It is started for the first of its tests, and workers of pytest-xdist share it.

        EvalflowError as by `run`.
        """
        if self.name not in _CACHED:
            session = os.environ.get("PYTEST_XDIST_TESTRUNUID")
            result = self._start_or_read(_shared_file(session, self.name)) if session else self._started()
            _CACHED[self.name] = result if isinstance(result, EvalflowError) else _ended(result, self.each_case)
        outcome = _CACHED[self.name]
        if isinstance(outcome, EvalflowError):
            raise outcome
        return outcome

    def _started(self) -> RunResult | EvalflowError:
        from evalflow.api.functions import run

        try:
            return run(*self.overrides, **self.options, progress=False)
        except EvalflowError as error:
            return error

    def _start_or_read(self, file: Path) -> RunResult | EvalflowError:
        """Start the run, or read what another worker has made of it."""
        from filelock import FileLock

        from evalflow.api.functions import load

        with FileLock(file.with_suffix(".lock")):
            if file.exists():
                known = json.loads(file.read_text(encoding="utf-8"))
                return load(known["folder"]) if "folder" in known else EvalflowError(known["error"])
            outcome = self._started()
            failed = isinstance(outcome, EvalflowError)
            record = {"error": str(outcome)} if failed else {"folder": str(outcome.folder)}
            file.write_text(json.dumps(record), encoding="utf-8")
            return outcome


def _ended(result: RunResult, each_case: bool) -> Ended:
    return Ended(result, result.gates, _cases_of(result) if each_case else {})


def _cases_of(result: RunResult) -> dict[tuple[str, str], str | None]:
    """Why each case fails: each of its scores that does not pass, with its reason; None if it passes."""
    from evalflow.lazy import pl
    from evalflow.summary.passing_cases import passing_cases, passing_metrics

    scores = result.scores
    metrics = passing_metrics(scores.lazy())
    reasons: dict[tuple[str, str], str | None] = {}
    for case in passing_cases(scores.lazy(), metrics).iter_rows(named=True):
        key = case["dataset"], case["case_id"]
        of_case = (pl.col("dataset") == key[0]) & (pl.col("case_id") == key[1]) & pl.col("metric").is_in([*metrics])
        rows = scores.filter(of_case & ~pl.col("passed").fill_null(value=False)).iter_rows(named=True)
        lines = [f"{row['metric']}: {_score_line(row)}" for row in rows]
        reasons[key] = None if case["score"] == 1 else "\n".join(lines) or f"the case is {case['status']}"
    return reasons


def _score_line(row: Mapping[str, Any]) -> str:
    score = "" if row["score"] is None else f" {row['score']:.3g}"
    return f"{row['status']}{score}: {row['reason'] or row['error']}"


def evalflow_run(
    *overrides: str,
    cases: object = None,
    target: Callable[..., object] | None = None,
    metrics: Metrics | None = None,
    config_dir: str | Path | None = None,
    undecided: Literal["fail", "skip"] = "fail",
    each_case: bool = False,
) -> Callable[..., None]:
    """A run to assign to a name that begins with `test`: it becomes one test for each of its gates.

    The run starts with the first of these tests, and a gate that fails shows its sentence. The arguments are those of
    `evalflow.run`; `undecided` says whether a gate that the scores cannot decide fails or is skipped. With `each_case`
    each case is a test, too, which fails if one of its scores does not pass its threshold, and says why. It is a
    function that fails where the plugin does not collect it, so that no gate is lost.

    Raises:
        UserError: It is called within a test, where it would test nothing.
    """
    caller = inspect.stack(0)[1]
    if _is_in_a_test():
        hint = "assign it to a name that begins with test, at the top of the module; within a test call evalflow.run()"
        where = os.environ.get("PYTEST_CURRENT_TEST", caller.filename)
        raise UserError(Problem("an evalflow_run within a test tests nothing", where, hint))
    options = {"cases": cases, "target": target, "metrics": metrics, "config_dir": config_dir}
    # By its place: what a lambda or a frame looks like is another text in each worker.
    number = sum((one.file, one.line) == (caller.filename, caller.lineno) for one in _MADE)
    about = repr([overrides, undecided, each_case, caller.filename, caller.lineno, number])
    name = hashlib.sha256(about.encode()).hexdigest()[:16]
    made = EvalflowRun(overrides, options, undecided, each_case, name, caller.filename, caller.lineno)
    _MADE.append(made)

    def uncollected(*_: Any) -> None:
        what = "no plugin collects this evalflow_run, so none of its gates is tested"
        hint = "run pytest with its plugins: without PYTEST_DISABLE_PLUGIN_AUTOLOAD, or with -p evalflow.pytest_plugin"
        raise UserError(Problem(what, str(made), hint))

    uncollected.made = made  # pyright: ignore[reportFunctionMemberAccess]
    return uncollected


def _is_in_a_test() -> bool:
    """Whether pytest is running a test or a fixture, and not collecting tests."""
    for frame in inspect.stack(0):
        place = (frame.frame.f_globals.get("__name__"), frame.function)
        if place in (("_pytest.runner", "runtestprotocol"), ("_pytest.main", "perform_collect")):
            return place[1] == "runtestprotocol"
    return False


def _run_of(value: object) -> EvalflowRun | None:
    made = inspect.isfunction(value) and getattr(value, "made", None)
    return made if isinstance(made, EvalflowRun) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> pytest.Collector | None:
    """Collect a run that is assigned to a name that pytest takes for a test's."""
    if inspect.isclass(obj) and collector.istestclass(obj, name):
        _collected(collector.config).update(_runs_in(obj, collector))
    made = _run_of(obj)
    if made is None or not collector.istestfunction(obj, name):
        return None
    _collected(collector.config).add(made)
    return GateTests.from_parent(collector, name=name, evaluated=made, marked=obj)  # pyright: ignore[reportUnknownMemberType]


def _runs_in(tests: type, collector: Any) -> Iterator[EvalflowRun]:
    """The runs of a class of tests, which are collected only if the class is asked for."""
    for name, value in vars(tests).items():
        made = _run_of(value)
        if made is not None and collector.istestfunction(value, name):
            yield made
        elif inspect.isclass(value) and collector.istestclass(value, name):
            yield from _runs_in(value, collector)


_COLLECTED = pytest.StashKey[set[EvalflowRun]]()


def _collected(config: pytest.Config) -> set[EvalflowRun]:
    return config.stash.setdefault(_COLLECTED, set())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, Any]:
    """Ignore the runs of a module that is skipped or cannot be imported; pytest reports it itself."""
    report = yield
    if isinstance(collector, pytest.Module) and not report.passed:
        _collected(collector.config).update(made for made in _MADE if Path(made.file) == collector.path)
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test that fails for each run that was made and not collected."""
    for made in _MADE:
        if made not in _collected(config):
            lost = LostRun.from_parent(session, name=str(made), evaluated=made)  # pyright: ignore[reportUnknownMemberType]
            items.append(lost)


def pytest_unconfigure() -> None:
    """Forget the runs of the session."""
    _MADE.clear()


class LostRun(pytest.Item):
    """A test that fails because a run's gates were not collected."""

    def __init__(self, *, evaluated: EvalflowRun, **rest: Any) -> None:
        super().__init__(**rest)  # pyright: ignore[reportUnknownMemberType]
        self._evaluated = evaluated

    def runtest(self) -> None:
        hint = "assign it, alone, to a name that begins with test, at the top of a test module or in a class of tests"
        raise UserError(Problem("pytest does not collect this run, so none of its gates is tested", self.name, hint))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return Path(self._evaluated.file), self._evaluated.line - 1, self.name


class GateTests(pytest.Collector):
    """The gates of a run."""

    def __init__(self, *, evaluated: EvalflowRun, marked: object, **rest: Any) -> None:
        super().__init__(**rest)
        self._evaluated = evaluated
        marks: list[pytest.Mark] = [getattr(one, "mark", one) for one in getattr(marked, "pytestmark", ())]
        self.own_markers.extend(marks)
        self.keywords.update({mark.name: mark for mark in marks})

    def collect(self) -> Iterator[pytest.Item]:
        if lost := sorted({mark.name for mark in self.iter_markers() if mark.name in _UNSUPPORTED}):
            hint = "in a test function of yours they work: run = evalflow.run(...); assert run.passed, run.sentence"
            raise self.CollectError(f"{', '.join(lost)} would change nothing about an evalflow_run\n  hint: {hint}")
        try:
            gates, cases = self._evaluated.tests()
        except EvalflowError as error:
            raise self.CollectError(str(error)) from None
        if not gates and not self._evaluated.each_case:
            what = "this run has no gate, so that it could not fail"
            chosen = (one.removeprefix("metric=") for one in self._evaluated.overrides if one.startswith("metric="))
            metric = next((name for one in chosen for name in re.findall(r"\w+", one)), "METRIC")
            raise self.CollectError(f"{what}\n  hint: add one, such as 'gate={{{metric}: {{mean: \">= 0.8\"}}}}'")
        for name, gate in gates.items():
            yield GateTest.from_parent(self, name=name, gate=gate, evaluated=self._evaluated)  # pyright: ignore[reportUnknownMemberType]
        if self._evaluated.each_case:
            several = len({dataset for dataset, _ in cases}) > 1
            for case in cases:
                name = " · ".join(case) if several else case[1]
                yield CaseTest.from_parent(self, name=name, case=case, evaluated=self._evaluated)  # pyright: ignore[reportUnknownMemberType]


class _TestOfRun(pytest.Item):
    """A test of a run."""

    def __init__(self, *, evaluated: EvalflowRun, **rest: Any) -> None:
        super().__init__(**rest)  # pyright: ignore[reportUnknownMemberType]
        self._evaluated = evaluated

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The gate's sentence, or the error of the run; a traceback for a bug only."""
        if isinstance(excinfo.value, GateError | EvalflowError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        name = f"{self.parent.name if self.parent else ''}: {self.name}"
        return Path(self._evaluated.file), self._evaluated.line - 1, name


class GateTest(_TestOfRun):
    """One gate."""

    def __init__(self, *, gate: str, **rest: Any) -> None:
        super().__init__(**rest)
        self._gate = gate

    def runtest(self) -> None:
        from evalflow.summary.verdicts import overall

        ended = self._evaluated.ended()
        rows = [row for row in ended.gates if row["name"] == self._gate]
        message = "\n".join(row["message"] for row in rows)
        passed = overall(row["passed"] for row in rows)
        if not rows or passed is False:
            raise GateError(
                f"{message or f'{self._gate}: the run has no such gate'}\nreport {ended.result.report.path}"
            )
        if passed is None:
            if self._evaluated.undecided == "skip":
                pytest.skip(f"undecided: {message}")
            raise GateError(f"undecided: {message}\nreport {ended.result.report.path}")


class CaseTest(_TestOfRun):
    """One case."""

    def __init__(self, *, case: tuple[str, str], **rest: Any) -> None:
        super().__init__(**rest)
        self._case = case

    def runtest(self) -> None:
        ended = self._evaluated.ended()
        why = ended.cases.get(self._case, "none of the run's metrics has a threshold, so that it could not fail")
        if why is not None:
            raise GateError(f"{why}\nreport {ended.result.report.path}")


class GateError(AssertionError):
    """A gate or a case failed, or is undecided."""


def _shared_file(session: str, name: str) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else os.getlogin()
    folder = Path(tempfile.gettempdir()) / f"evalflow-pytest-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for old in folder.iterdir():
        if time.time() - old.stat().st_mtime > _KEPT_S:
            old.unlink(missing_ok=True)
    here = f"{session} {Path.cwd()}"  # a session started within another one inherits its id
    return folder / f"{hashlib.sha256(here.encode()).hexdigest()[:16]}-{name}.json"
