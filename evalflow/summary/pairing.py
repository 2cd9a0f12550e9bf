"""The cases of two runs side by side: scores, passes and people's labels, repeats averaged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalflow.datasets import tag_levels
from evalflow.lazy import np, pl
from evalflow.records import FigureSpec
from evalflow.stats.arrays import Bools
from evalflow.summary.passing_cases import passing_cases, passing_metrics
from evalflow.summary.slices import cluster_name

KEY = ("dataset", "metric", "case_id")
SIDE = ("judge", "score", "passed", "human", "accepted")
Sides = tuple["pl.DataFrame", "pl.DataFrame"]
"""The cases of each run: dataset, metric, case_id, cluster, tags, judge, score, passed, human, accepted."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """The common cases of two runs."""

    # One row per dataset, metric and case that both have scored: cluster, tags, judge_a, judge_b, score_a, score_b,
    # passed_a, passed_b (means over the repeats; passed null if a run has no pass or fail), human_a, human_b,
    # accepted_a, accepted_b, human_undefined_a, human_undefined_b (of `with_people`).
    cases: pl.DataFrame
    # Per dataset and metric: common, only_a, only_b, unscored (cases of both that one did not score).
    counts: pl.DataFrame
    sides: tuple[pl.LazyFrame, pl.LazyFrame]  # the two runs' scores, as given
    # Also the cases of both that one did not score: key, place (A's), score_*, passed_*, and those of `with_people`.
    shared: pl.DataFrame
    whole: Pairing | None = None  # the pairing of cases that pass everything (`whole_cases`)


def with_people(cases: pl.DataFrame, people: pl.DataFrame | None, side: str = "") -> pl.DataFrame:
    """The cases with `human`, `accepted` and `human_undefined` of `people_of`; null without a label.

    Names end in `side`.
    """
    types = {"human": pl.Float64(), "accepted": pl.Float64(), "human_undefined": pl.Boolean()}
    if people is None:
        return cases.with_columns(pl.lit(None, own).alias(f"{name}{side}") for name, own in types.items())
    known = people.select(*KEY, *(pl.col(name).alias(f"{name}{side}") for name in types))
    return cases.join(known, on=KEY, how="left", maintain_order="left")


People = tuple["pl.DataFrame | None", "pl.DataFrame | None"]
NOBODY: People = (None, None)


def pair_scores(
    a: pl.LazyFrame, b: pl.LazyFrame, metrics: Mapping[str, Traits] | None = None, people: People = NOBODY
) -> Pairing:
    """Join two runs case by case, with repeats averaged. A case without a score in one run is left out and counted.

    `people` are those of each run's answers, from `people_of`. With `metrics` also pair the cases as wholes.
    """
    joined = by_case(a).join(by_case(b), on=KEY, how="full", coalesce=True, suffix="_b")
    sides = joined.rename({name: f"{name}_a" for name in ("judge", "score", "passed", "place", "seen")})
    table = sides.sort("dataset", "place_a", "place_b", "metric", nulls_last=True).collect(engine="streaming")
    both = pl.col("seen_a").is_not_null() & pl.col("seen_b").is_not_null()
    scored = pl.col("score_a").is_not_null() & pl.col("score_b").is_not_null()
    counts = table.group_by("dataset", "metric", maintain_order=True).agg(
        common=(both & scored).sum(),
        only_a=pl.col("seen_b").is_null().sum(),
        only_b=pl.col("seen_a").is_null().sum(),
        unscored=(both & ~scored).sum(),
    )
    cluster = cluster_name(pl.coalesce("group", "group_b"), pl.col("case_id"))
    cases = table.filter(both & scored).select(
        *KEY,
        cluster.alias("cluster"),
        pl.coalesce("tags", "tags_b").alias("tags"),
        "judge_a",
        "judge_b",
        "score_a",
        "score_b",
        "passed_a",
        "passed_b",
    )
    own = ("score_a", "score_b", "passed_a", "passed_b")
    shared = table.filter(both).select(*KEY, *own, place="place_a")
    for side, given in zip("ab", people, strict=True):
        cases, shared = (with_people(one, given, f"_{side}") for one in (cases, shared))
    whole = None if metrics is None else whole_cases((a, b), metrics)
    paired = None if whole is None else pair_scores(whole.scores[0], whole.scores[1])
    return Pairing(cases, counts, (a, b), shared, paired)


@dataclass(frozen=True, slots=True)
class WholeCases:
    """The cases of several runs as wholes: scores of `passing_cases`, in the order of the runs, and their metrics."""

    scores: Sequence[pl.LazyFrame]
    metrics: Collection[str]


def whole_cases(runs: Sequence[pl.LazyFrame], metrics: Mapping[str, Traits]) -> WholeCases | None:
    """The whole cases of runs; None if their metrics with pass and fail differ, or there is only one, not of checks."""
    counted = [passing_metrics(scores) for scores in runs]
    first = counted[0].keys()
    several = len(first) > 1 or any(metrics.get(name, Traits()).of_cases for name in first)
    if not several or any(own.keys() != first for own in counted):
        return None
    return WholeCases([passing_cases(one, own).lazy() for one, own in zip(runs, counted, strict=True)], first)


def lower_is_better(metrics: Mapping[str, Traits]) -> list[str]:
    """The names of metrics whose lower scores are better."""
    return [name for name, traits in metrics.items() if not traits.higher_is_better]


def tagged(cases: pl.DataFrame) -> dict[str, Bools]:
    """Every tag of the cases, ancestors included, in alphabetical order, and which of the cases have it."""
    masks: dict[str, Bools] = {}
    rows = cases.select("tags").with_row_index("row").explode("tags").drop_nulls()
    for (tag,), own in rows.group_by("tags"):
        for level in tag_levels(str(tag)):
            masks.setdefault(level, np.zeros(cases.height, dtype=np.bool_))[own["row"].to_numpy()] = True
    return dict(sorted(masks.items()))


def slices(sides: Sides, *, by_tag: bool) -> Iterator[tuple[str | None, Sequence[str], Sides]]:
    """All cases (tag None), and the cases of each tag that every side has.

    Tags with exactly the same cases are one slice: a second row would count as another test and weaken the adjusted
    p-values.
    """
    if not by_tag:
        yield None, [], sides
        return
    distinct: dict[object, tuple[str | None, list[str], Sides]] = {_ids(sides): (None, [], sides)}
    tags_a, tags_b = (tagged(side) for side in sides)
    for tag in (name for name in tags_a if name in tags_b):
        own = sides[0].filter(tags_a[tag]), sides[1].filter(tags_b[tag])
        if _ids(own) in distinct:
            distinct[_ids(own)][1].append(tag)
        else:
            distinct[_ids(own)] = (tag, [], own)
    yield from distinct.values()


def _ids(sides: Sides) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(side["case_id"]) for side in sides)


def by_case(scores: pl.LazyFrame) -> pl.LazyFrame:
    """One row per case and metric, with means over repeats; score and passed are null if nothing was scored.

    Columns: dataset, metric, case_id, group, tags, judge, score, passed, place (in the run's order), seen (cells).
    """
    rows = scores.filter(pl.col("member_of").is_null()).with_row_index("place")
    means = pl.col("score", "passed").cast(pl.Float64).mean()
    cases = rows.group_by(KEY).agg(means, pl.col("place").min(), seen=pl.len())
    # Taking the first of many texts or lists takes several times as long as all the rest.
    return cases.join(rows.select("place", "group", "judge", "tags"), on="place", how="left")


@dataclass(frozen=True, slots=True)
class Traits:
    """A metric's direction, whether its scores lie in 0..1, its figures, and the declared order of its tests."""

    higher_is_better: bool = True
    bounded: bool = False
    figures: FigureSpec | None = None
    test_order: Sequence[str] = ()
    of_cases: bool = False  # whether it is a check that cases declare
