"""The commands `report`, `open` and `cases`: show a finished run."""

from __future__ import annotations

import argparse
import json
import sys
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from evalflow.app.core.calibration import rank_again
from evalflow.app.core.labels import people_of_run
from evalflow.app.core.rederive import rewrite
from evalflow.app.core.saved import SavedRun, answered_rows, find_folder, find_scored, jobs_of, open_run
from evalflow.app.core.sweep import write_sweep
from evalflow.datasets import tag_levels, tag_name
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command, unknown_name
from evalflow.lazy import pl
from evalflow.paths import shown
from evalflow.records import CUT_OFF
from evalflow.report.cases import print_case
from evalflow.report.findings import exclusion_findings
from evalflow.report.results_csv import ABOUT_ANSWER, COLUMNS, FAULT, RESULT, AnsweredCase, as_answered
from evalflow.report.wording import counted, literal, number, percent, plain, print_json
from evalflow.summary.labelled_cells import counted_pass, with_people
from evalflow.summary.rows import rows_of


def report_again(given: Sequence[str], overrides: Sequence[str], console: Console) -> int:
    """Rewrite all derived files of runs, and of sweeps with all their runs; UserError if one needs new scores."""
    for path in map(find_folder, given or [None]):
        jobs = jobs_of(path)
        for run in jobs if jobs is not None else [path]:
            before = _numbers(run)
            _, derived = rewrite(RunFolder(run), overrides)
            for line in [*_changes(before, _numbers(run)), *exclusion_findings(derived.summary.details)]:
                console.print(literal(line if jobs is None else f"{run.name}: {line}"), soft_wrap=True)
        if jobs is not None:
            rank_again(path, jobs)
            write_sweep(path, jobs)
        console.print(literal(shown(path / "report.html")), soft_wrap=True)
    return 0


def _numbers(run: Path) -> dict[str, str]:
    """The numbers of a run's summary, and its exit code; empty without a summary."""
    folder = RunFolder(run)
    table = run / "summary.parquet"
    if not table.is_file():
        return {}
    figures: dict[str, str] = {}
    for row in rows_of(pl.read_parquet(table).filter(pl.col("tag").is_null())):
        name = " ".join(filter(None, (row.dataset, row.target, row.metric, row.statistic, row.judge)))
        figures[name] = number(row.value)
        if row.pass_rate is not None:
            figures[f"{name}, pass rate"] = percent(row.pass_rate)
    return {**figures, "exit code": str(folder.read_manifest().exit_code)}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    names = dict.fromkeys([*before, *after]) if before else {}
    changed = [name for name in names if before.get(name) != after.get(name)]
    return [f"{name}: {before.get(name, '–')} → {after.get(name, '–')}" for name in changed]


def open_report(folder: str | None, console: Console) -> int:
    """Open a report in the browser; without a browser, print the page's path."""
    page = find_folder(folder) / "report.html"
    if not page.is_file():
        raise UserError(Problem("there is no report", str(page), f"write it: {command('report', page.parent)}"))
    console.print(literal(shown(page)), soft_wrap=True)
    if not webbrowser.open(page.as_uri()):
        sys.stderr.write("no browser could be started; open the file yourself\n")
    return 0


_SCORE_KEYS = ("metric", "judge", "member_of", "repeat", *RESULT, "reason", *FAULT, "path")
_BY_PEOPLE = ("human", "human_passed", "human_undefined")


