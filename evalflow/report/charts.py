"""The charts of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from evalflow.lazy import pl
from evalflow.report.pictures import Picture, distributions, draw, interval_chart, interval_pictures
from evalflow.report.svg import INK, MAIN, MUTED, Drawing, Scale, shortened, text_width, x_axis, y_axis
from evalflow.report.wording import PARTS, number, percent, series_name, unscored, varying, without_means_of_figures

if TYPE_CHECKING:
    from evalflow.config.schema import MetricConfig


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
    return draw(title, sentence, confusion_chart(labels, counts))


def confusion_chart(
    labels: Sequence[str], counts: Sequence[Sequence[int]], *, down: str = "expected", across: str = "actual"
) -> Drawing:
    """A square matrix of counts.

    Args:
        labels: Of its rows and columns.
        counts: Row by row.
        down: What the rows are.
        across: What the columns are.
    """
    most = max((n for row in counts for n in row), default=0) or 1
    cells = [[Cell(f"{n:,}", shade_of(n / most)) for n in row] for row in counts]
    width, height = max(36, min(96, 300 // max(1, len(labels)))), 52 if len(labels) < 6 else 32
    return matrix_chart(labels, cells, width, height, down=down, across=across)


@dataclass(frozen=True, slots=True)
class Cell:
    """One of a matrix: its text, how dark it is (0..1), and what stands below the text, smaller."""

    text: str
    shade: float
    note: str = ""


def shade_of(share: float) -> float:
    """How dark a cell is: the least is seen too, and text can be read on the most."""
    return 0.06 + 0.54 * share


def matrix_chart(
    labels: Sequence[str],
    cells: Sequence[Sequence[Cell | None]],
    width: float,
    height: float,
    *,
    down: str = "",
    across: str = "",
    turn: bool = True,
) -> Drawing:
    """A square matrix of cells; None leaves a gap.

    Args:
        labels: Of its rows and columns.
        cells: Row by row.
        width: Of a cell, in pixels.
        height: Of a cell.
        down: What the rows are.
        across: What the columns are.
        turn: Whether the names of columns are turned where they are wider than these; else they are cut.
    """
    drawing = Drawing()
    level = not turn or max(map(text_width, labels), default=0) < width - 6
    names = [shortened(label, _LABEL) for label in labels]
    widest = max(map(text_width, names), default=0)
    for place, name in enumerate(names):
        drawing.text(-9, (place + 0.5) * height + 4, name, anchor="end")
        middle = (place + 0.5) * width
        above = shortened(name, width - 6) if level else name
        drawing.text(middle, -9, above, anchor="middle" if level else "start", angle=0 if level else -40)
    drawing.text(-widest - 24, len(labels) * height / 2, down, angle=-90)
    drawing.text(len(labels) * width / 2, -32 if level else -0.65 * widest - 30, across)
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if cell:
                x, y = j * width, i * height
                drawing.rect(x + 1.5, y + 1.5, width - 3, height - 3, MAIN, opacity=cell.shade, radius=4)
                middle, line = x + width / 2, y + height / 2 + (0 if cell.note else 5)
                drawing.text(middle, line, cell.text, size=14, fill=INK)
                drawing.text(middle, line + 14, cell.note, size=10, fill=INK)
    return drawing


_LABEL = 110
"""The most pixels that a label of a matrix takes."""
_MOST = 30
_NAMED = 3
_ALL = "all cases"


def forests(rows: Sequence[Mapping[str, Any]]) -> list[Picture]:
    """One picture for each metric (and dataset, target, judge) of which two tags or more have a mean.

    Args:
        rows: Rows of the summary, with and without a tag.
    """
    means = [row for row in rows if row["statistic"] == "mean" and row["value"] is not None]
    parts = varying(means)
    found: list[Picture] = []
    for whole in (row for row in means if row["tag"] is None):
        tags = [row for row in means if row["tag"] is not None and _same(row, whole)]
        if len(tags) > 1:
            name = " · ".join(text for text in (whole["metric"], series_name(whole, parts)) if text)
            found.append(_picture(f"{name} by tag", whole, tags))
    return found


def _same(row: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    return all(row[name] == whole[name] for name in ("metric", *PARTS))


def _picture(title: str, whole: Mapping[str, Any], tags: Sequence[Mapping[str, Any]]) -> Picture:
    """The tags with the most scores, the lowest mean last."""
    most = sorted(tags, key=lambda row: -row["n_scored"])[:_MOST]
    ordered = [whole, *sorted(most, key=lambda row: -row["value"])]
    points = [
        {
            "metric": "",
            "label": f"{row['tag'] or _ALL} ({row['n_scored']:,})",
            "value": row["value"],
            "low": row["ci_low"],
            "high": row["ci_high"],
        }
        for row in ordered
    ]
    bounded = all(0 <= row["value"] <= 1 for row in ordered)
    drawing = interval_chart(points, [0, 1] if bounded else None, "mean", whole["value"])
    return draw(title, _forest_sentence(whole, ordered[1:], len(tags)), drawing)


def _forest_sentence(whole: Mapping[str, Any], shown: Sequence[Mapping[str, Any]], tags: int) -> str:
    apart = [row["tag"] for row in shown if _leaves_out(row, whole["value"])]
    without = sum(row["ci_low"] is None for row in shown)
    none = (
        f" {without} {'has' if without == 1 else 'have'} no interval, for want of cases that vary." if without else ""
    )
    left = f" The {len(shown)} tags with the most scores, of {tags}." if len(shown) < tags else ""
    return (
        f"Each dot is the mean over the scored cases with a tag (how many, in brackets), its line the 95 % interval; "
        f"the dashed line is the mean of all, {number(whole['value'])}, which {_apart(apart, every=not without)}."
        f"{none}{left} {unscored([whole])}."
    )


def _apart(tags: Sequence[str], *, every: bool) -> str:
    """Which intervals do not reach the mean of all."""
    all_of_them = "every interval" if every else "every interval that there is"
    if not tags:
        return f"{all_of_them} reaches"
    if len(tags) > _NAMED:
        return f"{len(tags)} intervals do not reach"
    return f"{all_of_them} reaches but that of {', '.join(tags)}"


def _leaves_out(row: Mapping[str, Any], value: float) -> bool:
    low, high = row["ci_low"], row["ci_high"]
    return low is not None and high is not None and not low <= value <= high


_SIDE = 260
_NEAR = 0.005
"""Confidence and share of right ones that are alike when both are shown in whole percent."""


def reliabilities(details: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Picture]:
    """Every reliability diagram among the details, over all tags.

    Args:
        details: Entries with `bins`, each with low, high, n, confidence and accuracy.
        rows: Rows of the summary over all tags, for the calibration error and what is not in the picture.
    """
    binned = [(detail, bins_of(detail)) for detail in details if detail.get("tag") is None]
    parts = varying(detail for detail, bins in binned if bins)
    return [_diagram(detail, bins, parts, rows) for detail, bins in binned if bins]


def bins_of(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The bins of a detail that hold a case; empty where the detail is no reliability diagram."""
    bins: list[Mapping[str, Any]] = detail.get("bins") or []
    return [one for one in bins if one["n"]]


