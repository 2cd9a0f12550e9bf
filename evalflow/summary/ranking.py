"""Ranks several runs on the cases that all of them scored, with joint confidence intervals of the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalflow.lazy import np, pl
from evalflow.records import CASES
from evalflow.stats.arrays import Array, Floats, Ints, cluster_sums
from evalflow.stats.bradley_terry import strengths
from evalflow.stats.intervals import interval, mean_error, t_interval
from evalflow.stats.ranks import Ranks, mean_covariance, rank_intervals, unsure_pairs
from evalflow.summary.changed import Attribution
from evalflow.summary.pairing import Traits, by_case
from evalflow.summary.slices import cluster_name
from evalflow.summary.verdicts import Leaders, Standing, of_ranks

if TYPE_CHECKING:
    from evalflow.stats.corrected_differences import CorrectedMeans

Scale = Literal["mean", "pass_rate", "pairs", "verdicts"]
"""What runs are ranked by.

Strengths (Bradley-Terry) come from comparing two runs in each case, or from a pairwise metric.
"""
_KEY = ("dataset", "metric")
_RAW = ("raw_value", "raw_low", "raw_high")
NOT_COMMON = "no label is of a case that all runs scored"
"""Why labels do not correct a ranking."""
NO_FRAMES: Mapping[str, pl.DataFrame] = {}


@dataclass(frozen=True, slots=True)
class CommonCases:
    """The cases of one dataset and metric that all runs scored, with mean scores and passes of shape (cases, runs).

    `passed` is None if a run has none for some case. `human` and `accepted` are people's mean and the share of their
    labels that pass, in the same shape, NaN without a label; None if no run has labels here, and `labelled_elsewhere`
    says whether some has labels of other cases. `left_out` counts each run's scored cases that some other run did not
    score; `all_left_out` counts the cases that only some runs scored.
    """

    dataset: str
    metric: str
    judge: str | None
    names: Sequence[str]
    cases: pl.DataFrame
    scores: Floats
    passed: Floats | None
    human: Floats | None
    accepted: Floats | None
    left_out: Mapping[str, int]
    all_left_out: int
    labelled_elsewhere: bool = False

    @property
    def clusters(self) -> Array:
        return self.cases["cluster"].to_numpy()

    @property
    def overlap(self) -> float:
        """Common cases as a share of the cases of the run that scored the fewest."""
        fewest = self.cases.height + min(self.left_out.values())
        return self.cases.height / fewest if fewest else 0.0


def common_cases(
    runs: Mapping[str, pl.LazyFrame], people: Mapping[str, pl.DataFrame] = NO_FRAMES
) -> Iterator[CommonCases]:
    """The common cases of each dataset and metric that several of the runs have scored; `runs` are scores by name.

    `people` are from `people_of`, by the same names.
    """
    if not runs:
        return
    columns = (*_KEY, "case_id", "group", "tags", "judge", "score", "passed", "place")
    frames = [by_case(scores).select(*columns, run=pl.lit(place)) for place, scores in enumerate(runs.values())]
    table = pl.concat(frames).drop_nulls("score").collect(engine="streaming")
    given = [
        people[name].with_columns(run=pl.lit(place, table.schema["run"]))
        for place, name in enumerate(runs)
        if name in people
    ]
    if given:
        known = pl.concat(given)
        table = table.join(known, on=(*_KEY, "case_id", "run"), how="left", maintain_order="left")
    else:
        table = table.with_columns(human=pl.lit(None, pl.Float64), accepted=pl.lit(None, pl.Float64))
    for (dataset, metric), part in table.sort("run", "place").group_by(*_KEY, maintain_order=True):
        places: list[int] = part["run"].unique(maintain_order=True).to_list()
        if len(places) < 2:
            continue
        names = [list(runs)[place] for place in places]
        shared = part.filter(pl.len().over("case_id") == len(places))
        own = dict(part.group_by("run").agg(pl.len()).iter_rows())
        first = shared.filter(pl.col("run") == places[0])
        order = first.select("case_id").with_row_index("at")
        shared = shared.join(order, on="case_id").sort("at", "run")
        shape = (first.height, len(places))
        passed = shared["passed"]
        label_arrays = [shared[name].fill_null(np.nan).to_numpy().reshape(shape) for name in ("human", "accepted")]
        human, accepted = label_arrays if shared["human"].count() else (None, None)
        judges = [name for name in part["judge"].unique(maintain_order=True) if name]
        yield CommonCases(
            str(dataset),
            str(metric),
            ", ".join(judges) or None,
            names,
            first.select("case_id", cluster_name(pl.col("group"), pl.col("case_id")).alias("cluster"), "tags"),
            shared["score"].to_numpy().reshape(shape),
            None if passed.null_count() else passed.to_numpy().reshape(shape),
            human,
            accepted,
            {name: own[place] - first.height for name, place in zip(names, places, strict=True)},
            part["case_id"].n_unique() - first.height,
            part["human"].count() > shared["human"].count() == 0,
        )


@dataclass(frozen=True, slots=True)
class BoardPlace:
    """A run's place on a leaderboard: its value, with the judge's beside it if labels correct all, and its verdict."""

    run: str
    target: str
    value: float
    ci_low: float | None
    ci_high: float | None
    raw_value: float | None
    raw_low: float | None
    raw_high: float | None
    n: int
    n_scored: int
    p_adjusted: float | None = None
    verdict: Standing = "not_comparable"
    rank_low: int | None = None
    rank_high: int | None = None


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The runs of a sweep ranked by one statistic, leader first; `also` are statistics with the same values.

    `cases` are those that all ranked runs have scored. Labels of `n_labels` cases of each run correct the values,
    unless `uncorrected` says why not.
    """

    dataset: str
    metric: str
    judge: str | None
    statistic: str
    also: Sequence[str]
    cases: int
    cases_left_out: int
    n_labels: int
    uncorrected: str
    leaderboard: Sequence[BoardPlace]

    @property
    def has_pass_rate(self) -> bool:
        """Whether its values are pass rates, perhaps because these equal the means."""
        return "pass_rate" in (self.statistic, *self.also)


