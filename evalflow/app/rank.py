"""The command `rank`: several runs in order, with joint confidence in their ranks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from glob import has_magic
from pathlib import Path

from rich.console import Console

from evalflow.app.core.options import check_new_name
from evalflow.app.core.ranking import Standings, rank_runs, ranked_items
from evalflow.app.core.saved import SavedRun, find_folder, jobs_of, open_scored, scored_runs
from evalflow.app.core.screen import propose_command, write_new
from evalflow.config.yaml_text import option_text
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.paths import shown
from evalflow.report.ranking import print_rankings, write_ranking
from evalflow.report.wording import print_json
from evalflow.summary.items import ShortSet, short_set


def ranked(options: argparse.Namespace) -> tuple[Path, Standings]:
    """The folder for the page, and the ranking; writes nothing. UserError if the runs cannot be ranked."""
    if (options.out and options.short is None) or (options.labels and options.judge_alone):
        what = "--out names a short set: give --short N" if options.out else "--judge-alone uses no labels"
        raise UserError(Problem(what, "command line", f"see: {command('rank', '--help')}"))
    folder, runs = _runs(options.runs)
    labels = {"given": options.labels, "judge_alone": options.judge_alone}
    return folder, rank_runs(runs, metric=options.metric, pairwise=options.pairwise, allow=options.allow, **labels)


def rank(options: argparse.Namespace, console: Console) -> int:
    """Rank the runs, print the tables, and write rank.html and rank.csv into the folder of the sweep or last run.

    With `--items` also items.csv, and with `--out` the YAML of a short dataset.
    """
    folder, standings = ranked(options)
    items = ranked_items(standings) if options.items else []
    short = None if options.short is None else _short(standings, options.short)
    files = (
        {} if short is None or not options.out else _short_yaml(options.out, short, next(iter(standings.runs.values())))
    )
    page = standings.page(items, short)
    written = write_ranking(folder, page)
    if options.json:
        write_new(files, Console(stderr=True))
        document = page.document() | {"page": str(written[0])}
        return print_json(console, document)
    print_rankings(console, page)
    for path in written:
        console.print(f"{path.suffix[1:]:6} {shown(path)}", soft_wrap=True, markup=False)
    write_new(files, console)
    if short is not None and files:
        propose_command(console, command("check", f"dataset={options.out}", f"metric={short.metric}"), "")
    return 0


def _short(standings: Standings, n: int) -> ShortSet:
    """The short set of the one metric that is ranked; UserError without more than n cases, or with several metrics."""
    if len(standings.tables) > 1:
        names = list(dict.fromkeys(f"--metric {table.metric}" for table in standings.tables))
        hint = ", or ".join(names) if len(names) > 1 else "rank runs of one dataset"
        raise UserError(Problem("a short set keeps the ranking by one metric of one dataset", "--short", hint))
    [common] = standings.tables
    if not 1 <= n < common.cases.height:
        what = f"a short set of {n:,} out of {common.cases.height:,} common cases"
        raise UserError(Problem(what, "--short", f"choose from 1 to {common.cases.height - 1:,}"))
    return short_set(common, n, seed=standings.seed)


def _short_yaml(name: str, short: ShortSet, run: SavedRun) -> dict[Path, str]:
    """The file of a new dataset: these cases of the data that the run has read, under the same name in results."""
    check_new_name("dataset", name)
    about = (
        f"{len(short.ids):,} of {short.of:,} cases of {short.dataset}, chosen to keep the ranking of {short.runs} runs"
    )
    own = {"name": short.dataset, "description": f"{about} by {short.metric}.", "ids": list(short.ids)}
    values = {**run.manifest.dataset_config(short.dataset), **own}
    return {Path("conf") / "dataset" / f"{name}.yaml": option_text("dataset", name, values)}


def _runs(given: Sequence[str]) -> tuple[Path, list[SavedRun]]:
    """The runs to rank, and the folder for the page: that of the last run or sweep named."""
    expanded = [path for word in given for path in _folders(word)]
    folder, runs = Path(), list[SavedRun]()
    for word in expanded or [None]:
        folder = find_folder(word)
        jobs = jobs_of(folder)
        runs += [open_scored(RunFolder(folder))] if jobs is None else scored_runs(jobs)
    return folder, runs


def _folders(word: str) -> list[str]:
    """The folders that a glob stands for, in order of their names; any other word unchanged."""
    if not has_magic(word) or Path(word).exists():
        return [word]
    path = Path(word)
    matches = sorted(map(str, Path(path.anchor).glob(str(path.relative_to(path.anchor)))))
    if not matches:
        raise UserError(Problem("no folder has such a name", word, "see: ls outputs/runs"))
    return [path for path in matches if Path(path, "run.json").is_file()] or matches
