"""The charts of a run: intervals, pass rates, tags, confusion matrices, reliability diagrams, distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

from evalflow.config.schema import MetricConfig
from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.report import svg
from evalflow.report.wording import (
    PARTS,
    bracketed,
    headline_rows,
    joined,
    metric_name,
    not_scored,
    number,
    percent,
    plain_statistic,
    series_name,
    unscored,
    varying,
)
from evalflow.summary.journal import SLICE
from evalflow.summary.rows import Detail, DetailSeries, SummaryRow, rows_of
from evalflow.summary.verdicts import side_of
from evalflow.values.jsonvalues import as_map

T = TypeVar("T")
_MOST_TAGS = 30
_MOST_NAMED = 3
_SIDE = 260
_NEAR = 0.005  # largest difference between confidence and accuracy that counts as equal: half a percent
_BINS = 20
_COLOURS = {"passed": svg.PASS, "failed": svg.FAIL, "scored": svg.MAIN}
_WIDTH, _HEIGHT = 320, 120
_ROW_HEIGHT, _GAP = 64, 28  # height of each of several series, and the gap between them for its name
_THINNEST = 0.5


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as safe markup, with a title and a sentence on its result and on what is left out."""

    title: str
    sentence: str
    svg: str


def draw(title: str, sentence: str, drawing: svg.Drawing) -> Picture:
    """Make a picture from a drawing. Screen readers read the title and the sentence."""
    return Picture(title, sentence, drawing.markup(f"{title}. {sentence}"))


def charts(
    scores: pl.LazyFrame, summary: pl.DataFrame, details: Sequence[Detail], metrics: Mapping[str, MetricConfig]
) -> list[Picture]:
    """All charts of a run, the most informative first."""
    rows = headline_rows(summary)
    return [
        *interval_pictures(rows),
        *forests(rows_of(summary)),
        *confusions(details, rows),
        *reliabilities(details, rows),
        *distributions(scores, metrics),
    ]


def interval_pictures(rows: Sequence[SummaryRow]) -> list[Picture]:
    """Means and figures, then pass rates; metrics with values outside 0..1 have their own pictures."""
    valued = [row for row in rows if row.value is not None]
    natural = {row.metric for row in valued if not 0 <= (row.value or 0.0) <= 1}
    bounded = [row for row in valued if row.metric not in natural]
    pictures = [_means("Means and figures", bounded, [0, 1])] if bounded else []
    for metric in dict.fromkeys(row.metric for row in valued if row.metric in natural):
        own = [row for row in valued if row.metric == metric]
        pictures.append(_means(f"Means and figures of {metric}", own, None))
    judged = [row for row in rows if row.pass_rate is not None]
    return [*pictures, _pass_rates(judged)] if judged else pictures


def _means(title: str, rows: Sequence[SummaryRow], domain: list[float] | None) -> Picture:
    points = _points(rows, ("value", "ci_low", "ci_high"))
    sentence = f"Each dot is a mean or a figure over all cases, with its 95 % interval. {unscored(rows)}."
    return draw(title, sentence, svg.interval_chart(points, domain, "score"))


def _pass_rates(rows: Sequence[SummaryRow]) -> Picture:
    points = _points(rows, ("pass_rate", "pass_rate_low", "pass_rate_high"))
    least = min(points, key=lambda point: point.value or 0.0)
    lowest = f"{'lowest: ' if len(points) > 1 else ''}{joined(least.heading, least.label)}, {percent(least.value)}"
    sentence = f"Share of scores that pass their threshold, with 95 % intervals; {lowest}. {unscored(rows)}."
    return draw("Pass rates", sentence, svg.interval_chart(points, [0, 1], "pass rate"))


