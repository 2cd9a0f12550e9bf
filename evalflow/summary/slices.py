"""Slices of a run (all cases, and each tag): the scores behind each row of the summary, and their sums and means."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evalflow.datasets import tag_levels
from evalflow.lazy import np, pl
from evalflow.records import CUT_OFF
from evalflow.stats.arrays import Estimated, Floats, Ints
from evalflow.stats.intervals import Moments, mean_estimate, moments, stacked
from evalflow.summary.journal import SLICE

NAMES = ("score", "passed")
REPEATED = ("mean", "answers", "answer_variance", "per_judgement", "judge_variance")
COUNTED = ("judgements", "verdicts", "passes", "judged", "passing")
STATES = ("scored", "undefined", "error", "skipped")
_SPENT = ("cost_usd", "input_tokens", "output_tokens")
_HALF = 0.5
_FEW_PARTS = 1 << 16
_CASE_SEED = 16


@dataclass(frozen=True)
class Units:
    """The units of a summary. A unit is all cells of one dataset, target, metric, judge and tag (null for all).

    `parts` has one row per slice, set of tags, state, and whether the judge was called: counts and sums. `links` says
    which of them belong to which unit, and `table` has one row per unit.
    """

    parts: pl.DataFrame
    links: pl.DataFrame
    table: pl.DataFrame

    @cached_property
    def whole(self) -> pl.DataFrame:
        """The number, part and unit without tags of each part, ordered by these units, so that each is a range."""
        everything = self.table.filter(pl.col("tag").is_null())
        ordered = self.links.join(everything, on="unit", how="semi").sort("unit", "part")
        return ordered.with_row_index("number")

    def number(self) -> pl.Expr:
        """The number of a row's part in `whole`, as its `part`."""
        numbers = dict(self.whole.select("part", "number").iter_rows())
        dtype = pl.UInt16 if len(numbers) <= _FEW_PARTS else pl.UInt32
        return pl.col("part").replace_strict(numbers, return_dtype=dtype)

    @property
    def repeated(self) -> bool:
        """Whether some case was answered or judged more than once."""
        return bool(self.parts["repeated"].any())

    @property
    def clustered(self) -> bool:
        """Whether some case has a group."""
        return bool(self.parts["grouped"].any())

    @property
    def keys(self) -> dict[int, dict[str, str | None]]:
        """The key of each unit: dataset, target, metric, judge, tag."""
        return self.table.rows_by_key("unit", named=True, unique=True)

    def rows(self, table: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        """Each unit, in order, with its rows of a table that has a `part`; that column is dropped."""
        parts = table.partition_by("part", as_dict=True, include_key=False)
        nothing = table.clear().drop("part")
        for unit, own in self.links.group_by("unit").agg(pl.col("part").sort()).sort("unit").iter_rows():
            frames = [parts[part,] for part in own if (part,) in parts]
            yield unit, pl.concat(frames) if frames else nothing

    def arrays(self, table: pl.DataFrame) -> UnitArrays:
        """Each unit with its rows of a table whose `part` is a `number`; numeric columns as arrays, null as NaN."""
        own_part = table["part"].to_numpy()
        order = np.argsort(own_part, kind="stable")  # a radix sort for 16 bits
        columns = {
            name: table[name].cast(pl.Float64).fill_null(math.nan).to_numpy()[order]
            for name in table.columns
            if name != "part"
        }
        ends = [0, *np.cumsum(np.bincount(own_part, minlength=self.whole.height)).tolist()]
        links = self.links.join(self.whole.select("part", "number"), on="part").sort("unit", "number")
        parts = links.group_by("unit", maintain_order=True).agg("number").iter_rows()
        return UnitArrays(columns, ends, dict(parts))


@dataclass(frozen=True, slots=True)
class UnitArrays:
    """Columns ordered by part; parts end at `ends`. Iterates over the units in order, each with its own rows."""

    columns: Mapping[str, Floats]
    ends: Sequence[int]
    parts: Mapping[int, Sequence[int]]

    def __iter__(self) -> Iterator[tuple[int, dict[str, Floats]]]:
        for unit, own in self.parts.items():
            if own[-1] - own[0] == len(own) - 1:
                whole = slice(self.ends[own[0]], self.ends[own[-1] + 1])
                yield unit, {name: column[whole] for name, column in self.columns.items()}
                continue
            spans = [slice(self.ends[part], self.ends[part + 1]) for part in own]
            columns = self.columns.items()
            yield unit, {name: np.concatenate([column[part] for part in spans]) for name, column in columns}


def own_cells(scores: pl.LazyFrame) -> pl.LazyFrame:
    """The rows to summarise, with their `part`. Members of a panel are left out, since the panel has its own rows."""
    part = pl.lit(0, pl.UInt64)
    for seed, name in enumerate((*SLICE, "tags")):
        part = part ^ pl.col(name).hash(seed)
    return scores.filter(pl.col("member_of").is_null()).with_columns(part=part)


def find_units(cells: pl.LazyFrame) -> Units:
    """Find all units, and the sums over their parts."""
    status = pl.col("status")
    # An undefined or skipped score may not have called the judge; a cached reply costs nothing now.
    asked = pl.col("judge").is_not_null() & ~pl.col("cached")
    asked &= status.is_in(["scored", "error"]) | pl.col("latency_s").is_not_null()
    named = (
        cells.with_columns(asked=asked)
        .group_by("part", "status", "asked")
        .agg(
            pl.col(*SLICE, "tags").first(),
            pl.len().cast(pl.Int64).alias("n"),
            pl.col(_SPENT).sum(),
            pl.col(_SPENT).null_count().name.suffix("_nulls"),
            n_cut_off=(pl.col("finish_reason") == CUT_OFF).sum().cast(pl.Int64),
            repeated=((pl.col("repeat") > 0) | (pl.col("target_repeat") > 0)).any(),
            grouped=pl.col("group").is_not_null().any(),
        )
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
    """Per unit: number of cells by state and with cut-off answers, cost, tokens.

    A sum with an unknown term is unknown.
    """
    n, asked = pl.col("n"), pl.col("asked")
    by_state = [n.filter(pl.col("status") == state).sum().alias(f"n_{state}") for state in STATES]
    spent = [
        pl.when((asked & (pl.col(f"{name}_nulls") > 0)).any()).then(None).otherwise(pl.col(name).sum()).alias(name)
        for name in _SPENT
    ]
    return (
        units.links.join(units.parts, on="part")
        .group_by("unit")
        .agg(n.sum(), *by_state, pl.col("n_cut_off").sum(), *spent)
    )


def cluster() -> pl.Expr:
    """The group of a row as a number, a 64-bit hash of its name; null without one."""
    return pl.when(pl.col("group").is_not_null()).then(pl.col("group").hash()).alias("cluster")


def cluster_name(group: pl.Expr, case: pl.Expr) -> pl.Expr:
    """The cluster's name: that of the group, or of the case without one."""
    return pl.when(group.is_null()).then("case:" + case).otherwise("group:" + group)


def cluster_numbers(cases: pl.DataFrame) -> list[pl.Series]:
    """The cluster of each case as a number, unique for a case without a group; empty if no case has a group."""
    if "cluster" not in cases.columns or cases["cluster"].null_count() == cases.height:
        return []
    alone = pl.int_range(pl.len(), dtype=pl.Int64) - pl.len()
    number = pl.col("cluster").rank("dense").cast(pl.Int64).fill_null(alone).alias("cluster")
    return [cases.select(number)["cluster"]]


def case_clusters(cases: pl.DataFrame) -> Ints | None:
    """The `cluster_numbers` of cases; None if each case is its own cluster."""
    numbers = cluster_numbers(cases)
    return numbers[0].to_numpy() if numbers else None


def clusters_in(cases: Mapping[str, Floats]) -> Ints | None:
    """The column `cluster` of `Units.arrays`; None if each case is its own cluster."""
    return cases["cluster"].astype(np.int64) if "cluster" in cases else None


def mean_of(frame: pl.DataFrame, value: pl.Expr, *, bounded: bool) -> Estimated:
    """The mean of a column of cases, with true as 1; cases of the same `cluster` count as one draw."""
    values = frame.select(value.cast(pl.Float64).alias("value"))["value"].to_numpy()
    return mean_estimate(values, case_clusters(frame), bounded=bounded)


def values_of(cells: pl.LazyFrame, units: Units, *, repeats: bool) -> pl.DataFrame:
    """Each cell's part (a `number`), score, passed, latency in seconds, and share.

    `share` is whether it has a score, null for a skipped one. Also its cluster if cases have groups; and for
    `repeats_of` always its cluster, case_id, case (a number by part and id) and target_repeat.
    """
    status = pl.col("status")
    share = pl.when(status != "skipped").then(status == "scored").alias("share")
    # A cached reply has no meaningful latency.
    latency = pl.when(~pl.col("cached")).then("latency_s").alias("latency")
    more = [cluster()] if units.clustered or repeats else []
    if repeats:
        more += [
            pl.col("case_id", "target_repeat"),
            (pl.col("part") ^ pl.col("case_id").hash(_CASE_SEED)).alias("case"),
        ]
    return cells.select(units.number(), *NAMES, share, latency, *more).collect(engine="streaming")


def repeats_of(values: pl.DataFrame) -> pl.DataFrame:
    """One row per part and case, with its repeats in moments, from `values_of`; `place` is the row of its first cell.

    score and passed are means over scored cells; share is that of its cells that have a score, without skipped ones;
    mean, answers, answer_variance, per_judgement and judge_variance are as in `Repeated`; judgements, verdicts and
    passes are over all answers; judged are answers with a verdict, passing those by majority.
    """
    n, score, passes, verdicts = (pl.col(name) for name in ("n", "score", "passes", "verdicts"))
    place, several = pl.col("place").min(), bool((values["target_repeat"] > 0).any())
    # Sums instead of means keep scores of 0 and 1 exact. A single number as key is far faster than several.
    answers = (
        values.lazy()
        .with_row_index("place")
        .group_by(answer=pl.col("case") ^ pl.col("target_repeat").hash())
        .agg(
            place,
            *([pl.col("case").first()] if several else ()),
            score.sum(),
            variance=score.var(),
            n=score.count(),
            wanted=pl.col("share").count(),
            verdicts=pl.col("passed").count(),
            passes=pl.col("passed").sum(),
        )
        .with_columns(
            mean=pl.when(n > 0).then(score / n),
            answers=(n > 0).cast(pl.UInt32),
            judgements=n,
            answer_variance=pl.lit(None, pl.Float64),
            per_judgement=pl.when(n > 0).then(1 / n),
            judge_variance=pl.col("variance"),
            judged=(verdicts > 0).cast(pl.UInt32),
            passing=(passes > _HALF * verdicts).cast(pl.UInt32),
        )
    )
    if several:
        mean, sums = (
            pl.col("mean"),
            ("score", "wanted", "verdicts", "passes", "answers", "judgements", "judged", "passing"),
        )
        answers = answers.group_by("case").agg(
            place,
            pl.col(sums).sum(),
            mean.mean(),
            mean.var().alias("answer_variance"),
            pl.col("per_judgement", "judge_variance").mean(),
        )
    cases = (
        answers.with_columns(
            score=pl.when(pl.col("judgements") > 0).then(score / pl.col("judgements")),
            passed=pl.when(verdicts > 0).then(passes / verdicts),
            share=pl.when(pl.col("wanted") > 0).then(pl.col("judgements") / pl.col("wanted")),
        )
        .select("place", *NAMES, "share", *REPEATED, *COUNTED)
        .collect(engine="streaming")
    )
    return cases.with_columns(values[name].gather(cases["place"]) for name in ("part", "cluster", "case_id"))


def case_arrays(values: pl.DataFrame, units: Units) -> UnitArrays:
    """The cases as arrays: `repeats_of` if anything is repeated, else `values_of`; with `cluster_numbers`."""
    cases = repeats_of(values) if units.repeated else values
    return units.arrays(cases.drop("cluster", "latency", "case_id", strict=False).with_columns(cluster_numbers(cases)))


def measures(
    cases: UnitArrays, calls: UnitArrays, units: Units, bounded: Collection[str]
) -> tuple[pl.DataFrame, Moments, Moments]:
    """One row per unit, and the moments of its cases' scores and passes, in the same order.

    `cases` are from `repeats_of`, or `values_of` if nothing is repeated, `calls` from the latter. Columns: median;
    floor and ceiling, the mean score with missing scores as 0 and as 1, which has a meaning for `bounded` metrics; and
    latencies in seconds.
    """
    has_ends = dict(units.table.select("unit", pl.col("metric").is_in(list(bounded))).iter_rows())
    rows: list[dict[str, float | None]] = []
    scores: list[Moments] = []
    passes: list[Moments] = []
    for (unit, own), (_, called) in zip(cases, calls, strict=True):
        scores.append(_moments(own, "score", bounded=has_ends[unit]))
        passes.append(_moments(own, "passed", bounded=True))
        score, share = own["score"], own["share"][~np.isnan(own["share"])]
        known = float(np.nansum(score * own["share"]))
        rows.append(
            {
                "unit": unit,
                **_quantiles(score, lowest=0.0, median=0.5),
                "floor": known / share.size if share.size else None,
                "ceiling": (known + float((1 - share).sum())) / share.size if share.size else None,
                **_quantiles(called["latency"], latency_p50=0.5, latency_p95=0.95),
            }
        )
    frame = pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.Float64) | {"unit": pl.UInt32})
    return frame, stacked(scores), stacked(passes)


def _moments(cases: Mapping[str, Floats], name: str, *, bounded: bool) -> Moments:
    """The moments of a column of cases, without NaN."""
    known, groups = ~np.isnan(cases[name]), clusters_in(cases)
    return moments(cases[name][known], None if groups is None else groups[known], bounded=bounded)


def _quantiles(values: Floats, **shares: float) -> dict[str, float | None]:
    """The named quantiles of the values that are not NaN, interpolated as in Polars, or None."""
    known = values[~np.isnan(values)]
    if not known.size:
        return dict.fromkeys(shares)
    places = {name: (known.size - 1) * share for name, share in shares.items()}
    ends = sorted({end for place in places.values() for end in (math.floor(place), math.ceil(place))})
    known.partition(ends)  # several times faster than sorting all

    def at(place: float) -> float:
        low, high = known[math.floor(place)], known[math.ceil(place)]
        return float(low if low == high else (high - low) * (place - math.floor(place)) + low)

    return {name: at(place) for name, place in places.items()}
