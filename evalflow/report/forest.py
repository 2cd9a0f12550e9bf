"""Means tag by tag on their intervals, beside the mean of all cases: a forest plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalflow.report.intervals import interval_spec
from evalflow.report.pictures import Picture, draw
from evalflow.report.wording import PARTS, number, series_name, unscored, varying

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
    return draw(title, _sentence(whole, ordered[1:], len(tags)), spec)


def _sentence(whole: Mapping[str, Any], shown: Sequence[Mapping[str, Any]], tags: int) -> str:
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