@dataclass(frozen=True, slots=True)
class RankedRun:
    """A run with its value, its rank, and an interval of each.

    `raw` is the judge's own value with interval; None if labels do not correct it.
    """

    run: str
    value: float
    low: float | None
    high: float | None
    rank: int
    rank_low: int
    rank_high: int
    left_out: int
    raw: tuple[float, float | None, float | None] | None = None


@dataclass(frozen=True, slots=True)
class PositionEffect:
    """How much more often the judge prefers the first answer, over all `pairs` asked in both orders.

    Attributes:
        decided: The number of pairs whose verdict depends on the order.
        net: The share that the first answer wins minus that of the second, with its 95 % interval; None without one.
    """

    pairs: int
    decided: int
    net: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparisons behind the strengths; `position` is None unless a judge compared answers."""

    n: int
    ties: int
    position: PositionEffect | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """Runs in the order of their values, the best first; `method` is that of the ranks' intervals.

    Labels of `labelled` cases of each run correct values and ranks; if none do, `uncorrected` says why. `comparisons`
    is None if values are ranked. `attribution` is what can explain that the values differ.
    """

    dataset: str
    metric: str
    judge: str | None
    by: Scale
    higher_is_better: bool
    cases: int
    clusters: int
    method: str
    rows: Sequence[RankedRun]
    comparisons: Comparisons | None = None
    labelled: int = 0
    uncorrected: str = ""
    attribution: Attribution = "answers"

    @property
    def leaders(self) -> Leaders:
        """The runs that may be the best, and those among the first."""
        return of_ranks({row.run: (row.rank_low, row.rank_high) for row in self.rows})

    def document(self) -> dict[str, object]:
        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "judge": self.judge,
            "by": self.by,
            "higher_is_better": self.higher_is_better,
            "n": self.cases,
            "clusters": self.clusters,
            "confidence": 0.95,
            "method": self.method,
            "n_labels": self.labelled,
            "uncorrected": self.uncorrected,
            "attribution": self.attribution,
            "rows": [
                {
                    "run": row.run,
                    "value": row.value,
                    "ci_low": row.low,
                    "ci_high": row.high,
                    "rank": row.rank,
                    "rank_low": row.rank_low,
                    "rank_high": row.rank_high,
                    "n_left_out": row.left_out,
                    **dict(zip(_RAW, row.raw or (None, None, None), strict=True)),
                }
                for row in self.rows
            ],
        }


def rank_by_mean(common: CommonCases, traits: Traits, *, seed: int = 0, unusable: str = "") -> list[Ranking]:
    """The ranking by mean and, if it differs from that, by pass rate, corrected by labels; `unusable` says why not."""
    if common.metric == CASES:
        return [_by_mean(common, _Column("pass_rate", common.scores, None, True, True), seed, unusable)]
    scores = _Column("mean", common.scores, common.human, traits.higher_is_better, traits.bounded)
    rankings = [_by_mean(common, scores, seed, unusable)]
    same = traits.higher_is_better and common.passed is not None and bool((common.passed == common.scores).all())
    if common.human is not None and common.accepted is not None:
        same &= bool(np.array_equal(common.human, common.accepted, equal_nan=True))
    if common.passed is not None and not same:
        passed = _Column("pass_rate", common.passed, common.accepted, True, True)
        rankings.append(_by_mean(common, passed, seed, unusable))
    return rankings


@dataclass(frozen=True, slots=True)
class _Column:
    """The values to rank by: the judge's and people's, in the shape (cases, runs)."""

    by: Scale
    table: Floats
    people: Floats | None
    higher: bool
    bounded: bool


def _by_mean(common: CommonCases, of: _Column, seed: int, unusable: str) -> Ranking:
    clusters = common.cases["cluster"].n_unique()
    grouped = None if clusters == len(of.table) else common.clusters
    sign = 1 if of.higher else -1
    about = (common.dataset, common.metric, common.judge, of.by, of.higher, len(of.table), clusters)
    ends = [interval(column, grouped, bounded=of.bounded) for column in of.table.T]
    bounds = [(one.low, one.high) for one in ends]
    alone = of.table.mean(axis=0)
    corrected = _corrected(common, of, grouped, seed, unusable)
    if corrected is not None and not isinstance(corrected, str):
        parts = None if corrected.parts is None else sign * corrected.parts
        known = sign * corrected.values, corrected.covariance, corrected.df, parts
        ranks = rank_intervals(*known, seed=seed, unsure=corrected.unsure)
        raw = [(value, *end) for value, end in zip(alone.tolist(), bounds, strict=True)]
        rows = _rows(common, common.names, corrected.values, corrected.ends, ranks, raw)
        return Ranking(*about, f"max_t: {corrected.method}", rows, labelled=corrected.labelled)
    means, covariance, df, parts = mean_covariance(sign * of.table, grouped)
    unsure = None
    if not of.bounded:
        unsure = unsure_pairs(np.column_stack([cluster_sums(one - one.mean(), grouped) for one in of.table.T]))
    ranks = rank_intervals(means, covariance, df, parts, seed=seed, unsure=unsure)
    method = "cr2_max_t_sign_flip" if grouped is not None else "max_t"
    rows = _rows(common, common.names, alone, bounds, ranks)
    most = 0 if of.people is None else int(_labelled(of.people).max())
    method = method if clusters > 1 else "none: one cluster"
    return Ranking(*about, method, rows, labelled=most, uncorrected=corrected or "")


def _labelled(people: Floats) -> Ints:
    counts: Ints = (~np.isnan(people)).sum(axis=0)
    return counts


def _corrected(
    common: CommonCases, of: _Column, clusters: Array | None, seed: int, unusable: str
) -> CorrectedMeans | str | None:
    """The values corrected by people's labels, or why there are none.

    All runs need labels: otherwise ranks would mix people and judge.
    """
    if of.people is None or not (labelled := _labelled(of.people)).any():
        return NOT_COMMON if common.labelled_elsewhere else None
    if unusable:
        return unusable
    without = [name for name, n in zip(common.names, labelled.tolist(), strict=True) if not n]
    if without:
        return f"no label is of {', '.join(without)}"
    from evalflow.stats.corrected_differences import corrected_means

    return corrected_means(of.table, of.people, clusters, seed, bounded=of.bounded)


def _rows(
    common: CommonCases,
    names: Sequence[str],
    values: Floats,
    bounds: Sequence[tuple[float | None, float | None]],
    ranks: Ranks,
    raw: Sequence[tuple[float, float | None, float | None]] | None = None,
) -> list[RankedRun]:
    columns = (values.tolist(), bounds, ranks.rank.tolist(), ranks.low.tolist(), ranks.high.tolist())
    rows = [
        RankedRun(name, value, low, high, rank, first, last, common.left_out.get(name, 0), alone)
        for name, value, (low, high), rank, first, last, alone in zip(
            names, *columns, raw or [None] * len(names), strict=True
        )
    ]
    return sorted(rows, key=lambda row: row.rank)


def rank_by_pairs(common: CommonCases, traits: Traits, *, seed: int = 0) -> Ranking:
    """The ranking by strengths from comparing every two runs in each case; errors as in `rank_by_verdicts`."""
    n, runs = common.scores.shape
    a, b = np.triu_indices(runs, 1)
    scores = common.scores if traits.higher_is_better else -common.scores
    points = (np.sign(np.round(scores[:, a] - scores[:, b], 12)) + 1) / 2
    first, second = np.tile(a, n), np.tile(b, n)
    place: Ints = np.repeat(np.arange(n, dtype=np.int64), a.size)
    return _by_strength(common, "pairs", (first, second, points.ravel(), place), common.names, None, seed)


def rank_by_verdicts(
    common: CommonCases, runs: Mapping[str, pl.LazyFrame], opponents: Mapping[str, str], *, seed: int = 0
) -> Ranking:
    """The ranking by strengths from the verdicts of a pairwise metric, in both orders, on the common cases.

    `opponents` names what each run's answers were compared with: another run, or a field such as `reference`.
    NoStrengthsError if the comparisons determine no strengths.
    """
    names = list(dict.fromkeys([*common.names, *(opponents[name] for name in common.names)]))
    frames = [
        runs[name]
        .filter(
            pl.col("member_of").is_null() & pl.col("status").is_in(["scored", "undefined"]),
            dataset=common.dataset,
            metric=common.metric,
        )
        .select(
            "case_id",
            "score",
            cluster=cluster_name(pl.col("group"), pl.col("case_id")),
            lean=pl.col("value").str.json_path_match("$.lean").cast(pl.Float64, strict=False),
            run=pl.lit(names.index(name)),
            other=pl.lit(names.index(opponents[name])),
        )
        for name in common.names
    ]
    asked = pl.concat(frames).filter(pl.col("run") != pl.col("other")).collect(engine="streaming")
    place = common.cases.select("case_id").with_row_index("at")
    table = asked.drop_nulls("score").join(place, on="case_id")
    points = np.sign(table["score"].to_numpy() - 0.5) / 2 + 0.5
    arrays = (table["run"].to_numpy(), table["other"].to_numpy(), points, table["at"].to_numpy())
    return _by_strength(common, "verdicts", arrays, names, _position(asked), seed)


def _position(asked: pl.DataFrame) -> PositionEffect:
    both = asked.drop_nulls("lean")
    if not both.height:
        return PositionEffect(0, 0, None)
    leans = both["lean"].to_numpy()
    value, (error, df) = float(leans.mean()), mean_error(leans, both["cluster"].to_numpy())
    net = None
    if leans.any() and error == error:
        low, high = t_interval(value, error, df)
        net = value, float(low), float(high)
    return PositionEffect(leans.size, int(np.count_nonzero(leans)), net)


def _by_strength(
    common: CommonCases,
    by: Scale,
    comparisons: tuple[Array, ...],
    names: Sequence[str],
    position: PositionEffect | None,
    seed: int,
) -> Ranking:
    first, second, points, place = comparisons
    codes = np.unique(common.clusters, return_inverse=True)[1]
    fit = strengths(first, second, points, names, codes[place])
    ranks = rank_intervals(fit.values, fit.covariance, fit.df, seed=seed)
    low, high = t_interval(fit.values, np.sqrt(np.diag(fit.covariance)), np.full(len(names), fit.df))
    rows = _rows(common, names, fit.values, list(zip(low.tolist(), high.tolist(), strict=True)), ranks)
    name = "bradley_terry" if fit.tie is None else "davidson"
    ties = int(np.count_nonzero(np.asarray(points) == 0.5))
    about = (common.dataset, common.metric, common.judge, by, True, common.cases.height, fit.clusters)
    return Ranking(*about, f"{name}_max_t", rows, Comparisons(points.size, ties, position))
