"""Charts as SVG, and those of scores and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from evalflow.lazy import pl
from evalflow.report.svg import (
    FAIL,
    INK,
    MAIN,
    MUTED,
    PASS,
    Drawing,
    Scale,
    shortened,
    text_width,
    x_axis,
    y_axis,
)
from evalflow.report.wording import PARTS, not_scored, number, percent, series_name, unscored, varying

if TYPE_CHECKING:
    from evalflow.config.schema import MetricConfig


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and what it says.

    Attributes:
        title: What is shown, in a few words.
        sentence: What it shows, plainly, with the count of cases that are not in it.
        svg: Markup that is safe to place in a page.
    """

    title: str
    sentence: str
    svg: str


def draw(title: str, sentence: str, drawing: Drawing) -> Picture:
    """The picture of a drawing; title and sentence together are what a screen reader reads."""
    return Picture(title, sentence, drawing.markup(f"{title}. {sentence}"))


_BINS = 20
_COLOURS = {"passed": PASS, "failed": FAIL, "scored": MAIN}


def distributions(scores: pl.LazyFrame, metrics: Mapping[str, MetricConfig]) -> list[Picture]:
    """A histogram per metric, one below the other for every judge (and dataset and target, where several).

    Args:
        scores: The columns of scores.parquet; only counts leave it.
        metrics: For the direction; a metric that is not in it (a check) counts as higher is better.
    """
    own = scores.filter(pl.col("member_of").is_null())
    overview = _overview(own)
    bins = _binned(own, overview)
    return [_picture(facts, bins, metrics.get(facts["metric"])) for facts in overview.iter_rows(named=True)]


def _overview(scores: pl.LazyFrame) -> pl.DataFrame:
    """One row per metric, in order of appearance: counts, range and median of the scores, thresholds.

    `binary` says that no score lies between 0 and 1, or beyond.
    """
    score, status = pl.col("score"), pl.col("status")
    return (
        scores.group_by("metric", maintain_order=True)
        .agg(
            score.min().alias("low"),
            score.max().alias("high"),
            score.median().alias("median"),
            *[(status == state).sum().alias(f"n_{state}") for state in ("scored", "undefined", "error", "skipped")],
            pl.col("passed").sum().alias("n_passed"),
            pl.col("passed").is_not_null().sum().alias("n_judged"),
            pl.col("threshold").drop_nulls().unique().alias("thresholds"),
            score.drop_nulls().is_in([0.0, 1.0]).all().alias("binary"),
            (score == 1).sum().alias("n_ones"),
        )
        .with_columns(unit=(pl.col("low") >= 0) & (pl.col("high") <= 1))
        .with_columns(
            low=pl.when("unit").then(0.0).otherwise("low"),
            high=pl.when("unit")
            .then(1.0)
            .when(pl.col("high") > pl.col("low"))
            .then("high")
            .otherwise(pl.col("low") + 1),
        )
        .collect(engine="streaming")
    )


def _binned(scores: pl.LazyFrame, overview: pl.DataFrame) -> list[dict[str, Any]]:
    """Counts by metric, dataset, target, judge, pass or fail and bin."""
    state = pl.when("passed").then(pl.lit("passed")).when(pl.col("passed").not_()).then(pl.lit("failed"))
    place = (pl.col("score") - pl.col("low")) / (pl.col("high") - pl.col("low")) * _BINS
    return (
        scores.filter(pl.col("score").is_not_null())
        .select("metric", *PARTS, "score", state.otherwise(pl.lit("scored")).alias("state"))
        .join(overview.lazy().select("metric", "low", "high"), on="metric")
        .with_columns(bin=place.floor().clip(0, _BINS - 1))
        .group_by("metric", *PARTS, "state", "bin", "low", "high")
        .agg(n=pl.len())
        .sort("metric", *PARTS, "state", "bin", nulls_last=True)
        .collect(engine="streaming")
        .to_dicts()
    )


