"""The Python functions of evalflow, which do the same as the command line and write the same files."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from evalflow.api.metric import Metrics, metric_words
from evalflow.api.results import Report, RunCalibration, RunComparison, RunResult, scored_run
from evalflow.api.tables import case_rows, label_rows
from evalflow.app.core.begin import RunOrder, keep_cases, order_of
from evalflow.app.core.changed import Kind
from evalflow.app.core.comparison import ComparisonOptions, compare_labelled
from evalflow.app.core.labels import bound_labels, other_runs
from evalflow.app.core.open_run import inspected
from evalflow.app.core.rederive import calibrate_run
from evalflow.app.core.saved import expect_two, find_run
from evalflow.app.core.screen import TerminalScreen
from evalflow.app.run import run as run_to_end
from evalflow.calls.given import name_of
from evalflow.config.env_file import load_env_file
from evalflow.engine.deadline import Interrupter
from evalflow.engine.folder import RunFolder
from evalflow.errors import EvalflowError, Problem, UserError, command, of_place
from evalflow.paths import shown
from evalflow.report.comparison_page import write_comparison
from evalflow.report.markdown import write_comparison_markdown

if TYPE_CHECKING:
    from evalflow.app.core.derive import Derived
    from evalflow.app.core.inspect import Inspection
    from evalflow.app.core.result_rules import ResultRules
    from evalflow.records.manifest import Manifest
    from evalflow.stats.paired import Adjustment

T = TypeVar("T")
CASES = "cases"
"""The dataset that holds cases given in Python, unless they replace the data of the one that is chosen."""
_TICK_S = 0.1


def run(
    *overrides: str,
    cases: object = None,
    target: Callable[..., object] | None = None,
    metrics: Metrics | None = None,
    config_dir: str | Path | None = None,
    folder: str | Path | None = None,
    progress: bool | None = None,
) -> RunResult:
    """Start a run and wait for its end: the same as the command line, with the same files.

    A failed or undecided gate is not an error; see `RunResult.passed`. Interrupted, it keeps what was finished.

    Args:
        overrides: Those of the command line, such as "dataset=rag", "metric=faithfulness", "judge.model=gpt-4.1".
        cases: The cases, in place of the file of the dataset that is chosen, or as the dataset `cases` if none is: a
            Polars or pandas frame, or dictionaries (`CaseRow`), dataclasses or pydantic models. The columns are those
            of a file; arrays and tuples are lists, and NaN, NaT and NA are missing values.
        target: A callable that answers a case (a function, lambda, bound method, partial or object), or returns an
            awaitable; instead of `target=python target.call=...`, and with `generate=true`.
        metrics: Callables that score an answer, beside the metrics that are named; see `metric`. A dictionary gives
            them names.
        config_dir: A folder with own configuration, searched first; as `--config-dir`.
        folder: Where to write; by default a new folder in outputs/runs.
        progress: Whether to show progress on standard error; by default on a terminal and in a notebook.

    Raises:
        UserError: The configuration or the data is wrong; it lists every problem, and nothing was sent.
        BudgetError: The budget ran out. InfrastructureError: an endpoint refuses every call. IncompleteError: scores
            are missing. WaitingError: batches are under way. What was finished is kept; the error's notes say where,
            and how to finish it.
    """
    interrupter = Interrupter()
    given = _Given(overrides, cases, target, metrics, config_dir, folder)
    work = partial(_run, given, progress, interrupter)
    if not _has_event_loop():
        return work()
    return _outcome(_in_thread(work), interrupter)  # a notebook's thread has an event loop; the run has its own


async def arun(
    *overrides: str,
    cases: object = None,
    target: Callable[..., object] | None = None,
    metrics: Metrics | None = None,
    config_dir: str | Path | None = None,
    folder: str | Path | None = None,
    progress: bool | None = None,
) -> RunResult:
    """Like `run`, in a thread of its own, while the event loop continues. Cancelled, the run keeps what is finished."""
    interrupter = Interrupter()
    given = _Given(overrides, cases, target, metrics, config_dir, folder)
    work = partial(_run, given, progress, interrupter)
    future = asyncio.wrap_future(_in_thread(work))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        interrupter()
        await asyncio.wait([future])
        future.exception()  # marks it as retrieved
        raise


def planned(
    *overrides: str,
    cases: object = None,
    target: Callable[..., object] | None = None,
    metrics: Metrics | None = None,
    config_dir: str | Path | None = None,
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Check a run without starting it. UserError as for `run`.

    Returns the names of its gates, by names that stay when a limit changes, and its cases: dataset and id.
    """
    inspection = inspected(_Given(overrides, cases, target, metrics, config_dir).order())
    gates: dict[str, str] = {}
    for gate in inspection.gates:
        plain = f"{gate.about} {gate.statistic}{' baseline' if gate.baseline else ''}"
        with_sign = plain if plain not in gates else f"{plain} {gate.condition.operator}"
        gates[with_sign if with_sign not in gates else str(gate)] = str(gate)
    return gates, [(case.dataset, case.id) for case in inspection.draw.pick(inspection.offered)]


