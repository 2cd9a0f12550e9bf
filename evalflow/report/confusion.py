"""Confusion matrices, shaded by count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from evalflow.report.pictures import INK, MAIN, PAPER, Picture, draw
from evalflow.report.wording import PARTS, series_name, unscored, varying

_CHARACTER = 7
"""Pixels of one in a label, so that labels which would run into each other are turned."""


def confusions(details: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Picture]:
    """Every confusion matrix among the details, over all tags.

    Args:
        details: Entries with `labels` and `rows` (expected down, actual across), on their own or under `matrix`.
        rows: Rows of the summary over all tags, for the counts of what is unscored.
    """
    matrices = [(detail, matrix_of(detail)) for detail in details if detail.get("tag") is None]
    parts = varying(detail for detail, matrix in matrices if matrix)
    return [_confusion(detail, *matrix, parts, rows) for detail, matrix in matrices if matrix]


def matrix_of(detail: Mapping[str, Any]) -> tuple[list[str], list[list[int]]] | None:
    """The labels and rows of a detail that is a square matrix of counts, else None."""
    inner: Any = detail.get("matrix")
    holder = cast("Mapping[str, Any]", inner) if isinstance(inner, dict) else {"rows": inner, **detail}
    labels: list[Any] | None = holder.get("labels")
    counts: list[list[int]] | None = holder.get("rows")
    if labels is None or counts is None or [len(row) for row in counts] != [len(labels)] * len(labels):
        return None
    return [str(label) for label in labels], counts


def _confusion(
    detail: Mapping[str, Any],
    labels: list[str],
    counts: list[list[int]],
    parts: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> Picture:
    series = series_name(detail, parts)
    title = f"Confusion matrix of {detail['metric']}" + (f" · {series}" if series else "")
    total = sum(map(sum, counts))
    right = sum(counts[i][i] for i in range(len(labels)))
    mine = [row for row in rows if all(row[part] == detail.get(part) for part in ("metric", *PARTS))]
    sentence = f"In {right:,} of {total:,} cases the actual label is the expected one. {unscored(mine)}."
    return draw(title, sentence, matrix_spec(labels, counts))


def matrix_spec(
    labels: Sequence[str], counts: Sequence[Sequence[int]], *, down: str = "expected", across: str = "actual"
) -> dict[str, Any]:
    """Vega-Lite of a square matrix of counts.

    Args:
        labels: Of its rows and columns.
        counts: Row by row.
        down: What the rows are.
        across: What the columns are.
    """
    most = max((n for row in counts for n in row), default=0) or 1
    values = [
        {down: labels[i], across: labels[j], "row": i, "column": j, "n": n, "shade": 0.06 + 0.54 * n / most}
        for i, row in enumerate(counts)
        for j, n in enumerate(row)
    ]
    step = max(36, min(96, 300 // max(1, len(labels))))
    axis = {"domain": False, "ticks": False, "labelLimit": 90, "titlePadding": 14}
    level = max(map(len, labels), default=0) * _CHARACTER < step
    above = {**axis, "orient": "top", "labelAngle": 0 if level else -40}
    x = {"field": across, "type": "nominal", "sort": {"field": "column", "op": "min"}, "axis": above}
    y = {"field": down, "type": "nominal", "sort": {"field": "row", "op": "min"}, "axis": axis}
    shade = {"field": "shade", "type": "quantitative", "scale": None, "legend": None}
    look = {"color": MAIN, "cornerRadius": 4, "stroke": PAPER, "strokeWidth": 3}
    text = {"text": {"field": "n", "type": "quantitative", "format": ",d"}}
    return {
        "data": {"values": values},
        "width": {"step": step},
        "height": {"step": 52 if len(labels) < 6 else 32},
        "encoding": {"x": x, "y": y},
        "layer": [
            {"mark": {"type": "rect", **look}, "encoding": {"opacity": shade}},
            {"mark": {"type": "text", "fontSize": 15, "color": INK}, "encoding": text},
        ],
    }