def _points(rows: Sequence[SummaryRow], columns: tuple[str, str, str]) -> list[svg.IntervalPoint]:
    """A point per row. If several rows share a metric, its name is their heading."""
    parts = varying(rows)
    points: list[svg.IntervalPoint] = []
    for row in rows:
        figure = "" if row.statistic == "mean" or row.metric == CASES else plain_statistic(row.statistic)
        series, ends = series_name(row, parts), (getattr(row, column) for column in columns)
        if series:
            points.append(svg.IntervalPoint(joined(figure, series), *ends, heading=metric_name(row.metric)))
        else:
            points.append(svg.IntervalPoint(f"{metric_name(row.metric)} {figure}".strip(), *ends))
    return points


def mean_point(label: str, row: SummaryRow) -> svg.IntervalPoint:
    """The value of a row of the summary with its interval."""
    return svg.IntervalPoint(label, row.value, row.ci_low, row.ci_high)


def forests(rows: Sequence[SummaryRow]) -> list[Picture]:
    """One picture for each metric (and dataset, target, judge) with means for at least two tags."""
    means = [row for row in rows if row.statistic == "mean" and row.value is not None]
    parts = varying(means)
    pictures: list[Picture] = []
    for whole, mean in ((row, row.value) for row in means if row.tag is None and row.value is not None):
        tags = [row for row in means if row.tag is not None and row.series == whole.series]
        if len(tags) > 1:
            pictures.append(_forest(f"{joined(whole.metric, series_name(whole, parts))} by tag", whole, mean, tags))
    return pictures


def _forest(title: str, whole: SummaryRow, mean: float, tags: Sequence[SummaryRow]) -> Picture:
    most = sorted(tags, key=lambda row: -row.n_scored)[:_MOST_TAGS]
    ordered = [whole, *sorted(most, key=lambda row: -(row.value or 0.0))]
    points = [mean_point(f"{row.tag or 'all cases'} ({row.n_scored:,})", row) for row in ordered]
    bounded = all(0 <= (row.value or 0.0) <= 1 for row in ordered)
    drawing = svg.interval_chart(points, [0, 1] if bounded else None, "mean", mean)
    sentences = [
        "Each dot is the mean over the scored cases with a tag (how many, in brackets), with its 95 % interval.",
        f"The dashed line is the mean of all cases, {number(mean)}: {_outside(mean, ordered[1:])}.",
    ]
    without = sum(row.ci_low is None for row in most)
    if without:
        sentences.append(f"{without} {'has' if without == 1 else 'have'} no interval.")
    if len(most) < len(tags):
        sentences.append(f"Shown are the {len(most)} tags with the most scores, of {len(tags)}.")
    return draw(title, f"{' '.join(sentences)} {unscored([whole])}.", drawing)


def _outside(value: float, rows: Sequence[SummaryRow]) -> str:
    tags = [row.tag or "" for row in rows if side_of(value, row.ci_low, row.ci_high)]
    if not tags:
        return "every interval includes it"
    return f"{len(tags)} intervals exclude it" if len(tags) > _MOST_NAMED else f"only {', '.join(tags)} excludes it"


def confusions(details: Sequence[Detail], rows: Sequence[SummaryRow]) -> list[Picture]:
    """Every confusion matrix among the details, over all tags."""
    pictures: list[Picture] = []
    for _, name, (labels, counts), mine in _drawable(details, rows, matrix_of):
        total, right = sum(map(sum, counts)), sum(counts[i][i] for i in range(len(labels)))
        sentence = f"In {right:,} of {total:,} cases the actual label is the expected one. {unscored(mine)}."
        drawing = svg.confusion_chart(labels, counts, down="expected", across="actual")
        pictures.append(draw(f"Confusion matrix of {name}", sentence, drawing))
    return pictures


def _drawable(
    details: Sequence[Detail], rows: Sequence[SummaryRow], read: Callable[[Detail], T | None]
) -> Iterator[tuple[Detail, str, T, Sequence[SummaryRow]]]:
    """For each detail over all tags that `read` can use: the detail, its name, the result of `read`, and its rows."""
    known = [(detail, content) for detail in details if detail.get("tag") is None and (content := read(detail))]
    parts = varying(DetailSeries.of(detail) for detail, _ in known)
    for detail, content in known:
        mine = [row for row in rows if row.series == tuple(detail[part] for part in SLICE)]
        yield detail, joined(detail["metric"], series_name(DetailSeries.of(detail), parts)), content, mine


