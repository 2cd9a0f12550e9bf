"""The charts of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from evalflow.report.pictures import (
    INK,
    MAIN,
    MUTED,
    PAPER,
    Picture,
    distributions,
    draw,
    interval_pictures,
    interval_spec,
)
from evalflow.report.wording import PARTS, number, percent, series_name, unscored, varying, without_means_of_figures

if TYPE_CHECKING:
    import polars as pl

    from evalflow.config.schema import MetricConfig


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
    spec = interval_spec(points, [0, 1] if bounded else None, "mean", whole["value"])
    return draw(title, _forest_sentence(whole, ordered[1:], len(tags)), spec)


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
    return draw(title, f"{_reliability_sentence(bins, error, mine)} {unscored(mine)}.", _spec(bins))


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


def _spec(bins: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    most = max(one["n"] for one in bins)
    values = [{**one, "size": 60 + 340 * one["n"] / most} for one in bins]
    # Room beyond 0 and 1, so that no dot is cut in half.
    scale = {"domain": [-0.04, 1.04], "nice": False}
    axis = {"values": [0, 0.25, 0.5, 0.75, 1], "format": ".0%", "grid": True, "domain": False, "ticks": False}
    x = {"field": "confidence", "type": "quantitative", "scale": scale, "axis": {**axis, "title": "stated confidence"}}
    y = {"field": "accuracy", "type": "quantitative", "scale": scale, "axis": {**axis, "title": "right"}}
    size = {"field": "size", "type": "quantitative", "scale": None, "legend": None}
    ends = {"values": [{"confidence": 0, "accuracy": 0}, {"confidence": 1, "accuracy": 1}]}
    even = {"type": "line", "color": MUTED, "strokeDash": [4, 3], "strokeWidth": 1.2}
    gap = {"type": "rule", "color": MUTED, "strokeWidth": 2, "opacity": 0.4}
    counts = {"type": "text", "color": INK, "fontSize": 11, "baseline": "bottom", "dy": -13}
    return {
        "width": _SIDE,
        "height": _SIDE,
        "data": {"values": values},
        "encoding": {"x": x, "y": y},
        "layer": [
            {"data": ends, "mark": even},
            {"mark": gap, "encoding": {"y2": {"field": "confidence"}}},
            {"mark": {"type": "circle", "color": MAIN, "opacity": 0.85}, "encoding": {"size": size}},
            {"mark": counts, "encoding": {"text": {"field": "n", "type": "quantitative", "format": ",d"}}},
        ],
    }


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
