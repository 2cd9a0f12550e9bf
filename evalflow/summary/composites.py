"""Composite scores: computed from an answer's other scores while the journal streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.frozen import record
from evalflow.lazy import pl
from evalflow.metrics.kinds.composite import CompositeMetricConfig, Part, combine
from evalflow.records import ScoreRecord, passes
from evalflow.summary.journal import journal_row

if TYPE_CHECKING:
    from evalflow.records import Direction, Outcome

_ANSWER_KEY = ("dataset", "index", "target", "target_repeat")
_ANSWER_COLUMNS = (*_ANSWER_KEY, "run_id", "case_id", "group", "tags", "finished_at")
_PART_COLUMNS = ("status", "score", "reason", "error_type", "error")
_Scores = Mapping[str, Mapping[int, tuple[Any, ...]]]
"""An answer's scores: by metric and judge's repeat, the values of `_PART_COLUMNS`."""


@record()
class Source:
    """A metric that is part of a composite.

    Attributes:
        asks: Whether it calls a judge, possibly in several repeats. Otherwise its one score counts in every repeat.
        direction: Whether higher or lower is better.
        limit: Its threshold; None without one.
    """

    asks: bool
    direction: Direction
    limit: float | None


@record()
class Composite:
    """A metric computed from others.

    Attributes:
        name: Its name.
        judge: The judge of its parts.
        config: The rule that combines them.
        sources: Its parts by name.
    """

    name: str
    judge: str | None
    config: CompositeMetricConfig
    sources: Mapping[str, Source]


def with_composites(batches: Iterable[pl.DataFrame], composites: Sequence[Composite]) -> Iterator[pl.DataFrame]:
    """Add the composites' rows to a journal's, after the other rows of the same answer.

    Each judge's repeat has one row, computed from the parts in that repeat, once all of them are finished.
    """
    held: pl.DataFrame | None = None
    for batch in batches:
        rows = batch if held is None else pl.concat([held, batch])
        last = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).last()) for key in _ANSWER_KEY)
        held = rows.filter(last)
        yield _completed(rows.filter(~last), composites)
    if held is not None:
        yield _completed(held, composites)


def _completed(rows: pl.DataFrame, composites: Sequence[Composite]) -> pl.DataFrame:
    numbered = rows.with_row_index("place").with_columns(pl.col("place").first().over(_ANSWER_KEY))
    firsts = numbered.unique("place", keep="first").select("place", *_ANSWER_COLUMNS).rows_by_key("place", named=True)
    made = [
        {"place": place, **journal_row(_record(composite, repeat, outcome, firsts[place][0]))}
        for place, scores in _answers(numbered)
        for composite in composites
        for repeat, outcome in _outcomes(composite, scores)
    ]
    added = pl.DataFrame(made, schema=numbered.schema)
    return pl.concat([numbered, added]).sort("place", maintain_order=True).drop("place")


def _answers(rows: pl.DataFrame) -> Iterator[tuple[int, _Scores]]:
    """Each answer's scores, with its `place`."""
    own = rows.filter(pl.col("member_of").is_null())
    found: defaultdict[int, defaultdict[str, dict[int, tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(dict))
    for place, metric, repeat, *values in own.select("place", "metric", "repeat", *_PART_COLUMNS).iter_rows():
        found[place][metric][repeat] = tuple(values)
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


def _part(composite: Composite, name: str, values: tuple[Any, ...]) -> Part:
    status, score, reason, error_type, error = values
    source = composite.sources[name]
    higher = source.direction == "higher_is_better"
    passed = None
    if score is not None and source.limit is not None:
        passed = bool(passes(score, source.limit, higher_is_better=higher))
    inverted = source.direction != composite.config.direction
    return Part(status, score, reason, error_type, error, passed, inverted)


def _record(composite: Composite, repeat: int, outcome: Outcome, first: Mapping[str, Any]) -> ScoreRecord:
    """The composite's score of the answer whose first row this is. It makes no calls, so its cost is known to be 0."""
    about: dict[str, Any] = {**first, "tags": tuple(first["tags"] or ())}
    return ScoreRecord(
        **about, metric=composite.name, metric_version=composite.config.version,
        judge=composite.judge, repeat=repeat, status=outcome.status, score=outcome.score, value=outcome.value,
        reason=outcome.reason, steps=outcome.steps, error_type=outcome.error_type, error=outcome.error,
        path=outcome.path, input_tokens=0, output_tokens=0, cost_usd=0.0,
    )  # fmt: skip
