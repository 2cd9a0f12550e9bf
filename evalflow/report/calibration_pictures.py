"""Pictures of a calibration: means side by side, what scores are worth, and who says what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalflow.lazy import np
from evalflow.report.charts import confusion_chart
from evalflow.report.pictures import Picture, draw, interval_chart
from evalflow.report.svg import MAIN, MUTED, Drawing, Scale, x_axis, y_axis
from evalflow.report.wording import number

if TYPE_CHECKING:
    from evalflow.summary.calibration import CalibrationRow

_BINS = 5
_FEW_VALUES = 3
_SIDE = 240


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
    return draw(f"{who.capitalize()} and people", sentence, _intervals(points, row))


def _tags(row: CalibrationRow) -> Picture | None:
    points: list[dict[str, Any]] = []
    for one in (row, *row.tags):
        c = one.corrected
        if c.estimate is not None:
            points.append(_point(f"{one.tag or 'all answers'} ({c.n:,})", c.estimate, c.low, c.high))
    if len(points) < 2:
        return None
    sentence = "The corrected mean by tag, with the labelled answers it rests on in brackets; lines are 95 % intervals."
    return draw("Corrected, by tag", sentence, _intervals(points, row))


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
    drawing = Drawing()
    x, y = Scale(0, 1, 0, _SIDE), Scale(0, 1, _SIDE, 0)
    y_axis(drawing, y, _SIDE, "people")
    x_axis(drawing, x, _SIDE, row.who, top=0)
    drawing.line((0, _SIDE), (_SIDE, 0), MUTED, dash="4 3")
    for one in bins:
        across = x(one["judge"])
        if one["low"] is not None:
            drawing.line((across, y(one["low"])), (across, y(one["high"])), MAIN, width=2.5, opacity=0.45)
        drawing.dot(across, y(one["human"]))
    return draw("What a score is worth", sentence, drawing)


def reliability_bins(row: CalibrationRow) -> list[dict[str, Any]]:
    """Labelled answers in five groups of equal size by the judge's score: n, the means judge and human, low and high.

    Low and high are None where labels that are all alike give no interval. Empty where scores leave 0..1 or take three
    values at most, such as verdicts.
    """
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
    return draw("Who says what", sentence, confusion_chart(names, counts, down="people", across=row.who))


def _intervals(points: list[dict[str, Any]], row: CalibrationRow) -> Drawing:
    return interval_chart(points, [0, 1] if row.traits.bounded else None, row.metric)


def _point(label: str, value: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    return {"metric": "", "label": label, "value": value, "low": low, "high": high}