def load(folder: str | Path | None = None) -> RunResult:
    """A run in a folder, by default the latest one; UserError if there is none, or it is a sweep of several."""
    run = find_run(None if folder is None else str(folder))
    return RunResult(run.folder.path)


def compare(
    a: RunResult | str | Path,
    b: RunResult | str | Path,
    *,
    labels: object = None,
    judge_alone: bool = False,
    margin: float | None = None,
    adjust: Adjustment = "holm",
    unpaired: bool = False,
    tags: bool = False,
    allow: Collection[Kind] = (),
) -> RunComparison:
    """Compare run B with run A, case by case: better, worse, or cannot tell.

    Writes compare.html and compare.md beside B's report.

    Args:
        a: The earlier run, or its folder.
        b: The later one.
        labels: People's labels of both runs' answers, which correct the differences: a file, a frame or dictionaries;
            by default those in the data, or that the runs were calibrated with.
        judge_alone: Do not correct differences by labels.
        margin: Also say whether B is not worse by more than this.
        adjust: How p-values are adjusted for the number of comparisons: holm, bh or by.
        unpaired: The runs are samples of different cases.
        tags: Also a row for each tag.
        allow: What may differ although scores may then differ in meaning: metric, prompt, judge, cases.

    Raises:
        UserError: The runs cannot be compared; it lists every obstacle.
    """
    older, newer = (scored_run(one) for one in (a, b))
    expect_two(older, newer)
    how = ComparisonOptions(allow, adjust, margin, by_tag=tags, unpaired=unpaired, allow_option="allow=")
    if labels is not None and judge_alone:
        raise UserError(Problem("judge_alone uses no labels", "compare()", "leave out labels or judge_alone"))
    comparison = compare_labelled([(older, newer)], how, _labels(labels), judge_alone=judge_alone)
    page = newer.folder.path / "compare.html"
    write_comparison(page, comparison)
    write_comparison_markdown(page.with_suffix(".md"), comparison)
    return RunComparison(comparison, Report(page))


def calibrate(run: RunResult | str | Path, labels: object = None) -> RunCalibration:
    """Compare a run's judges with people's labels; the run's gates, certificates and reports follow, as by `calibrate`.

    Args:
        run: The run, or its folder.
        labels: A file, a frame or dictionaries with the columns case_id, metric, value and by; by default those in the
            run's data.

    Raises:
        UserError: No label is of an answer that the run scored, or some are invalid.
    """
    saved = scored_run(run)
    people = bound_labels(saved, _labels(labels), other_runs(saved.folder.path))
    calibrated = calibrate_run(saved.folder, people)
    if calibrated is None:
        raise UserError(Problem("none of the labelled answers was scored", people.source, "label other answers"))
    calibration, certificates, gates = calibrated
    paths = tuple(one.path for one in certificates if one.path)
    return RunCalibration(calibration, paths, tuple(gates), Report(saved.folder.calibration_page))


class _LibraryScreen(TerminalScreen):
    """Shows progress only, and keeps the warnings."""

    def __init__(self, progress: bool | None, interrupter: Interrupter) -> None:
        err = Console(stderr=True)
        wanted = err.is_terminal or err.is_jupyter if progress is None else progress
        err.quiet = not wanted
        super().__init__(Console(file=io.StringIO(), quiet=True), err)
        self.interrupter = interrupter
        self.notes: tuple[str, ...] = ()

    def starts(self, inspection: Inspection, folder: RunFolder) -> None:
        self.notes = tuple(dict.fromkeys(inspection.notices()))
        super().starts(inspection, folder)

    def ends(self, folder: RunFolder, manifest: Manifest, rules: ResultRules, derived: Derived) -> None:
        pass


