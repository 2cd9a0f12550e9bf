"""The command `race`: run two configurations alternately on the same cases until their difference is decided."""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from evalflow.app.core.assemble import batched_keys, settings_of
from evalflow.app.core.begin import RunOrder, described
from evalflow.app.core.changed import unlike_metrics, what_changed
from evalflow.app.core.comparison import ComparisonOptions, attributed, notes_of, questions_of
from evalflow.app.core.inspect import Inspection
from evalflow.app.core.open_run import OpenRun, inspected, opened
from evalflow.app.core.saved import open_run
from evalflow.app.core.screen import TerminalScreen
from evalflow.config.load import HydraJob, launch
from evalflow.engine.deadline import interruptible
from evalflow.engine.journal import WatchedSink
from evalflow.engine.pipeline import Pipeline, run_turn_by_turn
from evalflow.engine.race import A, B, RaceLooks
from evalflow.errors import Problem, UserError, command, unknown_name
from evalflow.lazy import pl
from evalflow.metrics.kinds.composite import CompositeMetricConfig
from evalflow.paths import new_run_id, shown
from evalflow.report.comparison import Comparison, print_comparison
from evalflow.report.comparison_page import write_comparison
from evalflow.report.wording import counted, print_json, who_scored
from evalflow.summary.case_changes import CaseChanges, changed_cells
from evalflow.summary.compare import ComparisonRow, adjusted
from evalflow.summary.pairing import pair_scores

_BOTS = "target.model=gpt-4.1,gpt-4.1-mini"
_EXAMPLE = command("race", "dataset=rag", "metric=exact_match", "generate=true", "target=openai", _BOTS)


def race(options: argparse.Namespace, console: Console, err: Console) -> int:
    """Run both sides, compare them, and write compare.html into the folder of B.

    UserError if there are not two sides that can be compared: nothing was sent. Other errors, if a side ended early,
    leave finished results.
    """
    how = ComparisonOptions(margin=options.margin)
    screen = TerminalScreen(err, err)
    screen.sweeping()
    sides = [f"experiment={','.join(options.experiments)}"] if options.experiments else []
    overrides = [*sides, *options.overrides]
    run_id, jobs = new_run_id(overrides), list[HydraJob]()
    try:
        launch([*overrides, "-m"], jobs.append, options.config_dir, run_id, settings_of)
        orders = _orders(jobs, run_id)
        first = inspected(orders[0])
        second = inspected(orders[1], first.parts.session)
        metric = _raced(first, second, options.metric)
        looks = _looks(first, second, metric, options.margin)
        with opened(orders[0], first, screen) as a, opened(orders[1], second, screen) as b:
            _run_both(a, b, looks, metric, screen)
    except KeyboardInterrupt:
        screen.interrupted(None)
        return 130
    finally:
        _remove_empty([job.folder for job in jobs])
    compared, page = _comparison(a, b, looks, metric, how), b.folder.path / "compare.html"
    write_comparison(page, compared)
    if options.json:
        document = compared.document() | {"page": str(page), "saved": _saved(a, b)}
        return print_json(console, document)
    print_comparison(console, compared)
    for label, text in (("saved", _saved_in_words(_saved(a, b))), ("page", shown(page))):
        console.print(f"{label:<7}{text}", soft_wrap=True, markup=False)
    return 0


def _orders(jobs: Sequence[HydraJob], run_id: str) -> list[RunOrder]:
    if len(jobs) != 2:
        what = f"a race has two sides, and these are {len(jobs)}"
        raise UserError(Problem(what, "command line", f"give one key two values: {_EXAMPLE}"))
    return [
        RunOrder(job.read(), job.folder, f"{run_id}-{number}", job.folder, races=True)
        for number, job in enumerate(jobs)
    ]


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders that hold nothing but Hydra's configuration, which it writes before any check."""
    for folder in folders:
        if {path.name for path in folder.glob("*")} <= {".hydra"}:
            shutil.rmtree(folder, ignore_errors=True)
    for parent in {folder.parent for folder in folders}:
        if parent.is_dir() and {path.name for path in parent.glob("*")} <= {"multirun.yaml"}:
            shutil.rmtree(parent, ignore_errors=True)


def _raced(a: Inspection, b: Inspection, given: str | None) -> str:
    """The metric that decides; UserError if it allows no looks, or the sides measure different things or cases."""
    problems: list[Problem] = []
    runs, where = (a.parts.settings.run, b.parts.settings.run), "command line"
    for key in ("dataset", "limit", "sample", "seed"):
        if getattr(runs[0], key) != getattr(runs[1], key):
            what = f"the sides differ in {key}, so they would not be asked the same cases in the same order"
            problems.append(Problem(what, where, "let only the target, its settings or repeats differ"))
    problems += [Problem("a race stops by its own looks", "stop", "leave stop out") for run in runs if run.stop][:1]
    if any(run.engine.kind != "local" for run in runs):
        what = "a race looks at its sides case by case, which no cluster does"
        problems.append(Problem(what, "engine", "engine=local"))
    if batched := batched_keys(a.parts.settings) or batched_keys(b.parts.settings):
        hint = f"{batched[0]}.batch=false"
        problems.append(Problem("a race asks case by case, and a batch many at once", f"{batched[0]}.batch", hint))
    common = [name for name in a.scored if name in b.scored]
    if given is not None and given not in common:
        raise UserError(unknown_name(f"no metric {given!r} on both sides", "--metric", given, common))
    if given is None and len(common) != 1:
        what = f"{len(common)} metrics are on both sides, and one decides a race"
        problems.append(Problem(what, where, f"name it: --metric {common[0] if common else 'METRIC'}"))
        raise UserError(problems)
    name = given or common[0]
    unlike = unlike_metrics(name, described(a), described(b))
    problems += [Problem(o.what, where, "a race needs one metric and judge") for o in unlike]
    metric = a.scored[name].metric
    if not metric.bounded:
        what = f"the scores of {name} are not in 0..1, so their difference has no known range"
        problems.append(Problem(what, where, "race on another metric: --metric, or run both and compare them"))
    elif isinstance(metric.config, CompositeMetricConfig) or a.declared[name] != name:
        what = f"{name} is not scored with every case: it is computed at the end, or only some cases bring it"
        problems.append(Problem(what, where, "race on another metric: --metric"))
    if problems:
        raise UserError(problems)
    return name


