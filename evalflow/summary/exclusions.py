"""Results that people excluded from a metric.

Every figure still counts them; the figure without them is shown beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from evalflow.datasets import tag_levels
from evalflow.lazy import pl
from evalflow.protocols import Measured
from evalflow.summary.journal import SLICE
from evalflow.summary.rows import SummaryRow, rows_of
from evalflow.summary.slices import own_cells
from evalflow.summary.summarise import Summary, summarise_metrics

_RESULT = ("dataset", "case_id", "target", "target_repeat", "metric")

_FIGURES = ("value", "ci_low", "ci_high", "ci_method", "n_scored", "pass_rate", "pass_rate_low", "pass_rate_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedResult:
    """A metric's result for one answer that a person excluded, with the reason."""

    dataset: str
    case_id: str
    target: str
    target_repeat: int
    metric: str
    reason: str
    by: str
    at: str


def with_exclusions(
    summary: Summary,
    scores: pl.LazyFrame,
    metrics: Mapping[str, Measured],
    excluded: Sequence[ExcludedResult],
    seed: int = 0,
) -> Summary:
    """Add a detail to each row that contains excluded results; the rows are unchanged.

    The detail has the key of its row, and under `excluded` the number of results, people by name, the reasons, and the
    row's figures without these results. Composites made of an excluded score keep it.
    """
    if not excluded:
        return summary
    given = pl.LazyFrame([asdict(one) for one in excluded]).with_columns(pl.col("target_repeat").cast(pl.Int64))
    scores = scores.with_columns(pl.col("target_repeat").cast(pl.Int64))
    own = own_cells(scores).drop("reason").join(given.drop("at"), on=_RESULT, how="inner")
    results = own.select(*_RESULT, "judge", "tags", "by", "reason").unique(maintain_order=True).collect()
    taken: dict[tuple[str | None, ...], list[tuple[str, str]]] = {}
    for *series, tags, by, reason in results.select(*SLICE, "tags", "by", "reason").iter_rows():
        for tag in (None, *dict.fromkeys(level for own in tags or () for level in tag_levels(own))):
            taken.setdefault((*series, tag), []).append((by, reason))
    touched = scores.filter(pl.col("metric").is_in({one.metric for one in excluded}))
    others = summarise_metrics(touched.join(given, on=_RESULT, how="anti", maintain_order="left"), metrics, seed).frame
    without = {(row.series, row.tag, row.statistic): row for row in rows_of(others)}
    details: list[dict[str, object]] = [
        {
            **dict(zip((*SLICE, "tag"), (*row.series, row.tag), strict=True)),
            "statistic": row.statistic,
            "n": row.n_scored,
            "excluded": _excluded(taken[*row.series, row.tag], without.get((row.series, row.tag, row.statistic))),
        }
        for row in rows_of(summary.frame)
        if (*row.series, row.tag) in taken
    ]
    return Summary(summary.frame, [*summary.details, *details])


def _excluded(taken: Sequence[tuple[str, str]], left: SummaryRow | None) -> dict[str, object]:
    """The detail: number, people and reasons of the excluded results, and the row that is `left` without them."""
    figures = {name: getattr(left, name) for name in _FIGURES} if left else {**dict.fromkeys(_FIGURES), "n_scored": 0}
    people = Counter(by for by, _ in taken)
    return {"n": len(taken), "by": dict(people), "reasons": sorted({reason for _, reason in taken}), **figures}
