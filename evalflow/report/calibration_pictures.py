"""Pictures of a calibration: means side by side, what scores are worth, and who says what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalflow.report.charts import matrix_spec
from evalflow.report.pictures import MAIN, MUTED, Picture, draw, interval_spec
from evalflow.report.wording import number

if TYPE_CHECKING:
    from evalflow.summary import CalibrationRow

_BINS = 5
_FEW_VALUES = 3


def calibration_pictures(row: CalibrationRow) -> list[Picture]:
    """Means, their tags, the reliability diagram where scores are graded, the matrix where they are classes."""
    found = [means_picture(row), _tags(row), _reliability(row), _matrix(row)]
    return [picture for picture in found if picture is not None]


def means_picture(row: CalibrationRow) -> Picture:
    """The judge's mean, the corrected one, and people's own, each on its interval."""
    c, who = row.corrected, row.who
    points = [
        _point(f"{who} alone", c.judge_mean, row.judged.low, row.judged.high),
        _point("people alone", c.human_mean, c.human_low, c.human_high),
        _point(f"{who} corrected by people", c.estimate, c.low, c.high),
    ]
    sentence = (
        f"The mean of {row.metric} over all {c.n + c.n_unlabelled:,} {row.named} as the {who} alone has it, as "
        f"{c.n:,} labelled answers alone have it, and as both together have it; lines are 95 % intervals. That of the "
        f"{who} alone says nothing of how far it is off."
    )
    return draw(f"{who.capitalize()} and people", sentence, _spec(points, row))


def _tags(row: CalibrationRow) -> Picture | None:
    points: list[dict[str, Any]] = []
    for one in (row, *row.tags):
        c = one.corrected
        if c.estimate is not None:
            points.append(_point(f"{one.tag or 'all answers'} ({c.n:,})", c.estimate, c.low, c.high))
    if len(points) < 2:
        return None
    sentence = "The corrected mean by tag, with the labelled answers it rests on in brackets; lines are 95 % intervals."
    return draw("Corrected, by tag", sentence, _spec(points, row))


def _reliability(row: CalibrationRow) -> Picture | None:
    """What people say of answers that the judge scores about alike; of graded scores in 0..1 only."""
    bins = reliability_bins(row)
    if not bins:
        return None
    worst = max(bins, key=lambda one: abs(one["human"] - one["judge"]))
    sentence = (
        f"Labelled answers in groups by the {row.who}'s score: across its mean, upwards that of people, with 95 % "
        f"intervals. On the dashed line the two say the same. Farthest from it: where the {row.who} says "
        f"{number(worst['judge'])}, people say {number(worst['human'])} ({worst['n']} answers)."
    )
    x = {"field": "judge", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": {"title": row.who}}
    y = {"field": "human", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": {"title": "people"}}
    layers = [
        {
            "data": {"values": [{"judge": 0, "human": 0}, {"judge": 1, "human": 1}]},
            "mark": {"type": "line", "color": MUTED, "strokeDash": [4, 3]},
            "encoding": {"x": x, "y": y},
        },
        {
            "transform": [{"filter": "datum.low !== null"}],
            "mark": {"type": "rule", "color": MAIN, "opacity": 0.45, "strokeWidth": 2.5},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {"mark": {"type": "point", "filled": True, "color": MAIN, "size": 90, "opacity": 1},
         "encoding": {"x": x, "y": y}},
    ]  # fmt: skip
    return draw(
        "What a score is worth", sentence, {"data": {"values": bins}, "width": 240, "height": 240, "layer": layers}
    )


def reliability_bins(row: CalibrationRow) -> list[dict[str, Any]]:
    """Labelled answers in five groups of equal size by the judge's score: n, the means judge and human, low and high.

    Low and high are None where labels that are all alike give no interval. Empty where scores leave 0..1 or take three
    values at most, such as verdicts.
    """
    import numpy as np

    from evalflow.stats.intervals import interval

    labelled = row.answers.filter(row.answers["human"].is_not_null()).sort("score")
    judge, human, clusters = (labelled[name].to_numpy() for name in ("score", "human", "cluster"))
    if np.unique(judge).size <= _FEW_VALUES or judge.min() < 0 or judge.max() > 1:
        return []
    bins: list[dict[str, Any]] = []
    for part in np.array_split(np.arange(judge.size), _BINS):
        several = np.unique(clusters[part]).size < part.size
        known = interval(human[part], clusters[part] if several else None, bounded=True)
        means = {"judge": float(judge[part].mean()), "human": float(human[part].mean())}
        bins.append({"n": int(part.size), **means, "low": known.low, "high": known.high})
    return bins


def _matrix(row: CalibrationRow) -> Picture | None:
    classes = row.classes
    if classes is None:
        return None
    counts = classes.matrix()
    total, same = sum(map(sum, counts)), sum(counts[i][i] for i in range(len(counts)))
    names = ["fail", "pass"] if classes.by_threshold else [f"{level:g}" for level in classes.levels]
    how = " Pass and fail are those of the metric's threshold." if classes.by_threshold else ""
    sentence = f"{row.who.capitalize()} and people say the same of {same:,} of {total:,} labelled answers.{how}"
    return draw("Who says what", sentence, matrix_spec(names, counts, down="people", across=row.who))


def _spec(points: list[dict[str, Any]], row: CalibrationRow) -> dict[str, Any]:
    return interval_spec(points, [0, 1] if row.traits.bounded else None, row.metric)


def _point(label: str, value: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    return {"metric": "", "label": label, "value": value, "low": low, "high": high}