def _looks(a: Inspection, b: Inspection, metric: str, margin: float | None) -> RaceLooks:
    repeats = [side.parts.settings.run.repeats for side in (a, b)]
    asks, covers = a.scored[metric].metric.asks, a.scored[metric].metric.config.covers
    cells = tuple(one.target * (one.judge if asks else 1) for one in repeats)
    return RaceLooks((cells[0], cells[1]), [name for name in a.parts.settings.run.dataset if covers(name)], margin)


def _run_both(a: OpenRun, b: OpenRun, looks: RaceLooks, metric: str, screen: TerminalScreen) -> None:
    cases = looks.follow(a.inspection.selected(), a.inspection.parts.settings.run.seed)

    async def work(resources: ExitStack) -> bool:
        following = asyncio.create_task(screen.follow(a.tally))
        try:
            pipelines = [
                Pipeline(
                    await one.plan(resources),
                    WatchedSink(one.sink(None), [metric], partial(looks.note_of, side)),
                    one.tally,
                )
                for side, one in ((A, a), (B, b))
            ]

            def stop() -> None:
                for pipeline in pipelines:
                    pipeline.stop()
                screen.stopping(a.tally.in_flight + b.tally.in_flight)

            return await interruptible(run_turn_by_turn(pipelines, cases), stop)
        finally:
            following.cancel()
            for one in (a, b):
                await one.inspection.parts.close()

    with ExitStack() as resources:
        if asyncio.run(work(resources)):
            raise KeyboardInterrupt
    for one in (a, b):
        one.journal.check()
        one.stopped = "race" if looks.stopped else None


def _comparison(a: OpenRun, b: OpenRun, looks: RaceLooks, metric: str, how: ComparisonOptions) -> Comparison:
    runs = [open_run(one.folder) for one in (a, b)]
    pair = runs[0].name, runs[1].name
    higher = a.inspection.scored[metric].metric.config.direction == "higher_is_better"
    judge = scorer.info.name if (scorer := a.inspection.scored[metric].judge) else None
    rows: list[ComparisonRow] = []
    pairing = pair_scores(runs[0].scores(), runs[1].scores())
    notes = list(notes_of(runs[0], runs[1], pairing, (A, B)))
    by_labels = command("compare", *(shown(run.folder.path) for run in runs))
    notes.append(f"by the {who_scored(judge)} alone: with labels of both runs' answers, {by_labels}")
    for dataset, (difference, within) in looks.results().items():
        rows.append(ComparisonRow(pair, dataset, metric, judge, None, "mean", higher, difference))
        if within:
            notes.append(f"{dataset}: the difference is at most {how.margin:g}, in either direction")
    changed = what_changed(*runs)
    others = [name for name in a.inspection.scored if name != metric]
    if others and looks.stopped:
        notes.append(f"{', '.join(others)}: not compared, as intervals of other metrics do not allow for the stop")
    left, right = (run.scores().filter(pl.col("metric") == metric) for run in runs)
    listed = CaseChanges(pair, changed_cells(pair_scores(left, right, runs[1].traits), runs[1].traits), right)
    return Comparison(
        runs={run.name: run.manifest for run in runs},
        rows=adjusted(list(attributed(rows, changed)), "holm"),
        adjust="holm",
        margin=how.margin,
        notes=notes,
        flips=[listed],
        questions=dict(questions_of({run.name: run for run in runs}, [listed])),
        changed=[changed],
    )


def _saved(a: OpenRun, b: OpenRun) -> dict[str, Any]:
    """Return the number of cases not run on each side, and about how many requests that saved."""
    of, asked = a.inspection.cases.total(), a.tally.asked.total()
    spent = a.tally.requests + b.tally.requests
    return {"cases": of, "asked": asked, "requests": spent, "requests_saved": round(spent * (of / max(1, asked) - 1))}


def _saved_in_words(saved: dict[str, Any]) -> str:
    left = saved["cases"] - saved["asked"]
    if not left:
        return f"nothing: all {counted(saved['cases'], 'case')} were asked"
    calls = f", about {saved['requests_saved']:,} requests besides the {saved['requests']:,} sent"
    return f"{left:,} of {saved['cases']:,} cases on each side were not asked{calls if saved['requests'] else ''}"
