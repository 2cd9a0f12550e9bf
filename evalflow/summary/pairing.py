"""Two runs' scores side by side: one row per case and metric that both have scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.datasets import tag_levels

if TYPE_CHECKING:
    import polars as pl

_KEY = ("dataset", "metric", "case_id")


@dataclass(frozen=True, slots=True)
class Pairing:
    """What two runs have in common.

    Attributes:
        cases: One row per dataset, metric and case that both have scored: cluster, tags, judge_a, judge_b, score_a,
            score_b, passed_a, passed_b (means over the repeats; passed null where a run gives no pass or fail).
        counts: Per dataset and metric: common, only_a, only_b (cases of one run alone), unscored (cases of both that
            one of them has not scored).
        sides: The two runs' scores, as given.
    """

    cases: pl.DataFrame
    counts: pl.DataFrame
    sides: tuple[pl.LazyFrame, pl.LazyFrame]


def pair_scores(a: pl.LazyFrame, b: pl.LazyFrame) -> Pairing:
    """Join two runs case by case.

    Repeats are averaged first. Cells that are not scored leave their case out, and are counted.

    Args:
        a: The columns of scores.parquet.
        b: Those of the other run.
    """
    import polars as pl

    joined = by_case(a).join(by_case(b), on=_KEY, how="full", coalesce=True, suffix="_b")
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
    group = pl.coalesce("group", "group_b")
    cluster = pl.when(group.is_null()).then("case:" + pl.col("case_id")).otherwise("group:" + group)
    cases = table.filter(both & scored).select(
        *_KEY, cluster.alias("cluster"), pl.coalesce("tags", "tags_b").alias("tags"), "judge_a", "judge_b",
        "score_a", "score_b", "passed_a", "passed_b",
    )  # fmt: skip
    return Pairing(cases, counts, (a, b))


def tags_of(cases: pl.DataFrame) -> dict[str, list[str]]:
    """Every tag of the cases, ancestors included, in alphabetical order, with the cases' own tags that lie in it."""
    own: Sequence[str] = cases["tags"].explode().drop_nulls().unique().to_list() if cases.height else []
    found: dict[str, list[str]] = {}
    for tag in own:
        for level in tag_levels(tag):
            found.setdefault(level, []).append(tag)
    return dict(sorted(found.items()))


def slices(
    sides: tuple[pl.DataFrame, ...], *, by_tag: bool
) -> Iterator[tuple[str | None, Sequence[str], tuple[pl.DataFrame, ...]]]:
    """All cases, and those of each tag that every side has.

    Tags of the same cases are one slice: a second row of it would be a test that was not made, and would make all
    others harder to pass.

    Args:
        sides: The cases of one run, or of each; columns case_id and tags.
        by_tag: Whether there are slices of tags.

    Yields:
        The tag, None for all; other tags of exactly these cases; and the cases.
    """
    import polars as pl

    found: dict[Any, tuple[str | None, list[str], tuple[pl.DataFrame, ...]]] = {_ids(sides): (None, [], sides)}
    tags: list[dict[str, list[str]]] = [tags_of(side) if by_tag else {} for side in sides]
    for tag in (name for name in tags[0] if all(name in known for known in tags)):
        own = tuple(
            side.filter(pl.col("tags").list.eval(pl.element().is_in(known[tag])).list.any())
            for side, known in zip(sides, tags, strict=True)
        )
        if _ids(own) in found:
            found[_ids(own)][1].append(tag)
        else:
            found[_ids(own)] = (tag, [], own)
    yield from found.values()


def _ids(sides: tuple[pl.DataFrame, ...]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(side["case_id"]) for side in sides)


def by_case(scores: pl.LazyFrame) -> pl.LazyFrame:
    """One row per case and metric, as means over its repeats; score and passed are null where nothing was scored.

    Columns: dataset, metric, case_id, group, tags, judge, score, passed, place (in the run's order), seen (cells).
    """
    import polars as pl

    return (
        scores.filter(pl.col("member_of").is_null())
        .with_row_index("place")
        .group_by(_KEY)
        .agg(
            pl.col("group", "tags", "judge").first(),
            pl.col("score").mean(),
            pl.col("passed").cast(pl.Float64).mean(),
            pl.col("place").min(),
            seen=pl.len(),
        )
    )
