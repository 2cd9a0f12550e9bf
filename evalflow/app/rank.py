"""The command `rank`: several runs in order, with joint confidence in their ranks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from glob import has_magic
from pathlib import Path

from rich.console import Console

from evalflow.app.core.ranking import rank_runs
from evalflow.app.core.saved import SavedRun, find_folder, jobs_of, open_scored
from evalflow.app.core.screen import shown
from evalflow.errors import Problem, UserError
from evalflow.report.ranking import RankingPage, print_rankings, write_ranking
from evalflow.run.folder import RunFolder


def rank(options: argparse.Namespace, console: Console) -> int:
    """Rank the runs, print the tables, and write rank.html and rank.csv into the folder of the sweep or last run.

    Raises:
        UserError: There is no such run, or the runs cannot be ranked together.
    """
    folder, runs = _runs(options.runs)
    found = rank_runs(runs, metric=options.metric, pairwise=options.pairwise, allow=options.allow)
    page = RankingPage({name: run.manifest for name, run in found.runs.items()}, found.rankings, found.notes)
    written = write_ranking(folder, page)
    if options.json:
        document = page.document() | {"page": str(written[0])}
        console.file.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
        return 0
    print_rankings(console, page)
    for path in written:
        console.print(f"{path.suffix[1:]:6} {shown(path)}", soft_wrap=True, markup=False)
    return 0


def _runs(given: Sequence[str]) -> tuple[Path, list[SavedRun]]:
    """The runs to rank, and the folder for the page: that of the last run or sweep named."""
    words = [path for word in given for path in _folders(word)]
    folder, runs = Path(), list[SavedRun]()
    for word in words or [None]:
        folder = find_folder(word)
        jobs = jobs_of(folder)
        paths = [folder] if jobs is None else [job for job in jobs if RunFolder(job).scores.is_file()]
        runs += [open_scored(RunFolder(path)) for path in paths]
    return folder, runs


def _folders(word: str) -> list[str]:
    """The folders that a glob stands for, in order of their names; any other word unchanged."""
    if not has_magic(word) or Path(word).exists():
        return [word]
    path = Path(word)
    found = sorted(map(str, Path(path.anchor).glob(str(path.relative_to(path.anchor)))))
    if not found:
        raise UserError(Problem("no folder has such a name", word, "see: ls outputs/runs"))
    return [path for path in found if Path(path, "run.json").is_file()] or found
