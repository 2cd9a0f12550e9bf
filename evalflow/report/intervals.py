"""Values and pass rates as points on their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalflow.report.pictures import MAIN, MUTED, PAPER, Picture, draw
from evalflow.report.wording import percent, series_name, unscored, varying

_ENDS = ("value", "low", "high")


def interval_pictures(rows: Sequence[Mapping[str, Any]]) -> list[Picture]:
    """Means and figures, then pass rates, as points on their 95 % intervals.

    Values outside 0..1 are on scales of their own, so each such metric is a picture of its own.

    Args:
        rows: Rows of the summary over all tags.
    """
    valued = [row for row in rows if row["value"] is not None]
    natural = {row["metric"] for row in valued if not 0 <= row["value"] <= 1}
    bounded = [row for row in valued if row["metric"] not in natural]
    pictures = [_means("Means and figures", bounded, [0, 1])] if bounded else []
    for metric in dict.fromkeys(row["metric"] for row in valued if row["metric"] in natural):
        pictures.append(
            _means(f"Means and figures of {metric}", [row for row in valued if row["metric"] == metric], None)
        )
    judged = [row for row in rows if row["pass_rate"] is not None]
    return [*pictures, _pass_rates(judged)] if judged else pictures


def _means(title: str, rows: Sequence[Mapping[str, Any]], domain: list[float] | None) -> Picture:
    points = _points(rows, ("value", "ci_low", "ci_high"))
    sentence = f"Each dot is a mean or a figure over all cases, its line the 95 % interval. {unscored(rows)}."
    return draw(title, sentence, interval_spec(points, domain, "value"))


def _pass_rates(rows: Sequence[Mapping[str, Any]]) -> Picture:
    points = _points(rows, ("pass_rate", "pass_rate_low", "pass_rate_high"))
    least = min(points, key=lambda point: point["value"])
    name = " · ".join(text for text in (least["metric"], least["label"]) if text)
    lowest = f"{name} passes {'least often, ' if len(points) > 1 else ''}{percent(least['value'])}"
    sentence = f"Share of scores that pass their threshold, with its 95 % interval; {lowest}. {unscored(rows)}."
    return draw("Pass rates", sentence, interval_spec(points, [0, 1], "pass rate"))


def _points(rows: Sequence[Mapping[str, Any]], columns: tuple[str, str, str]) -> list[dict[str, Any]]:
    """A dot per row. Where several rows share a metric, its name heads them and the label tells them apart."""
    parts = varying(rows)
    points: list[dict[str, Any]] = []
    for row in rows:
        figure = "" if row["statistic"] == "mean" else row["statistic"]
        series = series_name(row, parts)
        label = " · ".join(text for text in (figure, series) if text)
        head, label = (row["metric"], label) if series else ("", f"{row['metric']} {figure}".strip())
        points.append({"metric": head, "label": label, **dict(zip(_ENDS, (row[c] for c in columns), strict=True))})
    return points


def interval_spec(
    points: list[dict[str, Any]], domain: list[float] | None, title: str, reference: float | None = None
) -> dict[str, Any]:
    """Vega-Lite of points on their intervals, one below the other.

    Args:
        points: metric (a heading for those that share it, empty for none), label, value, low, high.
        domain: What the scale shows at least; None for what the points take.
        title: Of the scale.
        reference: A value to mark with a line through all of them.
    """
    scale: dict[str, Any] = {"zero": False} if domain is None else {"domain": _around(domain, points)}
    # A dot at the lower end reaches over the axis; its label keeps away from it.
    axis = {"title": None, "ticks": False, "domain": False, "labelLimit": 210, "labelPadding": 10}
    y = {"field": "label", "type": "nominal", "sort": None, "axis": axis}
    x = {"type": "quantitative", "scale": scale, "axis": {"title": title, "tickCount": 5, "domain": False}}
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
    layers: list[dict[str, Any]] = [
        {"mark": line, "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}}},
        {"mark": dot, "encoding": {"y": y, "x": {**x, "field": "value"}}},
    ]
    if reference is not None:
        mark = {"type": "rule", "color": MUTED, "strokeDash": [3, 3]}
        layers.insert(0, {"mark": mark, "encoding": {"x": {"datum": reference}}})
    data = {"values": [{**point, "order": number} for number, point in enumerate(points)]}
    if not any(point["metric"] for point in points):
        return {"data": data, "width": 250, "height": {"step": 26}, "layer": layers}
    header = {"labelAnchor": "start", "labelFontWeight": "bold"}
    facet = {"field": "metric", "type": "nominal", "sort": {"field": "order", "op": "min"}, "header": header}
    inner = {"width": 170, "height": {"step": 22}, "layer": layers}
    return {"data": data, "facet": facet, "columns": 1, "spec": inner, "resolve": {"scale": {"y": "independent"}}}


def _around(domain: list[float], points: Sequence[Mapping[str, Any]]) -> list[float]:
    """The domain, widened where an interval reaches beyond it: none is drawn shorter than it is."""
    ends = [end for point in points for end in (point["low"], point["high"]) if end is not None]
    return [min([domain[0], *ends]), max([domain[1], *ends])]