@dataclass(frozen=True)
class _Given:
    """The arguments of a run; see `run`."""

    overrides: Sequence[str]
    cases: object
    target: Callable[..., object] | None
    metrics: Metrics | None
    config_dir: str | Path | None
    folder: str | Path | None = None

    def order(self) -> RunOrder:
        load_env_file()
        own = None if self.config_dir is None else Path(self.config_dir)
        overrides = list(_checked(self.overrides))
        overrides += [*_target_words(self.target), *metric_words(self.metrics), *_cases_words(self.cases, overrides)]
        return order_of(overrides, own, None if self.folder is None else Path(self.folder))


def _run(given: _Given, progress: bool | None, interrupter: Interrupter) -> RunResult:
    with _places():
        order = given.order()
        path = order.folder
        screen = _LibraryScreen(progress, interrupter)
        try:
            run_to_end(order, screen)
        except (EvalflowError, KeyboardInterrupt) as error:
            if RunFolder(path).manifest.is_file() and not isinstance(error, UserError):
                error.add_note(f"finished work is in {shown(path)}; finish it: {command('resume', shown(path))}")
            raise
    return RunResult(path, screen.notes)


@contextlib.contextmanager
def _places() -> Generator[None]:
    """Turn errors of files and folders into EvalflowErrors with a hint."""
    try:
        yield
    except OSError as error:
        raise of_place(error) or error from error


def _checked(overrides: Sequence[object]) -> Iterator[str]:
    for word in overrides:
        if not isinstance(word, str):
            what = f"an override is text, such as 'dataset=rag', and this is a {type(word).__name__}"
            raise UserError(Problem(what, "run()", "give each as an argument of its own: run(*overrides)"))
        if word.startswith("-") or ("=" not in word and not word.startswith("~")):
            hint = "for a sweep call run() once for each" if word in ("-m", "--multirun") else "write KEY=VALUE"
            raise UserError(Problem(f"{word!r} is not an override", "run()", hint))
        if word.lstrip("+~").startswith("hydra."):
            raise UserError(Problem(f"{word!r}: Hydra starts no job here", "run()", "for another folder: folder=..."))
        yield word


def _target_words(target: object) -> list[str]:
    if target is None:
        return []
    if not callable(target):
        what = f"a target is a callable that takes a case, and this is a {type(target).__name__}"
        raise UserError(Problem(what, "target", "name a target that has a configuration by an override: target=NAME"))
    return ["target=python", f"target.call={name_of(target)}", "generate=true"]


def _cases_words(cases: object, overrides: Sequence[str]) -> list[str]:
    """The override that reads the cases from a file, named by its content, so that a run can be resumed."""
    if cases is None:
        return []
    file = keep_cases(case_rows(cases))
    chosen = next((word.partition("=")[2] for word in overrides if word.startswith("dataset=")), None)
    if chosen is None:
        return [f"+dataset.{CASES}.path={file}"]
    if not chosen.isidentifier():
        hint = "choose the dataset whose columns they have, or none"
        raise UserError(Problem(f"cases are those of one dataset, not of {chosen}", "cases", hint))
    return [f"dataset.{chosen}.path={file}", f"dataset.{chosen}.format=jsonl"]


def _labels(given: object) -> str | list[Mapping[str, Any]] | None:
    if given is None:
        return None
    return str(given) if isinstance(given, str | Path) else label_rows(given)


def _has_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_thread(work: Callable[[], T]) -> Future[T]:
    pool = ThreadPoolExecutor(1, "evalflow.run")
    try:
        return pool.submit(copy_context().run, work)
    finally:
        pool.shutdown(wait=False)


def _outcome(future: Future[T], interrupter: Interrupter) -> T:
    """Return the result of work in another thread; pass interrupts of this waiting thread on to it."""
    task, cancelled = asyncio.current_task(), 0
    while True:
        try:
            return future.result(timeout=_TICK_S)
        except KeyboardInterrupt:
            if future.done():
                raise
            interrupter()
        except TimeoutError:
            if future.done():
                raise
            # Within asyncio.run, the first Ctrl-C cancels the task and raises nothing.
            if task is not None and task.cancelling() > cancelled:
                cancelled = task.cancelling()
                interrupter()
