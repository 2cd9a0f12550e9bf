"""What a metric sees, on a terminal and as a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from evalflow.datasets.perturbations import ABOUT
from evalflow.paths import write_atomically
from evalflow.records.manifest import Manifest
from evalflow.report.charts import draw
from evalflow.report.page import facts, judge_lines, seen, write_page
from evalflow.report.svg import IntervalPoint, interval_chart
from evalflow.report.wording import (
    ColumnKind,
    counted,
    interval,
    joined,
    literal,
    percent,
    signed,
    table_of,
)
from evalflow.summary.proof import ChangeRow, Proof, Rate

HEADINGS = {True: "Faults, which must worsen the score", False: "Changes that must leave the score as it is"}


def title(proof: Proof) -> str:
    """Such as `What faithfulness sees · gpt-4.1 · rag`."""
    return joined(f"What {proof.metric} sees", proof.judge, proof.dataset)


def share(rate: Rate | None) -> str:
    """A share with its interval, such as `83 % (61 % to 94 %)`."""
    if rate is None or rate.value is None:
        return "–"
    return f"{percent(rate.value)} ({interval(rate.low, rate.high, percent)})"


def lines_of(proof: Proof) -> list[str]:
    """What the table is about, in sentences."""
    found = [f"It {one}." for one in seen(proof.findings())]
    if proof.accepted is not None:
        found.append(
            f"Of {counted(proof.accepted.n, 'good answer')}, {share(proof.accepted)} pass; faults are counted in these."
        )
    if proof.same is not None:
        found.append(
            f"Asked again, it gives the same score in {share(proof.same)} of {counted(proof.same.n, 'answer')}."
        )
    return [*found, f"A score has moved if it differs by {proof.by:g} or more."]


def print_proof(console: Console, proof: Proof) -> None:
    """Print a table for faults and one for other changes, and the sentences."""
    console.print(literal(title(proof), style="bold"), soft_wrap=True)
    for is_fault in HEADINGS:
        rows = [row for row in proof.rows if row.fault == is_fault]
        if not rows:
            continue
        kinds: dict[str, ColumnKind] = {
            "faults" if is_fault else "other changes": "name", "n": "number", "seen" if is_fault else "kept": "number",
            "95 % interval": "number", "mean change": "number", "": "name",
        }  # fmt: skip
        console.print(table_of(kinds, [_cells(row) for row in rows]))
    for line in lines_of(proof):
        console.print(literal(line), soft_wrap=True)


def _cells(row: ChangeRow) -> Sequence[str]:
    rate, shift = row.as_expected, row.shift
    name, value = row.change.replace("_", " "), "–" if rate.value is None else percent(rate.value)
    return [name, str(rate.n), value, interval(rate.low, rate.high, percent), signed(shift.value), row.finding]


def write_proof(folder: Path, manifest: Manifest, proof: Proof) -> list[Path]:
    """Write proof.html, one self-contained page, and proof.json into a run's folder."""
    page, document = folder / "proof.html", folder / "proof.json"
    points = [
        IntervalPoint(row.change.replace("_", " "), row.as_expected.value, row.as_expected.low, row.as_expected.high)
        for row in proof.rows
        if row.change in ABOUT
    ]
    picture = draw(title(proof), "Each dot is the share of cases in which the score did what it should.",
                   interval_chart(points, (0, 1), "share as it should be", 0.5))  # fmt: skip
    known = {"run_id": manifest.run_id, "facts": facts(manifest), "judges": judge_lines(manifest)}
    show = {"share": share, "about": ABOUT, "headings": HEADINGS}
    context = {
        "title": title(proof),
        "proof": proof,
        "lines": lines_of(proof),
        "pictures": [picture],
        "show": show,
        **known,
    }
    write_page(page, "proof.html.jinja", context)
    write_atomically(document, json.dumps(proof.document(), indent=2, ensure_ascii=False) + "\n")
    return [page, document]