def show_cases(options: argparse.Namespace, console: Console) -> int:
    """Show the cases that match the options, in input order, each with the answers of all targets."""
    if options.limit < 0:
        raise UserError(Problem(f"--limit is {options.limit}", "command line", "--limit 0 shows all cases"))
    run = find_scored(options.run, "cases")
    folder = run.folder
    scores = _matching(with_people(run.scores(), _usable_people(run)), folder, options)
    ids = scores.select("dataset", "case_id").unique(maintain_order=True).collect(engine="streaming")
    wanted = ids.head(options.limit) if options.limit else ids
    shown = list(case_rows(folder, scores, wanted, (*COLUMNS, *_BY_PEOPLE)))
    if options.json:
        return print_json(console, {"n": ids.height, "cases": shown})
    for case in shown:
        print_case(console, case)
    limited = pl.scan_parquet(folder.scores).select(pl.col("threshold").is_not_null().any())
    if options.failed and not shown and not limited.collect().item():
        console.print("no score of this run can fail: no threshold counts here; leave --failed out")
    left = ids.height - wanted.height
    more = f"; {left} more with --limit 0" if left else ""
    console.print(f"{counted(wanted.height, 'case')}{more}", style="dim")
    return 0


def _usable_people(run: SavedRun) -> pl.DataFrame | None:
    """People's labels of the run's answers; None, with a note, if they are damaged: the cases can be shown anyway."""
    try:
        return people_of_run(run)
    except UserError as error:
        first = plain(str(error.problems[0]))
        sys.stderr.write(f"note: labels cannot be read, so the scores count as the run made them: {first}\n")
        return None


def _matching(scores: pl.LazyFrame, folder: RunFolder, options: argparse.Namespace) -> pl.LazyFrame:
    every = scores
    for column, given in (("metric", options.metric), ("case_id", options.id)):
        if given is None:
            continue
        known: list[str] = every.select(pl.col(column).unique()).collect()[column].to_list()
        if given not in known:
            what = f"the run has no {column.removesuffix('_id')} {given!r}"
            raise UserError(unknown_name(what, str(folder.path), given, known))
        scores = scores.filter(pl.col(column) == given)
    if options.tag is not None:
        scores = scores.filter(_tagged(every, folder, options.tag))
    if options.cut_off:
        scores = scores.filter(pl.col("finish_reason") == CUT_OFF)
    if options.failed:
        failed = (pl.col("status") == "error") | ~counted_pass().fill_null(value=True)
        scores = scores.filter(failed & pl.col("member_of").is_null())
    return scores


def _tagged(scores: pl.LazyFrame, folder: RunFolder, given: str) -> pl.Expr:
    tag = tag_name(given)
    tag_lists = scores.select(pl.col("tags").explode().unique().drop_nulls()).collect()["tags"].to_list()
    known = {level for own in tag_lists for level in tag_levels(own)}
    if tag not in known:
        what, where = f"the run has no tag {given!r}", str(folder.path)
        problem = Problem(what, where, "its cases have no tags")
        raise UserError(unknown_name(what, where, given, known) if known else problem)
    matching = [own for own in tag_lists if tag in tag_levels(own)]
    return pl.col("tags").list.eval(pl.element().is_in(matching)).list.any()


def case_rows(
    folder: RunFolder, scores: pl.LazyFrame, wanted: pl.DataFrame, columns: Sequence[str] = COLUMNS
) -> Iterator[dict[str, Any]]:
    """Each wanted case with the answers of all targets and its scores; the keys are those of `cases --json`."""
    yield from map(_described, answered_rows(open_run(folder), scores, set(wanted.iter_rows()), columns))


def _described(row: AnsweredCase) -> dict[str, Any]:
    case = as_answered(row.case, row.answer)
    return {
        "dataset": case.dataset,
        "id": case.id,
        "tags": list(case.tags),
        "target": row.target,
        "target_repeat": row.target_repeat,
        "messages": [{"role": message.role, "content": message.text} for message in case.messages],
        "answer": case.answer,
        "actual": case.actual,
        **{name: getattr(row.answer, name, None) for name in ABOUT_ANSWER},
        "error": row.answer.error if row.answer else None,
        "metadata": case.metadata,
        "reference": case.reference,
        "expected": case.expected,
        "contexts": [{"title": c.title, "text": c.text} for c in case.contexts or ()],
        "scores": [
            {key: score[key] for key in (*_SCORE_KEYS, *_BY_PEOPLE) if key in score}
            | {"value": json.loads(score["value"] or "null"), "steps": json.loads(score["steps"] or "[]")}
            for score in row.scores
        ],
    }