def matrix_of(detail: Detail) -> tuple[list[str], list[list[int]]] | None:
    """The labels and rows of a detail that is a square matrix of counts, else None."""
    inner: Any = detail.get("matrix")
    holder: Detail = as_map(inner) if isinstance(inner, dict) else {"rows": inner, **detail}
    labels, counts = holder.get("labels"), holder.get("rows")
    if labels is None or counts is None or [len(row) for row in counts] != [len(labels)] * len(labels):
        return None
    return [str(label) for label in labels], counts


def reliabilities(details: Sequence[Detail], rows: Sequence[SummaryRow]) -> list[Picture]:
    """Every reliability diagram among the details, over all tags."""
    pictures: list[Picture] = []
    for detail, name, bins, mine in _drawable(details, rows, bins_of):
        error = next((row for row in mine if row.statistic == detail["statistic"]), None)
        sentence = _reliability_sentence(bins, error, detail.get("by_chance"), mine)
        pictures.append(draw(f"Calibration of {name}", sentence, _reliability_diagram(bins)))
    return pictures


def bins_of(detail: Detail) -> list[Detail]:
    """The non-empty bins of a detail; none if the detail is not a reliability diagram."""
    bins: list[Detail] = detail.get("bins") or []
    return [one for one in bins if one["n"]]


def _reliability_sentence(
    bins: Sequence[Detail], error: SummaryRow | None, chance: float | None, mine: Sequence[SummaryRow]
) -> str:
    value, low, high = (error.value, error.ci_low, error.ci_high) if error else (None, None, None)
    n = sum(one["n"] for one in bins)
    stated, right = (sum(one["n"] * one[name] for one in bins) / n for name in ("confidence", "accuracy"))
    shown = side_of(0, low, high) > 0
    way = "off" if abs(stated - right) < _NEAR else "overconfident" if stated > right else "too modest"
    verdict = (way if way == "off" else f"{way} on average") if shown else "not shown to be off"
    by_chance = "" if chance is None else f"; chance alone makes about {number(chance)}"
    text = (
        f"Over {n:,} cases the mean confidence is {percent(stated)} and {percent(right)} are right: {verdict} "
        f"(calibration error {number(value)}{bracketed(low, high)}{by_chance}). On the dashed line both are equal."
    )
    silent = max((row.n_scored for row in mine), default=n) - n
    return f"{text}{f' {silent:,} state no confidence.' if silent > 0 else ''} {unscored(mine)}."


def _reliability_diagram(bins: Sequence[Detail]) -> svg.Drawing:
    """A dot for each bin, sized by its cases, joined to the diagonal where confidence equals accuracy."""
    drawing = svg.Drawing()
    # Room beyond 0 and 1, so that no dot is cut in half.
    x, y = svg.Scale(-0.04, 1.04, 0, _SIDE, count=4), svg.Scale(-0.04, 1.04, _SIDE, 0, count=4)
    svg.y_axis(drawing, y, _SIDE, "right", label=percent)
    svg.x_axis(drawing, x, _SIDE, "stated confidence", top=0, label=percent)
    drawing.line((x(0), y(0)), (x(1), y(1)), svg.MUTED, width=1.2, dash="4 3")
    most = max(one["n"] for one in bins)
    for one in bins:
        left, stated, right = x(one["confidence"]), y(one["confidence"]), y(one["accuracy"])
        drawing.line((left, stated), (left, right), svg.MUTED, width=2, opacity=0.4)
        drawing.dot(left, right, math.sqrt((60 + 340 * one["n"] / most) / math.pi), opacity=0.85)
        drawing.text(left, right - 13, f"{one['n']:,}", fill=svg.INK)
    return drawing


