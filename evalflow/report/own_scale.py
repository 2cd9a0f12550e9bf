"""The mean of a metric on the scale that its judge uses, such as 4.0 of 5, in a column of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalflow.records.manifest import MetricFacts
from evalflow.summary.rows import SummaryRow

HEAD = "scale"
ABOUT = "The score on the metric's own scale"


def own_scale_cells(rows: Sequence[SummaryRow], metrics: Mapping[str, MetricFacts]) -> list[str]:
    """The cell of each row; empty if no row is of a metric with another scale than 0 to 1, so that none has a column.

    Only means have one: a figure or a share of passed cases has no grade.

    Example:
        >>> row = SummaryRow("rag", "bot", "tone", "mean", "judge", None, 8, 8, 0, 0, 0, value=0.75)
        >>> tone = {"declared": "tone", "judge": "judge", "asks": True, "embeds": False, "bounded": True, "key": "tone"}
        >>> about = MetricFacts(**tone, description="", version=1, prompt_sha256=None, figures=None, scale=(1, 5))
        >>> own_scale_cells([row], {"tone": about})
        ['4.0/5']
    """
    cells = [_cell(row, metrics.get(row.metric)) for row in rows]
    return [cell or "–" for cell in cells] if any(cells) else []


def _cell(row: SummaryRow, about: MetricFacts | None) -> str:
    if about is None or about.scale is None or row.statistic != "mean" or row.value is None:
        return ""
    low, high = about.scale
    grade = low + row.value * (high - low)
    return f"{grade:.1f}/{high:g}" if low in (0, 1) else f"{grade:.1f} in {low:g} to {high:g}"