def _picture(facts: dict[str, Any], bins: Sequence[dict[str, Any]], config: MetricConfig | None) -> Picture:
    name, title = facts["metric"], f"Spread of {facts['metric']}"
    mine = [row for row in bins if row["metric"] == name]
    threshold = facts["thresholds"][0] if len(facts["thresholds"]) == 1 else None
    sentence = _sentence(facts, threshold, config)
    if not mine:
        return Picture(title, sentence, "")
    parts = varying(mine)
    series = {name: list(rows) for name, rows in groupby(mine, key=lambda row: series_name(row, parts))}
    drawing = _two_bars(series) if facts["binary"] else _histograms(series, facts, threshold)
    return draw(title, sentence, drawing)


def _sentence(facts: Mapping[str, Any], threshold: float | None, config: MetricConfig | None) -> str:
    n = facts["n_scored"]
    if not n:
        return f"Nothing to draw: no case is scored. {not_scored(facts)}."
    text = f"Half of {n:,} scores lie at or above {number(facts['median'])}"
    if facts["binary"]:
        ones = facts["n_ones"]
        text = f"{n - ones:,} of {n:,} scores {_be(n - ones)} 0, {ones:,} {_be(ones)} 1"
    if threshold is not None and facts["n_judged"]:
        lower = config is not None and config.direction == "lower_is_better"
        bound = "at most" if lower else "at least"
        text += f"; {facts['n_passed']:,} pass ({bound} {threshold:g})"
    return f"{text}. {not_scored(facts)}."


def _be(n: int) -> str:
    return "is" if n == 1 else "are"


_WIDTH, _HEIGHT = 320, 120
_ROW_HEIGHT, _GAP = 64, 28
"""Where there are several series: the height of each, and the room between them for its name."""
_THINNEST = 0.5

Bins = Sequence[Mapping[str, Any]]


def _histograms(series: Mapping[str, Bins], facts: Mapping[str, Any], threshold: float | None) -> Drawing:
    """Bars of a twentieth of the range each, on the same scales for every series."""
    drawing = Drawing()
    x = Scale(facts["low"], facts["high"], 0, _WIDTH)
    width = _WIDTH / _BINS
    most = max(_tallest(bins) for bins in series.values())
    for top, bottom, bins in _rows(drawing, series):
        counts = Scale.around((0, most), bottom, top, count=3, least_step=1)
        y_axis(drawing, counts, _WIDTH, "scores")
        for place, low, high, colour in _stacked(bins):
            y = counts(high)
            drawing.rect(place * width + 0.75, y, width - 1.5, max(counts(low) - y, _THINNEST), colour)
        drawing.line((0, bottom), (_WIDTH, bottom))
        if threshold is not None and facts["low"] <= threshold <= facts["high"]:
            drawing.line((x(threshold), top), (x(threshold), bottom), INK, dash="4 3")
    x_axis(drawing, x, _bottom(series), "score")
    return drawing


def _two_bars(series: Mapping[str, Bins]) -> Drawing:
    """A bar for 0 and one for 1, each under its count: where nothing lies between them, there is nothing to bin."""
    drawing = Drawing()
    middles = (0.29 * _WIDTH, 0.71 * _WIDTH)
    half = 0.14 * _WIDTH
    for end, middle in zip("01", middles, strict=True):
        drawing.text(middle, _bottom(series) + 18, end)
    drawing.text(_WIDTH / 2, _bottom(series) + 36, "score")
    ends = {name: [{**row, "bin": min(row["bin"], 1)} for row in bins] for name, bins in series.items()}
    most = max(_tallest(bins) for bins in ends.values())
    for top, bottom, bins in _rows(drawing, ends):
        counts = Scale(0, most, bottom, top + 16)
        for place, low, high, colour in _stacked(bins):
            y = counts(high)
            drawing.rect(middles[int(place)] - half, y, 2 * half, max(counts(low) - y, _THINNEST), colour)
        for end, middle in enumerate(middles):
            n = sum(row["n"] for row in bins if row["bin"] == end)
            drawing.text(middle, counts(n) - 4, f"{n:,}", size=12, fill=INK)
        drawing.line((0, bottom), (_WIDTH, bottom))
    return drawing


def _rows(drawing: Drawing, series: Mapping[str, Bins]) -> Iterator[tuple[float, float, Bins]]:
    """The upper and the lower end of each series, under its name where there are several."""
    for place, (name, bins) in enumerate(series.items()):
        if len(series) == 1:
            yield 0, _HEIGHT, bins
            return
        top = place * (_ROW_HEIGHT + _GAP)
        drawing.text(0, top - 9, shortened(name, 300), anchor="start", bold=True)
        yield top, top + _ROW_HEIGHT, bins


