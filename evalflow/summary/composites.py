"""Scores that are made of others, put beside them as they stream by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.bill import NOTHING
from evalflow.frozen import record
from evalflow.metrics.combine import CompositeMetricConfig, Part, combine
from evalflow.records import passes
from evalflow.summary.journal import bill_row, journal_schema, json_text

if TYPE_CHECKING:
    import polars as pl

    from evalflow.records import Direction, Outcome

_ANSWER = ("dataset", "index", "target", "target_repeat")
_OF_ANSWER = ("run_id", "case_id", "group", "tags")
_READ = ("status", "score", "reason", "error_type", "error")
_Scores = Mapping[str, Mapping[int, tuple[Any, ...]]]
"""What an answer's metrics gave it: by metric and judge's repeat, the values of `_READ`."""


@record()
class Source:
    """A metric that a composite is made of.

    Attributes:
        asks: Whether it asks a judge, who may be asked repeatedly; else its one score counts in every repeat.
        direction: Which end of its scale is the good one.
        limit: Its threshold; None where none holds.
    """

    asks: bool
    direction: Direction
    limit: float | None


@record()
class Composite:
    """A metric that is made of others.

    Attributes:
        name: The column value.
        judge: Who judged its parts.
        config: The rule.
        sources: Its parts by name.
    """

    name: str
    judge: str | None
    config: CompositeMetricConfig
    sources: Mapping[str, Source]


def with_composites(batches: Iterable[pl.DataFrame], composites: Sequence[Composite]) -> Iterator[pl.DataFrame]:
    """Add the composites' rows to a journal's, after the other rows of the same answer.

    There is one for each judge's repeat, made of what the parts were given in that repeat. Where a part is not finished
    there is none yet.

    Args:
        batches: Columns as in `journal_schema`, each cell once, the rows of an answer together.
        composites: What to add.
    """
    import polars as pl

    held: pl.DataFrame | None = None
    for batch in batches:
        rows = batch if held is None else pl.concat([held, batch])
        last = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).last()) for key in _ANSWER)
        held = rows.filter(last)
        yield _completed(rows.filter(~last), composites)
    if held is not None:
        yield _completed(held, composites)


def _completed(rows: pl.DataFrame, composites: Sequence[Composite]) -> pl.DataFrame:
    import polars as pl

    made = [
        {"place": place, **_row(composite, repeat, outcome)}
        for place, scores in _answers(rows)
        for composite in composites
        for repeat, outcome in _outcomes(composite, scores)
    ]
    if not made:
        return rows
    places = rows.with_row_index("place").group_by(_ANSWER, maintain_order=True).first()
    schema = journal_schema()
    known = {name: dtype for name, dtype in schema.items() if name in made[0]}
    added = pl.DataFrame(made, schema={"place": pl.UInt32, **known}, orient="row")
    added = added.join(places.select("place", *_ANSWER, *_OF_ANSWER, "finished_at"), on="place")
    found = rows.join(places.select("place", *_ANSWER), on=_ANSWER, maintain_order="left")
    added = added.with_columns(pl.lit(None, schema["member_of"]).alias("member_of"))
    both = pl.concat([found.select("place", *schema), added.select("place", *schema)])
    return both.sort("place", maintain_order=True).drop("place")


def _answers(rows: pl.DataFrame) -> Iterator[tuple[int, _Scores]]:
    """Each answer's scores, with the number of its first row."""
    import polars as pl

    own = rows.with_row_index("place").with_columns(pl.col("place").first().over(_ANSWER))
    own = own.filter(pl.col("member_of").is_null())
    found: defaultdict[int, defaultdict[str, dict[int, tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(dict))
    for place, metric, repeat, *said in own.select("place", "metric", "repeat", *_READ).iter_rows():
        found[place][metric][repeat] = tuple(said)
    yield from found.items()


def _outcomes(composite: Composite, scores: _Scores) -> Iterator[tuple[int, Outcome]]:
    """The composite's outcome in each repeat in which all of its parts have one."""
    sources = composite.sources
    if not all(name in scores for name in sources):
        return
    repeats = sorted({repeat for name in sources for repeat in scores[name]})
    for repeat in repeats:
        at = {name: repeat if source.asks else 0 for name, source in sources.items()}
        if all(at[name] in scores[name] for name in sources):
            parts = {name: _part(composite, name, scores[name][at[name]]) for name in sources}
            yield repeat, combine(composite.config, parts)


def _part(composite: Composite, name: str, said: tuple[Any, ...]) -> Part:
    status, score, reason, error_type, error = said
    source = composite.sources[name]
    higher = source.direction == "higher_is_better"
    passed = None
    if score is not None and source.limit is not None:
        passed = bool(passes(score, source.limit, higher_is_better=higher))
    inverted = source.direction != composite.config.direction
    return Part(status, score, reason, error_type, error, passed, inverted)


def _row(composite: Composite, repeat: int, outcome: Outcome) -> dict[str, Any]:
    """The columns that are the composite's own. It asked nobody: that it cost nothing is known, and no false 0."""
    return {
        "metric": composite.name, "metric_version": composite.config.version, "judge": composite.judge,
        "repeat": repeat, "status": outcome.status, "score": outcome.score,
        "value": None if outcome.value is None else json_text(outcome.value), "reason": outcome.reason,
        "steps": json_text(outcome.steps), "error_type": outcome.error_type, "error": outcome.error,
        "path": outcome.path, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "latency_s": None,
        "cached": False, "bill": bill_row(NOTHING),
    }  # fmt: skip
