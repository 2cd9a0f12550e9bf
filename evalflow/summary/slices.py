"""Slices of a run (all cases, and each tag): which scores belong to each row of the summary, and their moments."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalflow.datasets import tag_levels
from evalflow.lazy import np, pl
from evalflow.stats.arrays import Floats, Hashes
from evalflow.summary.journal import SLICE

NAMES = ("score", "passed")
CLUSTERED = ("clusters", "std_error", "centre", "spread", "df")
STATES = ("scored", "undefined", "error", "skipped")
_SPENT = ("cost_usd", "input_tokens", "output_tokens")
_HALF = 0.5


def moments(*names: str) -> list[pl.Expr]:
    """Aggregations of columns, true as 1: *_n, _mean, _m2 (about the mean), _low, _high, _binary (all are 0 or 1)."""
    found: list[pl.Expr] = []
    for name in names:
        x = pl.col(name).cast(pl.Float64)
        parts = {
            "n": x.count().cast(pl.Int64),
            "mean": x.mean(),
            "m2": x.var(ddof=0) * x.count(),
            "low": x.min(),
            "high": x.max(),
            "binary": ((x == 0) | (x == 1)).all(),
        }
        found += [expression.alias(f"{name}_{part}") for part, expression in parts.items()]
    return found


def merged() -> list[pl.Expr]:
    """Aggregations that merge rows of moments, with sample _std instead of _m2 (Chan, Golub & LeVeque 1983)."""
    found: list[pl.Expr] = []
    for name in NAMES:
        n, mean, m2, low, high, binary = (
            pl.col(f"{name}_{part}") for part in ("n", "mean", "m2", "low", "high", "binary")
        )
        total = n.sum()
        grand = (n * mean).sum() / total
        squares = m2.sum() + (n * (mean - grand) ** 2).sum()
        whole = {
            "n": total,
            "mean": grand.fill_nan(None),
            "std": pl.when(total > 1).then((squares / (total - 1)).sqrt()),
            "low": low.min(),
            "high": high.max(),
            "binary": binary.all(),
        }
        found += [expression.alias(f"{name}_{part}") for part, expression in whole.items()]
    return found


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a summary: each is the cells of one dataset, target, metric, judge and tag (null for all).

    `parts` has one row per slice, set of tags, state, and whether the judge was called: counts, sums, moments. `links`
    says which of them belong to which unit, and `table` has one row per unit.
    """

    parts: pl.DataFrame
    links: pl.DataFrame
    table: pl.DataFrame

    @property
    def repeated(self) -> bool:
        """Whether some case was answered or judged more than once."""
        return bool(self.parts["repeated"].any())

    @property
    def clustered(self) -> bool:
        """Whether some case carries a group."""
        return bool(self.parts["grouped"].any())

    @property
    def keys(self) -> dict[int, dict[str, Any]]:
        """The key of each unit: dataset, target, metric, judge, tag."""
        return self.table.rows_by_key("unit", named=True, unique=True)

    def rows(self, table: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        """Each unit, in order, with its rows of a table that has a `part`; that column is dropped."""
        parts = table.partition_by("part", as_dict=True, include_key=False)
        nothing = table.clear().drop("part")
        for unit, own in self.links.group_by("unit").agg(pl.col("part").sort()).sort("unit").iter_rows():
            found = [parts[part,] for part in own if (part,) in parts]
            yield unit, pl.concat(found) if found else nothing

    def arrays(self, table: pl.DataFrame) -> Iterator[tuple[int, dict[str, Floats]]]:
        """The same as `rows` with numeric columns as arrays, which is far faster for many small units; null is NaN."""
        ordered = table.sort("part", maintain_order=True)
        columns = {
            name: ordered[name].cast(pl.Float64).fill_null(math.nan).to_numpy()
            for name in ordered.columns
            if name != "part"
        }
        parts, starts = np.unique(ordered["part"].to_numpy(), return_index=True)
        ends = np.append(starts, ordered.height)[1:]
        places = {part: slice(start, end) for part, start, end in zip(parts.tolist(), starts, ends, strict=True)}
        for unit, own in self.links.group_by("unit").agg(pl.col("part").sort()).sort("unit").iter_rows():
            found = [places[part] for part in own if part in places] or [slice(0, 0)]
            yield unit, {name: np.concatenate([column[place] for place in found]) for name, column in columns.items()}


def own_cells(scores: pl.LazyFrame) -> pl.LazyFrame:
    """The rows to summarise, with their `part`; without members of a panel, which its own rows represent."""
    part = pl.lit(0, pl.UInt64)
    for seed, name in enumerate((*SLICE, "tags")):
        part = part ^ pl.col(name).hash(seed)
    return scores.filter(pl.col("member_of").is_null()).with_columns(part=part)


def find_units(cells: pl.LazyFrame) -> Units:
    """Find all units, and the sums over their parts."""
    status = pl.col("status")
    # An undefined or skipped score may never have called the judge. A cached reply costs nothing now.
    asked = pl.col("judge").is_not_null() & ~pl.col("cached")
    asked &= status.is_in(["scored", "error"]) | pl.col("latency_s").is_not_null()
    sums = [*_sums(), *moments(*NAMES)]
    named = (
        cells.with_columns(asked=asked).group_by("part", "status", "asked").agg(pl.col(*SLICE, "tags").first(), *sums)
    )
    parts = named.collect(engine="streaming")
    exact = parts.group_by("part").agg(pl.col(*SLICE, "tags").first())
    names = [
        (part, tag)
        for part, tags in exact.select("part", "tags").iter_rows()
        for tag in (None, *dict.fromkeys(level for own in tags or () for level in tag_levels(own)))
    ]
    tags = pl.DataFrame(names, schema={"part": parts.schema["part"], "tag": pl.String}, orient="row")
    spread = exact.drop("tags").join(tags, on="part")
    table = spread.select(*SLICE, "tag").unique().sort(*SLICE, "tag").with_row_index("unit")
    links = spread.join(table, on=[*SLICE, "tag"], nulls_equal=True).select("unit", "part")
    return Units(parts, links, table)


def counts(units: Units) -> pl.DataFrame:
    """Per unit: cells by state, cost, tokens. A sum with an unknown term is unknown."""
    n, asked = pl.col("n"), pl.col("asked")
    by_state = [n.filter(pl.col("status") == state).sum().alias(f"n_{state}") for state in STATES]
    spent = [
        pl.when((asked & (pl.col(f"{name}_nulls") > 0)).any()).then(None).otherwise(pl.col(name).sum()).alias(name)
        for name in _SPENT
    ]
    return units.links.join(units.parts, on="part").group_by("unit").agg(n.sum(), *by_state, *spent)


def _sums() -> list[pl.Expr]:
    return [
        pl.len().cast(pl.Int64).alias("n"),
        pl.col(_SPENT).sum(),
        pl.col(_SPENT).null_count().name.suffix("_nulls"),
        ((pl.col("repeat") > 0) | (pl.col("target_repeat") > 0)).any().alias("repeated"),
        pl.col("group").is_not_null().any().alias("grouped"),
    ]


def cluster() -> pl.Expr:
    """The group of a row as a number, a 64-bit hash of its name; null without one."""
    return pl.when(pl.col("group").is_not_null()).then(pl.col("group").hash()).alias("cluster")


def cluster_name(group: pl.Expr, case: pl.Expr) -> pl.Expr:
    """The cluster's name: that of the group, or of the case without one."""
    return pl.when(group.is_null()).then("case:" + case).otherwise("group:" + group)


def case_clusters(cases: pl.DataFrame) -> Hashes | None:
    """The cluster of each row, a new one for rows without a group; None if no row has a group."""
    if cases["cluster"].null_count() == cases.height:
        return None
    alone = pl.int_range(pl.len(), dtype=pl.UInt64)
    return cases.select(pl.col("cluster").fill_null(alone))["cluster"].to_numpy()


def repeats_of(cells: pl.LazyFrame) -> pl.LazyFrame:
    """One row per part and case, with its repeats in moments.

    score and passed are means over scored cells; share is that of its cells that have a score, without skipped ones;
    mean, answers, answer_variance, per_judgement and judge_variance are as in `Repeated`; judgements, verdicts and
    passes are over all answers; judged are answers with a verdict, passing those by majority.
    """
    case = ("part", "case_id", "cluster")
    n, score, passes, verdicts = (pl.col(name) for name in ("n", "score", "passes", "verdicts"))
    # Sums rather than means, so that scores of 0 and 1 stay exact.
    answers = (
        cells.with_columns(cluster())
        .group_by(*case, "target_repeat")
        .agg(
            score.sum(), variance=score.var(), n=score.count(), wanted=(pl.col("status") != "skipped").sum(),
            verdicts=pl.col("passed").count(), passes=pl.col("passed").sum(),
        )
    )  # fmt: skip
    answer = pl.when(n > 0).then(score / n)
    return (
        answers.group_by(case)
        .agg(
            score.sum(), pl.col("wanted").sum(), verdicts.sum(), passes.sum(),
            mean=answer.mean(), answers=(n > 0).sum(), answer_variance=answer.var(),
            per_judgement=(1 / n).filter(n > 0).mean(), judge_variance=pl.col("variance").mean(), judgements=n.sum(),
            judged=(verdicts > 0).sum(), passing=(passes > _HALF * verdicts).sum(),
        )
        .with_columns(
            score=pl.when(pl.col("judgements") > 0).then(score / pl.col("judgements")),
            passed=pl.when(verdicts > 0).then(passes / verdicts),
            share=pl.when(pl.col("wanted") > 0).then(pl.col("judgements") / pl.col("wanted")),
        )
        .drop("wanted")
    )  # fmt: skip


def measures(cells: pl.LazyFrame, cases: pl.DataFrame | None, units: Units, bounded: Collection[str]) -> pl.DataFrame:
    """One row per unit; `cases` from `repeats_of`, None if nothing is repeated and each cell is a case.

    score_* and passed_* have n (cases), mean, std, low, high, binary, and, if cases have groups, clusters, std_error,
    centre, spread and df (as of `Moments`). floor and ceiling are the mean score with missing scores as 0 and as 1,
    which has a meaning for `bounded` metrics; latencies are in seconds.
    """
    # A cached reply has no meaningful latency.
    latency = pl.when(~pl.col("cached")).then("latency_s").alias("latency")
    if cases is None:
        groups = [cluster()] if units.clustered else []
        cases = calls = cells.select("part", *NAMES, latency, *groups).collect(engine="streaming")
        parts = _cell_bounds(units.parts)
    else:
        calls = cells.select("part", latency).collect(engine="streaming")
        parts = cases.group_by("part").agg(*moments(*NAMES), *_case_bounds())
    # Clusters as numbers from 1, in their order; 0 without a group.
    numbered = [pl.col("cluster").rank("dense").fill_null(0)] if "cluster" in cases.columns else []
    ends = units.table.select("unit", pl.col("metric").is_in(list(bounded)))
    has_ends = dict(ends.iter_rows())
    spread = [
        _case_measures(unit, own, bounded=has_ends[unit])
        for unit, own in units.arrays(cases.select("part", *NAMES, *numbered))
    ]
    latencies = [
        {"unit": unit, "latency_p50": _quantile(own["latency"], 0.5), "latency_p95": _quantile(own["latency"], 0.95)}
        for unit, own in units.arrays(calls.select("part", "latency"))
    ]
    return _merged(parts, units).join(_frame(spread), on="unit").join(_frame(latencies), on="unit")


def _case_bounds() -> list[pl.Expr]:
    """For cases: the sum of known scores, the missing share, and the number of cases that should have a score."""
    share, score = pl.col("share"), pl.col("score")
    known = (score.fill_null(0.0) * share).sum()
    return [known.alias("known"), (1 - share).sum().alias("missing"), share.count().alias("wanted")]


def _cell_bounds(parts: pl.DataFrame) -> pl.DataFrame:
    """The same as `_case_bounds` if each cell is a case, from its state."""
    n, status = pl.col("n"), pl.col("status")
    return parts.with_columns(
        known=(pl.col("score_mean") * pl.col("score_n")).fill_null(0.0),
        missing=pl.when(status.is_in(["undefined", "error"])).then(n).otherwise(0),
        wanted=pl.when(status != "skipped").then(n).otherwise(0),
    )


def _merged(parts: pl.DataFrame, units: Units) -> pl.DataFrame:
    known, missing, wanted = (pl.col(name).sum() for name in ("known", "missing", "wanted"))
    bounds = {"floor": known / wanted, "ceiling": (known + missing) / wanted}
    rows = units.links.join(parts, on="part").group_by("unit").agg(*merged(), **bounds)
    return rows.with_columns(pl.col("floor", "ceiling").fill_nan(None))


def _case_measures(unit: int, cases: Mapping[str, Floats], *, bounded: bool) -> dict[str, Any]:
    from evalflow.stats.intervals import cluster_spread

    found: dict[str, Any] = {"unit": unit, "median": _quantile(cases["score"], 0.5)}
    groups = cases.get("cluster")
    if groups is not None:  # a case without a group is its own cluster
        groups = np.where(groups > 0, groups, np.arange(-groups.size, 0)).astype(np.int64) if groups.any() else None
    for name in NAMES if "cluster" in cases else ():
        known = ~np.isnan(cases[name])
        own = None if groups is None else groups[known]
        spread = cluster_spread(cases[name][known], own, bounded=bounded or name == "passed")
        found |= {f"{name}_{field}": value for field, value in zip(CLUSTERED, spread, strict=True)}
    return found


def _quantile(values: Floats, share: float) -> float | None:
    """The quantile of the values that are not NaN, interpolated as in Polars; None if there are none."""
    ordered = np.sort(values[~np.isnan(values)])
    if not ordered.size:
        return None
    place = (ordered.size - 1) * share
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return float(low if low == high else (high - low) * (place - math.floor(place)) + low)


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    samples = {f"{name}_sample": pl.List(pl.Float64) for name in NAMES}
    types = {name: samples.get(name, pl.Float64()) for name in rows[0]}
    return pl.DataFrame(rows, schema=types | {"unit": pl.UInt32()})
