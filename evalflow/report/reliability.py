"""Reliability diagrams: how often what is said with some confidence is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalflow.report.pictures import INK, MAIN, MUTED, Picture, draw
from evalflow.report.wording import PARTS, number, percent, series_name, unscored, varying

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
    return draw(title, f"{_sentence(bins, error, mine)} {unscored(mine)}.", _spec(bins))


def _sentence(bins: Sequence[Mapping[str, Any]], error: float | None, mine: Sequence[Mapping[str, Any]]) -> str:
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