@dataclass(frozen=True, slots=True)
class _Spread:
    """The scores of a metric: their range, median, counts, thresholds, and whether all are 0 or 1."""

    metric: str
    low: float
    high: float
    median: float | None
    n_scored: int
    n_undefined: int
    n_error: int
    n_skipped: int
    n_passed: int
    n_judged: int
    thresholds: Sequence[float]
    binary: bool
    n_ones: int

    @property
    def threshold(self) -> float | None:
        """The only threshold; None without one, or with several."""
        return self.thresholds[0] if len(self.thresholds) == 1 else None

    @property
    def left_out(self) -> str:
        return not_scored(self.n_undefined, self.n_error, self.n_skipped)


@dataclass(frozen=True, slots=True)
class _Bin:
    """The number of a series' scores in one bin of a histogram, by pass and fail."""

    metric: str
    dataset: str
    target: str
    judge: str | None
    state: str
    place: float
    n: int


def distributions(scores: pl.LazyFrame, metrics: Mapping[str, MetricConfig]) -> list[Picture]:
    """A histogram per metric and judge (and dataset and target, if there are several).

    Cases' checks are not in `metrics`.
    """
    own = scores.filter(pl.col("member_of").is_null())
    overview = _overview(own)
    bins = _binned(own, overview)
    return [_distribution(_Spread(*facts), bins, metrics.get(facts[0])) for facts in overview.iter_rows()]


def _overview(scores: pl.LazyFrame) -> pl.DataFrame:
    """One row per metric, in order of appearance: counts, range, median, thresholds, and if all scores are 0 or 1."""
    score, status = pl.col("score"), pl.col("status")
    unit = (pl.col("low") >= 0) & (pl.col("high") <= 1)
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
        .with_columns(
            low=pl.when(unit).then(0.0).otherwise("low").fill_null(0.0),
            high=pl.when(unit)
            .then(1.0)
            .when(pl.col("high") > pl.col("low"))
            .then("high")
            .otherwise(pl.col("low") + 1)
            .fill_null(1.0),
        )
        .collect(engine="streaming")
    )


def _binned(scores: pl.LazyFrame, overview: pl.DataFrame) -> list[_Bin]:
    state = pl.when("passed").then(pl.lit("passed")).when(pl.col("passed").not_()).then(pl.lit("failed"))
    place = (pl.col("score") - pl.col("low")) / (pl.col("high") - pl.col("low")) * _BINS
    counts = (
        scores.filter(pl.col("score").is_not_null())
        .select("metric", *PARTS, "score", state.otherwise(pl.lit("scored")).alias("state"))
        .join(overview.lazy().select("metric", "low", "high"), on="metric")
        .with_columns(bin=place.floor().clip(0, _BINS - 1))
        .group_by("metric", *PARTS, "state", "bin")
        .agg(n=pl.len())
        .sort("metric", *PARTS, "state", "bin", nulls_last=True)
        .collect(engine="streaming")
    )
    return [_Bin(*one) for one in counts.iter_rows()]


def _distribution(spread: _Spread, bins: Sequence[_Bin], config: MetricConfig | None) -> Picture:
    title, sentence = f"Distribution of {spread.metric}", _sentence(spread, config)
    mine = [one for one in bins if one.metric == spread.metric]
    if not mine:
        return Picture(title, sentence, "")
    parts = varying(mine)
    series = {name: list(own) for name, own in groupby(mine, key=lambda one: series_name(one, parts))}
    return draw(title, sentence, _two_bars(series) if spread.binary else _histograms(series, spread))


def _sentence(spread: _Spread, config: MetricConfig | None) -> str:
    n, ones = spread.n_scored, spread.n_ones
    if not n:
        return f"No case is scored. {spread.left_out}."
    text = f"The median of {n:,} scores is {number(spread.median)}"
    if spread.binary:
        text = f"{n - ones:,} of {n:,} scores {_be(n - ones)} 0, {ones:,} {_be(ones)} 1"
    if spread.threshold is not None and spread.n_judged:
        lower = config is not None and config.direction == "lower_is_better"
        bound = "at most" if lower else "at least"
        text += f"; {spread.n_passed:,} pass ({bound} {spread.threshold:g})"
    return f"{text}. {spread.left_out}."


