"""The command `compare`: run B against run A, or every two runs of a sweep."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from rich.console import Console

from evalflow.app.comparable import Scored, obstacles, open_scored, refuse
from evalflow.app.locate import find_folder, find_run, jobs_of
from evalflow.app.saved import load
from evalflow.app.screen import shown
from evalflow.errors import Problem, UserError
from evalflow.report.comparison import Comparison, write_comparison
from evalflow.report.comparison_console import print_comparison
from evalflow.report.flips import Flips, flips
from evalflow.run.folder import RunFolder
from evalflow.summary import ComparisonRow, Pairing, adjusted, compare_cases, pair_scores

_FLIPS = 200


def compare(options: argparse.Namespace, console: Console) -> int:
    """Compare, print the table, and write compare.html into the folder of run B or of the sweep.

    Args:
        options: runs (A and B; A alone is held against the latest run; a sweep, or nothing where the latest is one, for
            all its pairs), allow, adjust, margin, tags, json.
        console: Where to print.

    Raises:
        UserError: There is no such run, or what the runs measured is not the same.
    """
    if options.margin is not None and not options.margin > 0:
        raise UserError(
            Problem(
                f"--margin is {options.margin:g}", "command line", "say how much worse is acceptable: --margin 0.02"
            )
        )
    folder, pairs = _pairs(options.runs)
    found = _compared(pairs, options)
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
        raise UserError(Problem("compare with what?", "command line", "python -m evalflow compare RUN_A [RUN_B]"))
    a, b = find_run(given[0]), find_run(given[1] if len(given) > 1 else None)
    if a.path == b.path:
        raise UserError(Problem("this is one run, not two", str(a.path), "python -m evalflow compare RUN_A RUN_B"))
    return b.path, [(open_scored(a, a.path.name), open_scored(b, b.path.name))]


def _compared(pairs: Sequence[tuple[Scored, Scored]], options: argparse.Namespace) -> Comparison:
    rows: list[ComparisonRow] = []
    notes: list[str] = []
    listed: list[Flips] = []
    refused: list[Problem] = []
    for a, b in pairs:
        found = obstacles(a, b)
        try:
            refuse(found, options.allow, f"{a.name} and {b.name}")
        except UserError as error:
            refused += error.problems
            continue
        notes += [f"{a.name} and {b.name}: {o.what}; compared all the same, as allowed" for o in found]
        pairing = pair_scores(a.scores(), b.scores())
        notes += _notes(a, b, pairing, ("A", "B") if len(pairs) == 1 else (a.name, b.name))
        metrics, seed = a.traits | b.traits, b.manifest["config"]["seed"]
        rows += compare_cases(pairing, (a.name, b.name), metrics, by_tag=options.tags, seed=seed)
        lower = [name for name, traits in metrics.items() if not traits.higher_is_better]
        listed.append(flips((a.name, b.name), pairing.cases, b.scores(), lower, _FLIPS))
    if not rows:
        nothing = Problem("the runs have no scored case in common", " and ".join(run.name for run in pairs[0]))
        raise UserError(refused or [nothing])
    notes += [f"not compared: {problem.where}: {problem.what}" for problem in refused]
    runs = {run.name: run for pair in pairs for run in pair}
    return Comparison(
        runs={name: run.manifest for name, run in runs.items()},
        rows=adjusted(rows, options.adjust),
        adjust=options.adjust,
        margin=options.margin,
        notes=notes,
        flips=listed,
        questions=dict(_questions(runs, listed)),
    )


def _notes(a: Scored, b: Scored, pairing: Pairing, names: tuple[str, str]) -> Iterator[str]:
    """Cases that are in one run alone or not scored in both, and metrics that only one run has."""
    for row in pairing.counts.iter_rows(named=True):
        where = f"{row['dataset']}, {row['metric']}"
        if not row["common"] + row["unscored"]:
            yield f"{where}: only {names[0] if row['only_a'] else names[1]} has it"
            continue
        alone = zip(("only_a", "only_b"), names, strict=True)
        left = [f"{row[key]} only in {name}" for key, name in alone if row[key]]
        left += [f"{row['unscored']} not scored in both"] if row["unscored"] else []
        if left:
            common = f"{row['common']:,} case{'' if row['common'] == 1 else 's'} compared"
            yield f"{where}: {common}; left out: {', '.join(left)}"
    for run, name in zip((a, b), names, strict=True):
        if run.manifest["status"] != "done":
            yield f"{name} ended early ({run.manifest['status']}); what it finished is compared"


def _questions(runs: dict[str, Scored], listed: Sequence[Flips]) -> Iterator[tuple[tuple[str, str], str]]:
    """The questions of the cases that are listed, by dataset and id."""
    for found in listed:
        wanted = {(row["dataset"], row["case_id"]) for row in found.rows}
        if not wanted:
            continue
        for case in load(runs[found.pair[1]].folder).cases():
            if (case.dataset, case.id) in wanted:
                yield (case.dataset, case.id), case.question or ""
