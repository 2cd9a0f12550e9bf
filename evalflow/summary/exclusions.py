"""Results that people took out of a metric: every figure counts them, and beside it stands the figure without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from evalflow.datasets import tag_levels
from evalflow.lazy import pl
from evalflow.protocols import Measured
from evalflow.summary.journal import SLICE
from evalflow.summary.rows import Detail, SummaryRow
from evalflow.summary.slices import own_cells
from evalflow.summary.summarise import Summary, summarise_metrics

_RESULT = ("dataset", "case_id", "target", "target_repeat", "metric")
_UNIT = (*SLICE, "tag")
_FIGURES = ("value", "ci_low", "ci_high", "ci_method", "n_scored", "pass_rate", "pass_rate_low", "pass_rate_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedResult:
    """A metric's result for one answer that a person took out, with the reason."""

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
    """The summary with a detail for each row that excluded results are part of; the rows stay as they are.

    The detail has the key of its row, and under `excluded` the number of results, people by name, the reasons, and the
    row's figures without these results. Composites made of an excluded score keep it.
    """
    if not excluded:
        return summary
    given = pl.LazyFrame([asdict(one) for one in excluded]).with_columns(pl.col("target_repeat").cast(pl.Int64))
    scores = scores.with_columns(pl.col("target_repeat").cast(pl.Int64))
    own = own_cells(scores).drop("reason").join(given.drop("at"), on=_RESULT, how="inner")
    found = own.select(*_RESULT, "judge", "tags", "by", "reason").unique(maintain_order=True).collect()
    taken: dict[tuple[object, ...], list[Detail]] = {}
    for row in found.iter_rows(named=True):
        for tag in (None, *dict.fromkeys(level for own in row["tags"] or () for level in tag_levels(own))):
            taken.setdefault((*(row[name] for name in SLICE), tag), []).append(row)
    touched = scores.filter(pl.col("metric").is_in({one.metric for one in excluded}))
    others = summarise_metrics(touched.join(given, on=_RESULT, how="anti", maintain_order="left"), metrics, seed).frame
    without = {(_unit(row), row["statistic"]): row for row in others.iter_rows(named=True)}
    details = [
        {
            **dict(zip(_UNIT, _unit(row), strict=True)),
            "statistic": row["statistic"],
            "n": row["n_scored"],
            "excluded": _excluded(taken[_unit(row)], without.get((_unit(row), row["statistic"]))),
        }
        for row in summary.frame.iter_rows(named=True)
        if _unit(row) in taken
    ]
    return Summary(summary.frame, [*summary.details, *details])


def _unit(row: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in _UNIT)


def _excluded(taken: Sequence[Detail], left: SummaryRow | None) -> dict[str, object]:
    figures = {name: left[name] for name in _FIGURES} if left else {**dict.fromkeys(_FIGURES), "n_scored": 0}
    people = Counter(row["by"] for row in taken)
    return {"n": len(taken), "by": dict(people), "reasons": sorted({row["reason"] for row in taken}), **figures}
