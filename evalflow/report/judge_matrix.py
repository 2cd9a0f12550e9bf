"""How far every two judges of a sweep agree, drawn as a matrix for each metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from evalflow.report.pictures import INK, MAIN, PAPER, Picture, draw
from evalflow.report.wording import number, percent, unscored

_MEASURES: Mapping[str, tuple[str, str, Callable[[float | None], str]]] = {
    "agreement": ("Same pass or fail", "the share of common answers that both judges pass or both fail", percent),
    "correlation": ("Rank correlation", "Spearman's correlation of the two judges' scores", partial(number, digits=2)),
}


def judge_matrices(agreement: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Picture]:
    """A matrix for each metric and each measure that some pair of judges has.

    Args:
        agreement: Rows as `evalflow.report.agreement` gives them.
        rows: Rows of the runs' summaries over all tags, for the counts of what is unscored.
    """
    found: list[Picture] = []
    for metric in dict.fromkeys(row["metric"] for row in agreement):
        pairs = [row for row in agreement if row["metric"] == metric]
        own = [row for row in rows if row["metric"] == metric]
        known = (name for name in _MEASURES if any(row[name] is not None for row in pairs))
        found += [_picture(metric, name, pairs, own) for name in known]
    return found


def _picture(
    metric: str, measure: str, pairs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> Picture:
    title, meaning, text = _MEASURES[measure]
    sentence = (
        f"Each cell is {meaning} on {metric}, and below it on how many answers. {_ends(measure, pairs, text)} "
        f"Judges that agree may still be wrong together. {unscored(rows)}."
    )
    return draw(f"{title} · {metric}", sentence, _spec(measure, pairs, text))


def _ends(measure: str, pairs: Sequence[Mapping[str, Any]], text: Callable[[float | None], str]) -> str:
    """The pairs that agree most and least, in words."""
    known = sorted((row for row in pairs if row[measure] is not None), key=lambda row: row[measure])
    said = [f"{row['judge_a']} and {row['judge_b']} ({text(row[measure])})" for row in (known[-1], known[0])]
    return f"Nearest are {said[0]}, farthest {said[1]}." if len(known) > 1 else f"They are {said[0]}."


def _spec(measure: str, pairs: Sequence[Mapping[str, Any]], text: Callable[[float | None], str]) -> dict[str, Any]:
    judges = sorted({row[side] for row in pairs for side in ("judge_a", "judge_b")})
    known = {(row["judge_a"], row["judge_b"]): row for row in pairs}
    values = [
        {
            "down": one,
            "across": other,
            "row": i,
            "column": j,
            **_cell(known.get(min((one, other), (other, one))), measure, text),
        }
        for i, one in enumerate(judges)
        for j, other in enumerate(judges)
        if i != j
    ]
    step = max(56, min(120, 330 // len(judges)))
    axis = {"domain": False, "ticks": False, "labelLimit": 110, "title": None}
    x = {
        "field": "across",
        "type": "nominal",
        "sort": {"field": "column", "op": "min"},
        "axis": {**axis, "orient": "top", "labelAngle": 0, "labelLimit": step - 8},
    }
    y = {"field": "down", "type": "nominal", "sort": {"field": "row", "op": "min"}, "axis": axis}
    shade = {"field": "shade", "type": "quantitative", "scale": None, "legend": None}
    look = {"type": "rect", "color": MAIN, "cornerRadius": 4, "stroke": PAPER, "strokeWidth": 3}
    shown = {"type": "text", "color": INK}
    return {
        "data": {"values": values},
        "width": {"step": step},
        "height": {"step": 48},
        "encoding": {"x": x, "y": y},
        "layer": [
            {"mark": look, "encoding": {"opacity": shade}},
            {"mark": {**shown, "fontSize": 14, "dy": -6}, "encoding": {"text": {"field": "text", "type": "nominal"}}},
            {"mark": {**shown, "fontSize": 10, "dy": 11}, "encoding": {"text": {"field": "n", "type": "nominal"}}},
        ],
    }  # fmt: skip


def _cell(row: Mapping[str, Any] | None, measure: str, text: Callable[[float | None], str]) -> dict[str, Any]:
    """What two judges have in common: nothing where they share no answer. No agreement below 0 is shaded."""
    value = row[measure] if row else None
    n = row["n"] if row else 0
    return {"text": text(value), "n": f"n {n:,}", "shade": 0.06 + 0.54 * max(0.0, value or 0.0)}