def _bottom(series: Mapping[str, Bins]) -> float:
    return _HEIGHT if len(series) == 1 else len(series) * (_ROW_HEIGHT + _GAP) - _GAP


def _tallest(bins: Bins) -> int:
    return max(sum(row["n"] for row in bins if row["bin"] == place) for place in {row["bin"] for row in bins})


def _stacked(bins: Bins) -> Iterator[tuple[float, int, int, str]]:
    """Each bar: its bin, the counts where it starts and ends, its colour."""
    tops: dict[float, int] = {}
    for state in _COLOURS:
        for row in bins:
            if row["state"] == state:
                low = tops.get(row["bin"], 0)
                tops[row["bin"]] = low + row["n"]
                yield row["bin"], low, low + row["n"], _COLOURS[state]


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
    return draw(title, sentence, interval_chart(points, domain, "value"))


def _pass_rates(rows: Sequence[Mapping[str, Any]]) -> Picture:
    points = _points(rows, ("pass_rate", "pass_rate_low", "pass_rate_high"))
    least = min(points, key=lambda point: point["value"])
    name = " · ".join(text for text in (least["metric"], least["label"]) if text)
    lowest = f"{name} passes {'least often, ' if len(points) > 1 else ''}{percent(least['value'])}"
    sentence = f"Share of scores that pass their threshold, with its 95 % interval; {lowest}. {unscored(rows)}."
    return draw("Pass rates", sentence, interval_chart(points, [0, 1], "pass rate"))


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


_CARD = 330
"""The width of a picture beside others on the page: wider ones are shrunk to it, with their letters."""
_LABEL, _STEP = 210, 26
"""The most pixels that a label takes, and the height of a row."""


def interval_chart(
    points: Sequence[Mapping[str, Any]], domain: Sequence[float] | None, title: str, reference: float | None = None
) -> Drawing:
    """Points on their intervals, one below the other.

    Args:
        points: metric (a heading for those that share it, empty for none), label, value, low, high; a value or an
            interval that is None is left out.
        domain: What the scale shows at least; None for what the points take.
        title: Of the scale.
        reference: A value to mark with a line through all of them.
    """
    drawing = Drawing()
    width = max(170.0, _CARD - 24 - max(text_width(shortened(point["label"], _LABEL)) for point in points))
    x = _scale(points, domain, reference, width)
    bottom = 0.0
    for metric in dict.fromkeys(point["metric"] for point in points):
        own = [point for point in points if point["metric"] == metric]
        top = bottom + (26 if metric and bottom else 0)
        bottom = top + _STEP * len(own)
        drawing.text(0, top - 8, shortened(metric, 280), anchor="start", bold=True)
        for tick in x.ticks():
            drawing.line((x(tick), top), (x(tick), bottom))
        if reference is not None:
            drawing.line((x(reference), top), (x(reference), bottom), MUTED, dash="3 3")
        for place, point in enumerate(own):
            _interval(drawing, x, top + (place + 0.5) * _STEP, point)
    x_axis(drawing, x, bottom, title)
    return drawing


def _interval(drawing: Drawing, x: Scale, y: float, point: Mapping[str, Any]) -> None:
    # A dot at the lower end reaches over the edge; its label keeps away from it.
    drawing.text(-10, y + 4, shortened(point["label"], _LABEL), anchor="end")
    if point["low"] is not None and point["high"] is not None:
        ends = (x(point["low"]), y), (x(point["high"]), y)
        drawing.line(*ends, MAIN, width=2.5, opacity=0.45, cap="round")
    if point["value"] is not None:
        drawing.dot(x(point["value"]), y)


def _scale(
    points: Sequence[Mapping[str, Any]], domain: Sequence[float] | None, reference: float | None, width: float
) -> Scale:
    values = [point[end] for point in points for end in _ENDS if point[end] is not None]
    if domain is None:
        return Scale.around((values if reference is None else [*values, reference]) or [0.0, 1.0], 0, width)
    return Scale(min([domain[0], *values]), max([domain[1], *values]), 0, width)
