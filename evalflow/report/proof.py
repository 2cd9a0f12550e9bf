"""The sensitivity of a metric (`Proof`), on a terminal and as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evalflow.datasets.perturbations import ABOUT
from evalflow.paths import write_atomically
from evalflow.records.manifest import Manifest
from evalflow.report.charts import draw
from evalflow.report.page import PageColumn, PageHead, PageTable, facts, judge_lines, seen, terminal_table, write_page
from evalflow.report.svg import IntervalPoint, interval_chart
from evalflow.report.wording import (
    ColumnKind,
    bracketed,
    case_name,
    counted,
    interval,
    joined,
    literal,
    number,
    percent,
    print_lines,
    signed,
    table_of,
)
from evalflow.stats.arrays import Estimated

if TYPE_CHECKING:
    from evalflow.summary.proof import ChangeRow, FixtureGap, Proof

_COUNTED = (PageColumn("Change"), PageColumn("Cases", "num"))
HEADINGS = {True: "Faults, which must worsen the score", False: "Changes that must leave the score as it is"}


def title(proof: Proof) -> str:
    """A title such as `What faithfulness sees · gpt-4.1 · rag`."""
    return joined(f"What {proof.metric} sees", proof.judge, proof.dataset)


def share(rate: Estimated | None) -> str:
    """A share with its interval, such as `83 % (61 % to 94 %)`."""
    if rate is None or rate.value is None:
        return "–"
    return f"{percent(rate.value)} ({interval(rate.low, rate.high, percent)})"


def proof_tables(manifest: Manifest) -> list[tuple[str, PageTable]]:
    """For each metric of the run whose judge was proved in its present form: a title and a table of its reactions."""
    tables: list[tuple[str, PageTable]] = []
    for metric, about in manifest.metrics.items():
        rows: list[Sequence[str]] = []
        for row in (about.proof or {}).get("rows") or ():
            verb = "seen" if row["fault"] else "kept"
            known: Mapping[str, Any] = {"std_error": None, **row["as_expected"]}  # a run.json may lack the error
            rate = Estimated(**known)
            rows.append((row["change"].replace("_", " "), str(rate.n), f"{verb} in {share(rate)}", row["finding"]))
        if about.proof and rows:
            heads = [*_COUNTED, PageColumn("Share, 95 % interval", "interval"), PageColumn("Finding")]
            name = joined(metric, about.judge, f"proved on {about.proof['dataset']}")
            tables.append((name, PageTable(heads, rows)))
    return tables


def people_lines(proof: Proof) -> list[str]:
    """Sentences on how far the scores of the fixture are from the labels."""
    people = proof.people
    if people is None:
        return []
    same, distance = people.same, people.distance
    agreed = (
        f"in {share(same)} of {counted(same.n, 'case')} of the fixture" if same.n else "in no case: none was scored"
    )
    lines = [f"It gives the labelled score, within {proof.by:g}, {agreed}."]
    if distance.value is not None:
        between = bracketed(distance.low, distance.high)
        lines.append(f"Its scores are {number(distance.value)}{between} away from the labels on average.")
    if people.verdict is not None:
        lines.append(f"With the threshold it decides as the labels do in {share(people.verdict)}.")
    if people.unscored:
        lines.append(f"Left out, since they could not be scored: {counted(people.unscored, 'case')}.")
    return lines


def agreement(proof: Proof) -> Mapping[str, Estimated]:
    """The share of cases with the labelled score, over all and by tag."""
    return {"all cases": proof.people.same, **proof.people.tags} if proof.people else {}


def score_of(value: float | None) -> str:
    """A score as text, or "nothing to score"."""
    return "undefined" if value is None else number(value)


def lines_of(proof: Proof) -> list[str]:
    """Sentences that introduce the tables of changes."""
    sentences = [f"It {one}." for one in seen(proof.findings())]
    if proof.accepted is not None:
        sentences.append(
            f"Of {counted(proof.accepted.n, 'good answer')}, {share(proof.accepted)} pass; faults are counted in these."
        )
    if proof.same is not None:
        sentences.append(
            f"Asked again, it gives the same score in {share(proof.same)} of {counted(proof.same.n, 'answer')}."
        )
    if not proof.rows:
        return [*sentences, "No answers were changed: the fixture alone was scored."]
    return [*sentences, f"A score has moved if it differs by {proof.by:g} or more."]


def print_proof(console: Console, proof: Proof) -> None:
    """Print the agreement with people, a table for faults and one for other changes, and the sentences."""
    console.print(literal(title(proof), style="bold"), soft_wrap=True)
    _print_people(console, proof)
    for is_fault in HEADINGS:
        rows = [row for row in proof.rows if row.fault == is_fault]
        if not rows:
            continue
        kinds: dict[str, ColumnKind] = {
            "faults" if is_fault else "other changes": "name",
            "n": "number",
            "seen" if is_fault else "kept": "number",
            "95 % interval": "number",
            "mean change": "number",
            "": "name",
        }
        console.print(table_of(kinds, [_cells(row) for row in rows]))
    print_lines(console, lines_of(proof))


def _print_people(console: Console, proof: Proof) -> None:
    if proof.people is None:
        return
    console.print(terminal_table(_people_table(proof)))
    print_lines(console, people_lines(proof))
    print_lines(console, (f"- {difference(one)}" for one in proof.people.furthest))


def difference(one: FixtureGap) -> str:
    """Such as `ID: 1.000, label 0.500: why`."""
    name = case_name(one.case_id, one.question)
    return f"{name}: {score_of(one.judge)}, label {score_of(one.person)}{f': {one.why}' if one.why else ''}"


def _cells(row: ChangeRow) -> Sequence[str]:
    rate, shift = row.as_expected, row.shift
    name, value = row.change.replace("_", " "), "–" if rate.value is None else percent(rate.value)
    return [name, str(rate.n), value, interval(rate.low, rate.high, percent), signed(shift.value), row.finding]


def _people_table(proof: Proof) -> PageTable:
    heads = [PageColumn("Cases of the fixture"), PageColumn("Cases", "num")]
    rows = [(name, str(rate.n), share(rate)) for name, rate in agreement(proof).items()]
    return PageTable([*heads, PageColumn("Labelled score, 95 % interval", "interval")], rows)


def _furthest_table(proof: Proof) -> PageTable:
    heads = [
        PageColumn("Case"),
        PageColumn("Judge", "num"),
        PageColumn("Label", "num"),
        PageColumn("Why it is labelled so"),
        PageColumn("Why the judge does"),
    ]
    furthest = proof.people.furthest if proof.people else ()
    rows = [
        (
            case_name(one.case_id, one.question),
            score_of(one.judge),
            score_of(one.person),
            one.why or "–",
            one.reason or "–",
        )
        for one in furthest
    ]
    return PageTable(heads, rows)


def _changes_table(proof: Proof, is_fault: bool) -> PageTable:
    flips = [PageColumn("Verdict flips", "interval")] if proof.accepted else []
    heads = [
        *_COUNTED,
        PageColumn(f"{'Seen' if is_fault else 'Kept'}, 95 % interval", "interval"),
        PageColumn("Mean change", "num value"),
        *flips,
        PageColumn("Not scored", "num"),
        PageColumn("Finding"),
    ]
    rows = [
        (
            (row.change.replace("_", " "), ABOUT.get(row.change, "")),
            str(row.as_expected.n),
            share(row.as_expected),
            number(row.shift.value),
            *([share(row.flips)] if flips else []),
            str(row.unscored),
            row.finding,
        )
        for row in proof.rows
        if row.fault == is_fault
    ]
    return PageTable(heads, rows)


def write_proof(folder: Path, manifest: Manifest, proof: Proof) -> list[Path]:
    """Write proof.html, one self-contained page, and proof.json into a run's folder."""
    page, document = folder / "proof.html", folder / "proof.json"
    points = [
        IntervalPoint(row.change.replace("_", " "), row.as_expected.value, row.as_expected.low, row.as_expected.high)
        for row in proof.rows
        if row.change in ABOUT
    ]
    about = "Each dot is the share of cases in which the score did what it should."
    chart = interval_chart(points, (0, 1), "share as it should be", 0.5) if points else None
    head = PageHead("Proof", title(proof), manifest.run_id, judge_lines(manifest), facts=facts(manifest), wide=True)
    context = {
        "people_lines": people_lines(proof),
        "people": _people_table(proof),
        "furthest": _furthest_table(proof),
        "lines": lines_of(proof),
        "changes": [(heading, _changes_table(proof, is_fault)) for is_fault, heading in HEADINGS.items()],
        "pictures": [draw(title(proof), about, chart)] if chart else [],
    }
    write_page(page, "proof.html.jinja", head, context)
    write_atomically(document, json.dumps(proof.document(), indent=2, ensure_ascii=False) + "\n")
    return [page, document]
