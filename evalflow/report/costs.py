"""Cost against quality: what each run of a sweep takes, and the mean that it reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalflow.report.pictures import INK, MAIN, Picture, draw
from evalflow.report.wording import unscored


def cost_pictures(rows: Sequence[Mapping[str, Any]], costs: Mapping[str, float | None]) -> list[Picture]:
    """One picture for each metric of which two runs or more have a mean and a known cost that is not 0.

    Args:
        rows: Rows of the runs' summaries over all tags, with `run`.
        costs: Dollars of each run without a reply from the cache, by name; None where a price is not known.
    """
    means = [row for row in rows if row["statistic"] == "mean" and row["value"] is not None]
    found: list[Picture] = []
    for metric in dict.fromkeys(row["metric"] for row in means):
        own = [row for row in means if row["metric"] == metric]
        priced = [row for row in own if costs.get(row["run"])]
        if len({row["run"] for row in priced}) > 1:
            found.append(_picture(metric, own, priced, costs))
    return found


def _picture(
    metric: str,
    rows: Sequence[Mapping[str, Any]],
    priced: Sequence[Mapping[str, Any]],
    costs: Mapping[str, float | None],
) -> Picture:
    points = [
        {"run": row["run"], "cost": costs[row["run"]], "value": row["value"], "low": row["ci_low"],
         "high": row["ci_high"]}
        for row in priced
    ]  # fmt: skip
    without = len(rows) - len(priced)
    left = f" {without} without a known cost {'is' if without == 1 else 'are'} not shown." if without else ""
    sentence = (
        "Each dot is a run: what it takes in dollars when nothing is remembered, the judge's part included, and its "
        f"mean with the 95 % interval. Up and to the left is more for less.{left} {unscored(priced)}."
    )
    return draw(f"Cost against {metric}", sentence, cost_spec(points, "mean"))


def full_cost(manifest: Mapping[str, Any]) -> float | None:
    """What a run takes when nothing is remembered; None where a price is not known."""
    paid, saved = manifest.get("cost_usd"), manifest.get("saved_usd")
    return None if paid is None or saved is None else paid + saved


def cost_spec(points: list[dict[str, Any]], title: str) -> dict[str, Any]:
    """The picture of points with run, cost, value, low and high; the title is of what goes upwards."""
    x = {"field": "cost", "type": "quantitative", "axis": {"title": "dollars a run", "tickCount": 5, "format": "~g"}}
    y: dict[str, Any] = {"type": "quantitative", "scale": {"zero": False}, "axis": {"title": title, "tickCount": 5}}
    line = {"type": "rule", "color": MAIN, "strokeWidth": 2.5, "opacity": 0.45}
    dot = {"type": "point", "filled": True, "color": MAIN, "size": 90, "opacity": 1}
    name = {"type": "text", "align": "left", "dx": 8, "dy": -8, "color": INK, "limit": 140}
    layers = [
        {"mark": line, "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}},
        {"mark": dot, "encoding": {"x": x, "y": {**y, "field": "value"}}},
        {"mark": name, "encoding": {"x": x, "y": {**y, "field": "value"}, "text": {"field": "run"}}},
    ]
    return {"data": {"values": points}, "width": 300, "height": 200, "layer": layers}
