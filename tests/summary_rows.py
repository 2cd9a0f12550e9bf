"""Rows of a summary, of which a test names only what matters to it."""

from __future__ import annotations

from typing import Any

from evalflow.summary.rows import SummaryRow


def summary_row(**own: Any) -> SummaryRow:
    """The mean of a metric without a judge over all cases; all ten are scored."""
    key = {"dataset": "d", "target": "t", "metric": "m", "statistic": "mean", "judge": None, "tag": None}
    counts = {"n": 10, "n_scored": 10, "n_undefined": 0, "n_error": 0, "n_skipped": 0}
    return SummaryRow(**{**key, **counts, **own})
