"""The command `compare`: compare run B with run A, or every two runs of a sweep."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice
from pathlib import Path

from rich.console import Console

from evalflow.app.core.changed import of_different_cases
from evalflow.app.core.comparison import ComparisonOptions, compare_labelled
from evalflow.app.core.saved import (
    ANOTHER,
    SavedRun,
    expect_scores,
    expect_two,
    find_folder,
    find_run,
    jobs_of,
    scored_runs,
)
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.paths import shown
from evalflow.records.manifest import Manifest
from evalflow.report.comparison import Comparison, print_comparison
from evalflow.report.comparison_page import write_comparison
from evalflow.report.markdown import write_comparison_markdown
from evalflow.report.wording import print_json

_LOOKED_AT = 50  # number of earlier runs, and of later ones, newest first, searched for one to compare with


def compare(options: argparse.Namespace, console: Console) -> int:
    """Compare, print the table, and write compare.html and compare.md into the folder of run B or of the sweep."""
    folder, comparison = compared(options)
    write_comparison(folder / "compare.html", comparison)
    write_comparison_markdown(folder / "compare.md", comparison)
    if options.json:
        document = comparison.document() | {"page": str(folder / "compare.html")}
        return print_json(console, document)
    print_comparison(console, comparison)
    console.print(f"page   {shown(folder / 'compare.html')}", soft_wrap=True, markup=False)
    return 0


def compared(options: argparse.Namespace) -> tuple[Path, Comparison]:
    """The folder for the page, and the comparison; writes nothing. UserError if the runs cannot be compared."""
    by = {"by_tag": options.tags, "by_class": options.classes, "unpaired": options.unpaired}
    how = ComparisonOptions(options.allow, options.adjust, options.margin, **by)
    if options.labels and options.judge_alone:
        hint = "leave out --labels or --judge-alone"
        raise UserError(Problem("--judge-alone uses no labels", "command line", hint))
    folder, pairs = _pairs(options.runs)
    return folder, compare_labelled(pairs, how, options.labels, judge_alone=options.judge_alone)


def _pairs(given: Sequence[str]) -> tuple[Path, list[tuple[SavedRun, SavedRun]]]:
    """The runs to compare, and the folder for the page."""
    if len(given) > 2:
        hint = "name two, or the folder of a sweep for all pairs"
        raise UserError(Problem(f"{len(given)} runs", "command line", hint))
    folder = find_folder(given[0] if given else None)
    jobs = jobs_of(folder) if len(given) < 2 else None
    if jobs is not None:
        runs = scored_runs(jobs)
        if len(runs) < 2:
            raise UserError(Problem("fewer than two runs of this sweep have scores", str(folder)))
        return folder, list(combinations(runs, 2))
    if not given:
        raise UserError(Problem("name a second run to compare with", "command line", _another_than(find_run(None))))
    a, b = find_run(given[0]), find_run(given[1] if len(given) > 1 else None)
    expect_two(a, b, _another_than)
    return b.folder.path, [(expect_scores(a), expect_scores(b))]


def _another_than(run: SavedRun) -> str:
    """How to compare a run with another one: the newest of the same data, else the newest with a metric in common.

    Of two runs the earlier is A, and earlier ones than this are looked at first.
    """
    folders = sorted((file.parent for file in run.folder.path.parent.glob("*/run.json")), reverse=True)
    earlier = [folder for folder in folders if folder.name < run.folder.path.name]
    later = [folder for folder in folders if folder.name > run.folder.path.name]
    of_other_data: tuple[SavedRun, SavedRun] | None = None
    for folders, which in ((earlier, "an earlier one"), (later, "a later one")):
        for other in _comparable(islice(folders, _LOOKED_AT), run):
            a, b = (other, run) if folders is earlier else (run, other)
            if a.manifest.datasets.keys() & b.manifest.datasets.keys():
                return f"with {which}: {command('compare', shown(a.folder.path), shown(b.folder.path))}"
            of_other_data = of_other_data or (a, b)
    return of_different_cases(of_other_data) if of_other_data else ANOTHER


def _comparable(folders: Iterable[Path], run: SavedRun) -> Iterator[SavedRun]:
    """The runs in these folders that have scores and a metric in common with a run."""
    for folder in map(RunFolder, folders):
        try:
            content = folder.read()
        except UserError:
            continue  # damaged
        if isinstance(content, Manifest) and folder.scores.is_file() and content.metrics.keys() & run.manifest.metrics:
            yield SavedRun(folder, content, folder.path.name)
