"""A comparison as JSON and as a page: the rows, how they were judged, and the cases that flipped."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.report.flips import Flips
from evalflow.report.judges import judge_lines
from evalflow.report.page import write_page
from evalflow.report.pictures import MAIN, MUTED, PAPER, Picture, draw

if TYPE_CHECKING:
    from evalflow.summary import ComparisonRow

ADJUSTMENTS = {"holm": "Holm", "bh": "Benjamini-Hochberg", "by": "Benjamini-Yekutieli"}
VERDICTS = {"better": "better", "worse": "worse", "cannot_tell": "cannot tell"}
_STYLES = ("page.css", "tables.css", "sweep.css")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared, and what came of it.

    Attributes:
        runs: run.json by the run's name.
        rows: One family of differences.
        adjust: How its p-values were adjusted.
        margin: How much worse is still acceptable; None where nobody asked.
        notes: What was left out, or allowed.
        flips: The cases that changed, per pair of runs.
        questions: Of these cases, by dataset and id.
        paired: Whether the runs were held against each other case by case, and not as two samples.
    """

    runs: Mapping[str, Mapping[str, Any]]
    rows: Sequence[ComparisonRow]
    adjust: str
    margin: float | None
    notes: Sequence[str]
    flips: Sequence[Flips]
    questions: Mapping[tuple[str, str], str]
    paired: bool = True

    @property
    def family(self) -> str:
        """The tests that were adjusted together, in words."""
        size = self.family_size
        how = f"p-values adjusted together by {ADJUSTMENTS[self.adjust]}"
        return f"family of {size} comparison{'' if size == 1 else 's'}, {how}, level 5 %"

    @property
    def family_size(self) -> int:
        """How many tests there are."""
        return sum(row.found.p_value is not None for row in self.rows)

    @property
    def judges(self) -> list[str]:
        """A line for each judge."""
        return list(dict.fromkeys(line for manifest in self.runs.values() for line in judge_lines(manifest)))

    @property
    def several(self) -> bool:
        """Whether there are more than two runs."""
        return len(self.runs) > 2

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "runs": {
                name: _about(manifest) | {"judges": judge_lines(manifest)} for name, manifest in self.runs.items()
            },
            "paired": self.paired,
            "family": {"size": self.family_size, "adjust": self.adjust, "level": 0.05},
            "rows": [row.document(self.margin) for row in self.rows],
            "flips": [
                {
                    "run_a": f.pair[0],
                    "run_b": f.pair[1],
                    "worsened": f.worsened,
                    "improved": f.improved,
                    "cases": f.rows,
                }
                for f in self.flips
            ],
            "notes": list(self.notes),
        }


def write_comparison(path: Path, found: Comparison) -> None:
    """Write one self-contained page; replaces the one before."""
    labels = found.runs if found.several else ("A", "B")
    context = {
        "title": f"All pairs of {len(found.runs)} runs" if found.several else "Run B against run A",
        "found": found,
        "judges": found.judges,
        "facts": [(label, _facts(manifest)) for label, manifest in zip(labels, found.runs.values(), strict=True)],
        "rows": [
            row.document(found.margin) | {"higher_is_better": row.higher_is_better, "called": row.called}
            for row in found.rows
        ],
        "verdicts": VERDICTS,
        "pictures": difference_pictures(found.rows, paired=found.paired),
        "summary": in_words(found.rows),
    }
    write_page(path, "comparison.html.jinja", context, styles=_STYLES, scripts=())


def difference_pictures(rows: Sequence[ComparisonRow], *, paired: bool = True) -> list[Picture]:
    """Differences as points on their intervals, about 0; one picture for each pair of runs."""
    pictures: list[Picture] = []
    pairs = dict.fromkeys(row.pair for row in rows)
    for pair in pairs:
        own = [row for row in rows if row.pair == pair and row.found.difference is not None]
        if own:
            title = f"{pair[1]} minus {pair[0]}" if len(pairs) > 1 else "B minus A"
            over = "the cases that both scored" if paired else "the cases of each run"
            sentence = f"Each dot is the difference over {over}, its line the 95 % interval. A "
            sentence += f"line that crosses 0 cannot tell the two apart. {in_words(own)}"
            pictures.append(draw(title, sentence, _spec([_point(row) for row in own])))
    return pictures


def in_words(rows: Sequence[ComparisonRow]) -> str:
    """What the table says, in a sentence."""
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS}
    told = [f"{n} {VERDICTS[verdict]}" for verdict, n in counts.items() if n and verdict != "cannot_tell"]
    if not told:
        return f"None of {len(rows)} comparisons can be told." if len(rows) > 1 else "The difference cannot be told."
    if len(rows) == 1:
        return f"Run B is {VERDICTS[rows[0].verdict]}."
    left = counts["cannot_tell"]
    return f"Of {len(rows)}: {', '.join(told)}" + (f"; {left} cannot be told." if left else ".")


def _point(row: ComparisonRow) -> dict[str, Any]:
    found = row.found
    parts = [row.metric, row.called, row.tag or ""]
    label = " · ".join(part for part in parts if part) + ("" if row.higher_is_better else " (lower is better)")
    return {"label": label, "dataset": row.dataset, "value": found.difference, "low": found.low, "high": found.high}


def _spec(points: list[dict[str, Any]]) -> dict[str, Any]:
    axis = {"title": None, "ticks": False, "domain": False, "labelLimit": 230, "labelPadding": 10}
    y = {"field": "label", "type": "nominal", "sort": None, "axis": axis}
    x = {"type": "quantitative", "axis": {"title": "difference", "tickCount": 5, "domain": False}}
    line = {"type": "rule", "color": MAIN, "strokeWidth": 2.5, "strokeCap": "round", "opacity": 0.45}
    dot = {
        "type": "point",
        "filled": True,
        "color": MAIN,
        "stroke": PAPER,
        "strokeWidth": 1.5,
        "size": 90,
        "opacity": 1,
    }
    zero = {"type": "rule", "color": MUTED, "strokeDash": [4, 3]}
    several = len({point["dataset"] for point in points}) > 1
    named = [{**point, "label": f"{point['dataset']} · {point['label']}"} if several else point for point in points]
    return {
        "data": {"values": named},
        "width": 270,
        "height": {"step": 26},
        "layer": [
            {"mark": zero, "encoding": {"x": {"datum": 0}}},
            {"mark": line, "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}}},
            {"mark": dot, "encoding": {"y": y, "x": {**x, "field": "value"}}},
        ],
    }


def _about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("run_id", "started_at", "status", "overrides", "git_commit")
    return {key: manifest[key] for key in keys} | {"target": manifest["target"]["name"]}


def _facts(manifest: Mapping[str, Any]) -> str:
    about = _about(manifest)
    return f"{about['run_id']}; target {about['target']}; {shlex.join(about['overrides'])}"
