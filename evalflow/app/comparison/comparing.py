"""Runs held against each other: the one computation behind the command, the API and the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.app.comparison.comparable import Scored, obstacles, refuse
from evalflow.app.results.saved import load, read_cases
from evalflow.errors import Problem, UserError, command
from evalflow.report.comparison import Comparison
from evalflow.report.flips import Flips, flips
from evalflow.summary import (
    ComparisonRow,
    Pairing,
    adjusted,
    compare_cases,
    compare_samples,
    pair_scores,
)

if TYPE_CHECKING:
    from evalflow.stats.multiple import Adjustment

_FLIPS = 200
SMALLEST_MARGIN, LARGEST_MARGIN = 1e-9, 1e9


@dataclass(frozen=True, slots=True)
class How:
    """How runs are compared.

    Attributes:
        allow: What may differ though the scores then may not mean the same; see `comparable.KINDS`.
        adjust: For the number of comparisons.
        margin: How much worse is still acceptable, within `SMALLEST_MARGIN` and `LARGEST_MARGIN`; None where nobody
            asks.
        by_tag: Whether each tag gets rows of its own.
        by_class: Whether the figures of each class, or label, get rows of their own.
        unpaired: Whether the runs are samples of different cases, and not to be held against each other case by case.
        said: How `allow` is written, for messages.

    Raises:
        UserError: The margin is out of bounds.
    """

    allow: Collection[str] = ()
    adjust: Adjustment = "holm"
    margin: float | None = None
    by_tag: bool = False
    by_class: bool = False
    unpaired: bool = False
    said: str = "--allow "

    def __post_init__(self) -> None:
        if self.margin is not None and not SMALLEST_MARGIN <= self.margin <= LARGEST_MARGIN:
            what = f"a margin of {self.margin:g} is not between {SMALLEST_MARGIN:g} and {LARGEST_MARGIN:g}"
            raise UserError(Problem(what, "margin", "say how much worse is acceptable, such as 0.02"))


def compare_pairs(pairs: Sequence[tuple[Scored, Scored]], how: How) -> Comparison:
    """Compare run B with run A, for each pair; all differences are one family.

    Args:
        pairs: Each as (A, B).
        how: What is allowed, and how it is told.

    Raises:
        UserError: No pair can be compared; with everything that keeps them from it.
    """
    rows: list[ComparisonRow] = []
    notes: list[str] = []
    listed: list[Flips] = []
    refused: list[Problem] = []
    apart = False
    for a, b in pairs:
        found = [o for o in obstacles(a, b) if not (how.unpaired and o.kind == "cases")]
        try:
            refuse(found, how.allow, f"{a.name} and {b.name}", how.said)
        except UserError as error:
            refused += error.problems
            continue
        notes += [f"{a.name} and {b.name}: {o.what}; compared all the same, as allowed" for o in found]
        if how.unpaired:
            own, own_notes = _samples(a, b, how)
            rows, notes = [*rows, *own], [*notes, *own_notes]
            continue
        own, pairing = compare_two(a, b, how)
        apart |= bool(pairing.counts["only_a"].sum() and pairing.counts["only_b"].sum())
        notes += _notes(a, b, pairing, ("A", "B") if len(pairs) == 1 else (a.name, b.name))
        rows += own
        lower = [name for name, traits in (a.traits | b.traits).items() if not traits.higher_is_better]
        listed.append(flips((a.name, b.name), pairing.cases, b.scores(), lower, _FLIPS))
    notes += _same_cases(rows)
    if not rows:
        what, hint = (
            "the runs have no scored case in common",
            f"why cases have no score: {command('cases', pairs[0][0].folder.path, '--failed')}",
        )
        if apart:
            hint = "two samples of different cases: compare ... --unpaired"
        if how.unpaired:
            what, hint = "the runs have no metric in common that both have scored, on datasets of one name", ""
        nothing = Problem(what, " and ".join(run.name for run in pairs[0]), hint)
        raise UserError(refused or [nothing])
    notes += [f"not compared: {problem.where}: {problem.what}" for problem in refused]
    runs = {run.name: run for pair in pairs for run in pair}
    return Comparison(
        runs={name: run.manifest for name, run in runs.items()},
        rows=adjusted(rows, how.adjust),
        adjust=how.adjust,
        margin=how.margin,
        notes=notes,
        flips=listed,
        questions=dict(_questions(runs, listed)),
        paired=not how.unpaired,
    )


def compare_two(a: Scored, b: Scored, how: How) -> tuple[list[ComparisonRow], Pairing]:
    """The differences of two runs case by case, not yet adjusted for their number, and the cases that they share."""
    pairing = pair_scores(a.scores(), b.scores())
    by = {"by_tag": how.by_tag, "by_class": how.by_class}
    seed = b.manifest["config"]["seed"]
    return compare_cases(pairing, (a.name, b.name), a.traits | b.traits, **by, seed=seed), pairing


def _samples(a: Scored, b: Scored, how: How) -> tuple[list[ComparisonRow], list[str]]:
    """Two runs as samples of different cases, and what a reader should know of that."""
    by = {"by_tag": how.by_tag, "by_class": how.by_class}
    names, seed = (a.name, b.name), b.manifest["config"]["seed"]
    rows, common = compare_samples(a.scores(), b.scores(), names, a.traits | b.traits, **by, seed=seed)
    if common:
        said = "1 case is" if common == 1 else f"{common:,} cases are"
        return rows, [f"{said} in both runs; without --unpaired they are compared case by case, which shows more"]
    return rows, []


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


def _same_cases(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Tags that have no row of their own."""
    for row in rows:
        if row.also_tags and row.statistic == "mean":
            tags = ", ".join(row.also_tags)
            yield f"{row.dataset}, {row.metric}: the cases of {tags} are those of {row.tag or 'all'}, and compared once"


def _questions(runs: dict[str, Scored], listed: Sequence[Flips]) -> Iterator[tuple[tuple[str, str], str]]:
    """The questions of the cases that are listed, by dataset and id."""
    for found in listed:
        wanted = {(row["dataset"], row["case_id"]) for row in found.rows}
        if not wanted:
            continue
        run = runs[found.pair[1]]
        is_written = run.folder.cases.is_file()
        for case in read_cases(run.folder, run.manifest) if is_written else load(run.folder).cases():
            if (case.dataset, case.id) in wanted:
                yield (case.dataset, case.id), case.question or ""