def _be(n: int) -> str:
    return "is" if n == 1 else "are"


def _histograms(series: Mapping[str, Sequence[_Bin]], spread: _Spread) -> svg.Drawing:
    drawing, threshold = svg.Drawing(), spread.threshold
    x = svg.Scale(spread.low, spread.high, 0, _WIDTH)
    width = _WIDTH / _BINS
    most = max(_tallest(bins) for bins in series.values())
    for top, bottom, bins in _series_rows(drawing, series):
        counts = svg.Scale.around((0, most), bottom, top, count=3, least_step=1)
        svg.y_axis(drawing, counts, _WIDTH, "scores")
        for place, low, high, colour in _stacked(bins):
            y = counts(high)
            drawing.rect(place * width + 0.75, y, width - 1.5, max(counts(low) - y, _THINNEST), colour)
        drawing.line((0, bottom), (_WIDTH, bottom))
        if threshold is not None and spread.low <= threshold <= spread.high:
            drawing.line((x(threshold), top), (x(threshold), bottom), svg.INK, dash="4 3")
    svg.x_axis(drawing, x, _bottom(series), "score")
    return drawing


def _two_bars(series: Mapping[str, Sequence[_Bin]]) -> svg.Drawing:
    drawing = svg.Drawing()
    middles = (0.29 * _WIDTH, 0.71 * _WIDTH)
    half = 0.14 * _WIDTH
    for end, middle in zip("01", middles, strict=True):
        drawing.text(middle, _bottom(series) + 18, end)
    drawing.text(_WIDTH / 2, _bottom(series) + 36, "score")
    ends = {name: [replace(one, place=min(one.place, 1)) for one in bins] for name, bins in series.items()}
    most = max(_tallest(bins) for bins in ends.values())
    for top, bottom, bins in _series_rows(drawing, ends):
        counts = svg.Scale(0, most, bottom, top + 16)
        for place, low, high, colour in _stacked(bins):
            y = counts(high)
            drawing.rect(middles[int(place)] - half, y, 2 * half, max(counts(low) - y, _THINNEST), colour)
        for end, middle in enumerate(middles):
            n = sum(one.n for one in bins if one.place == end)
            drawing.text(middle, counts(n) - 4, f"{n:,}", size=12, fill=svg.INK)
        drawing.line((0, bottom), (_WIDTH, bottom))
    return drawing


def _series_rows(
    drawing: svg.Drawing, series: Mapping[str, Sequence[_Bin]]
) -> Iterator[tuple[float, float, Sequence[_Bin]]]:
    """Top and bottom of each series, with its name above if there are several."""
    for place, (name, bins) in enumerate(series.items()):
        if len(series) == 1:
            yield 0, _HEIGHT, bins
            return
        top = place * (_ROW_HEIGHT + _GAP)
        drawing.text(0, top - 9, svg.shortened(name, 300), anchor="start", bold=True)
        yield top, top + _ROW_HEIGHT, bins


def _bottom(series: Mapping[str, Sequence[_Bin]]) -> float:
    return _HEIGHT if len(series) == 1 else len(series) * (_ROW_HEIGHT + _GAP) - _GAP


def _tallest(bins: Sequence[_Bin]) -> int:
    return max(sum(one.n for one in bins if one.place == place) for place in {one.place for one in bins})


def _stacked(bins: Sequence[_Bin]) -> Iterator[tuple[float, int, int, str]]:
    tops: dict[float, int] = {}
    for state in _COLOURS:
        for one in bins:
            if one.state == state:
                low = tops.get(one.place, 0)
                tops[one.place] = low + one.n
                yield one.place, low, low + one.n, _COLOURS[state]
