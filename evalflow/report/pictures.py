"""Charts as SVG, and those of scores and intervals."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.report.wording import PARTS, not_scored, number, percent, series_name, unscored, varying

if TYPE_CHECKING:
    import polars as pl

    from evalflow.config.schema import MetricConfig


# The page's style sheet defines these; an SVG inside the page sees them, so one picture serves light and dark.
INK, MUTED, LINE = "var(--ink)", "var(--muted)", "var(--line)"
MAIN, PASS, FAIL, PAPER = "var(--accent)", "var(--pass)", "var(--fail)", "var(--paper)"

_FONT = "system-ui, sans-serif"
_CONFIG: Mapping[str, Any] = {
    "aria": False,  # the whole picture has one label; a label per bar would be read out one by one
    "background": None,
    # Labels are measured here and drawn in the reader's font, which may be wider.
    "padding": {"left": 14, "right": 8, "top": 4, "bottom": 4},
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "tickColor": LINE,
        "domainColor": LINE,
        "gridColor": LINE,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelLimit": 150,
        "labelFlush": False,
    },
    "header": {"labelColor": MUTED, "labelFontSize": 11, "title": None, "labelLimit": 280},
}


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


def draw(title: str, sentence: str, spec: Mapping[str, Any]) -> Picture:
    """Render a specification; nothing is fetched while doing so.

    Args:
        title: What is shown, in a few words.
        sentence: What it shows, plainly; with the title it is the label that a screen reader reads.
        spec: Vega-Lite, with its data inline. Names and labels of others stand in the data alone: a list of them to
            sort by, or a domain, would become part of an expression.
    """
    import vl_convert

    svg = vl_convert.vegalite_to_svg({**spec, "config": _CONFIG}, allowed_base_urls=[])
    label = html.escape(f"{title}. {sentence}")
    # Width and height stay, as the natural size; the style sheet lets the picture shrink.
    return Picture(title, sentence, svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1))


_BINS = 20
_COLOURS = {"passed": PASS, "failed": FAIL, "scored": MAIN}


def distributions(scores: pl.LazyFrame, metrics: Mapping[str, MetricConfig]) -> list[Picture]:
    """A histogram per metric, one below the other for every judge (and dataset and target, where several).

    Args:
        scores: The columns of scores.parquet; only counts leave it.
        metrics: For the direction; a metric that is not in it (a check) counts as higher is better.
    """
    import polars as pl

    own = scores.filter(pl.col("member_of").is_null())
    overview = _overview(own)
    bins = _binned(own, overview)
    return [_picture(facts, bins, metrics.get(facts["metric"])) for facts in overview.iter_rows(named=True)]


def _overview(scores: pl.LazyFrame) -> pl.DataFrame:
    """One row per metric, in order of appearance: counts, range and median of the scores, thresholds.

    `binary` says that no score lies between 0 and 1, or beyond.
    """
    import polars as pl

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
    import polars as pl

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
    values = [_bar(row, series_name(row, parts)) for row in mine]
    if facts["binary"]:
        values += _empty_ends(values)
    layers = _two_bars(values) if facts["binary"] else _histogram(values, facts, threshold)
    return draw(title, sentence, _spec(values, layers, several=bool(parts)))


def _bar(row: Mapping[str, Any], series: str) -> dict[str, Any]:
    width = (row["high"] - row["low"]) / _BINS
    start = row["low"] + row["bin"] * width
    end = "1" if row["bin"] else "0"  # which of the two a binary score is
    return {"from": start, "to": start + width, "end": end, "n": row["n"], "state": row["state"], "series": series}


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


def _colour(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    states = [state for state in _COLOURS if any(value["state"] == state for value in values)]
    scale = {"domain": states, "range": [_COLOURS[state] for state in states]}
    return {"field": "state", "type": "nominal", "legend": None, "scale": scale}


def _histogram(
    values: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], threshold: float | None
) -> list[dict[str, Any]]:
    x = {
        "field": "from",
        "type": "quantitative",
        "bin": {"binned": True},
        "scale": {"domain": [facts["low"], facts["high"]], "nice": False},
        "axis": {"title": "score", "grid": False, "tickCount": 5},
    }
    counts = {"title": "scores", "tickCount": 3, "tickMinStep": 1, "format": ",d", "domain": False}
    y = {"field": "n", "type": "quantitative", "axis": counts}
    encoding = {"x": x, "x2": {"field": "to"}, "y": y, "color": _colour(values)}
    bars = {"mark": {"type": "bar", "binSpacing": 1.5}, "encoding": encoding}
    if threshold is None:
        return [bars]
    rule = {"type": "rule", "color": INK, "strokeDash": [4, 3]}
    return [bars, {"mark": rule, "encoding": {"x": {"datum": threshold}}}]


def _empty_ends(values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A bar of no height for each end that a series never reaches, so that its count is shown too."""
    reached = {(value["series"], value["end"]) for value in values}
    ends = {(value["series"], end): {**value, "end": end, "n": 0} for value in values for end in ("0", "1")}
    return [value for key, value in ends.items() if key not in reached]


def _two_bars(values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A bar for 0 and one for 1, each under its count: where nothing lies between them, there is nothing to bin."""
    axis = {"title": "score", "labelAngle": 0, "labelPadding": 5, "ticks": False, "domainColor": LINE}
    x = {"field": "end", "type": "nominal", "scale": {"domain": ["0", "1"], "padding": 0.35}, "axis": axis}
    n = {"field": "n", "type": "quantitative", "aggregate": "sum"}
    y = {**n, "axis": None}
    text = {"type": "text", "baseline": "bottom", "dy": -3, "color": INK, "fontSize": 12}
    return [
        {"mark": {"type": "bar"}, "encoding": {"x": x, "y": y, "color": _colour(values)}},
        {"mark": text, "encoding": {"x": x, "y": y, "text": {**n, "format": ",d"}}},
    ]


def _spec(values: list[dict[str, Any]], layers: list[dict[str, Any]], *, several: bool) -> dict[str, Any]:
    data = {"values": [{**value, "order": number} for number, value in enumerate(values)]}
    if not several:
        return {"data": data, "width": 320, "height": 120, "layer": layers}
    header = {"labelAnchor": "start", "labelFontWeight": "bold"}
    facet = {"field": "series", "type": "nominal", "sort": {"field": "order", "op": "min"}, "header": header}
    return {"data": data, "facet": facet, "columns": 1, "spec": {"width": 320, "height": 64, "layer": layers}}


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
