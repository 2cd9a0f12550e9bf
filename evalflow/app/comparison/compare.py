"""The command `compare`: run B against run A, or every two runs of a sweep."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from rich.console import Console

from evalflow.app.comparison.comparable import Scored, open_scored
from evalflow.app.comparison.comparing import How, compare_pairs
from evalflow.app.locate import find_folder, find_run, jobs_of
from evalflow.app.screen import shown
from evalflow.errors import Problem, UserError
from evalflow.report.comparison import write_comparison
from evalflow.report.comparison_console import print_comparison
from evalflow.run.folder import RunFolder

_ANOTHER = (
    "name the folder of another run, such as one of outputs/runs: `compare` takes A and B, or A for the latest as B"
)


def compare(options: argparse.Namespace, console: Console) -> int:
    """Compare, print the table, and write compare.html into the folder of run B or of the sweep.

    Args:
        options: runs (A and B; A alone is held against the latest run; a sweep, or nothing where the latest is one, for
            all its pairs), allow, adjust, margin, tags, classes, unpaired, json.
        console: Where to print.

    Raises:
        UserError: There is no such run, or what the runs measured is not the same.
    """
    by = {"by_tag": options.tags, "by_class": options.classes, "unpaired": options.unpaired}
    how = How(options.allow, options.adjust, options.margin, **by)
    folder, pairs = _pairs(options.runs)
    found = compare_pairs(pairs, how)
    write_comparison(folder / "compare.html", found)
    if options.json:
        document = found.document() | {"page": str(folder / "compare.html")}
        console.file.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
        return 0
    print_comparison(console, found)
    console.print(f"page   {shown(folder / 'compare.html')}", soft_wrap=True, markup=False)
    return 0


def _pairs(given: Sequence[str]) -> tuple[Path, list[tuple[Scored, Scored]]]:
    """The runs to compare, and the folder that the page goes to."""
    if len(given) > 2:
        raise UserError(
            Problem(f"{len(given)} runs", "command line", "name two, or the folder of a sweep for all pairs")
        )
    jobs = jobs_of(find_folder(given[0] if given else None)) if len(given) < 2 else None
    if jobs is not None:
        folder = find_folder(given[0] if given else None)
        runs = [open_scored(RunFolder(job), job.name) for job in jobs if RunFolder(job).scores.is_file()]
        if len(runs) < 2:
            raise UserError(Problem("fewer than two runs of this sweep have scores", str(folder)))
        return folder, list(combinations(runs, 2))
    if not given:
        raise UserError(Problem("compare with what?", "command line", _ANOTHER))
    a, b = find_run(given[0]), find_run(given[1] if len(given) > 1 else None)
    if a.path == b.path:
        raise UserError(Problem("this is one run, not two", str(a.path), _ANOTHER))
    return b.path, [(open_scored(a, a.path.name), open_scored(b, b.path.name))]