def _diagram(
    detail: Mapping[str, Any],
    bins: Sequence[Mapping[str, Any]],
    parts: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> Picture:
    series = series_name(detail, parts)
    title = f"Calibration of {detail['metric']}" + (f" · {series}" if series else "")
    mine = [row for row in rows if all(row[part] == detail.get(part) for part in ("metric", *PARTS))]
    error = next((row["value"] for row in mine if row["statistic"] == detail["statistic"]), None)
    return draw(title, f"{_reliability_sentence(bins, error, mine)} {unscored(mine)}.", _diagram_of(bins))


def _reliability_sentence(
    bins: Sequence[Mapping[str, Any]], error: float | None, mine: Sequence[Mapping[str, Any]]
) -> str:
    n = sum(one["n"] for one in bins)
    stated, right = (sum(one["n"] * one[name] for one in bins) / n for name in ("confidence", "accuracy"))
    claim = "as much as holds" if abs(stated - right) < _NEAR else "too much" if stated > right else "too little"
    text = (
        f"Over {n:,} cases a confidence of {percent(stated)} is stated on average and {percent(right)} are right, "
        f"which is to claim {claim}; on the dashed line each confidence would be what it says "
        f"(calibration error {number(error)})."
    )
    silent = max((row["n_scored"] or 0 for row in mine), default=n) - n
    return f"{text} {silent:,} state none." if silent > 0 else text


def _diagram_of(bins: Sequence[Mapping[str, Any]]) -> Drawing:
    """A dot for each bin, as large as it has cases, joined to the line where confidence and accuracy are the same."""
    drawing = Drawing()
    # Room beyond 0 and 1, so that no dot is cut in half.
    x, y = Scale(-0.04, 1.04, 0, _SIDE, count=4), Scale(-0.04, 1.04, _SIDE, 0, count=4)
    y_axis(drawing, y, _SIDE, "right", label=percent)
    x_axis(drawing, x, _SIDE, "stated confidence", top=0, label=percent)
    drawing.line((x(0), y(0)), (x(1), y(1)), MUTED, width=1.2, dash="4 3")
    most = max(one["n"] for one in bins)
    for one in bins:
        left, stated, right = x(one["confidence"]), y(one["confidence"]), y(one["accuracy"])
        drawing.line((left, stated), (left, right), MUTED, width=2, opacity=0.4)
        drawing.dot(left, right, math.sqrt((60 + 340 * one["n"] / most) / math.pi), opacity=0.85)
        drawing.text(left, right - 13, f"{one['n']:,}", fill=INK)
    return drawing


def charts(
    scores: pl.LazyFrame,
    summary: pl.DataFrame,
    details: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, MetricConfig],
) -> list[Picture]:
    """All pictures of a run, the ones that answer most first.

    Args:
        scores: The columns of scores.parquet.
        summary: The columns of summary.parquet.
        details: Matrices that go with figures, as under `details` in summary.json.
        metrics: What the metrics declare.
    """
    rows = without_means_of_figures(summary.filter(summary["tag"].is_null()).to_dicts())
    return [
        *interval_pictures(rows),
        *forests(summary.to_dicts()),
        *confusions(details, rows),
        *reliabilities(details, rows),
        *distributions(scores, metrics),
    ]
