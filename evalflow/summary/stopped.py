"""The numbers to report for a run that its looks stopped early."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from evalflow.lazy import np, pl
from evalflow.records import CASES
from evalflow.summary.gates import Gate, Looked
from evalflow.summary.journal import SLICE
from evalflow.summary.passing_cases import passing_cases, passing_metrics
from evalflow.summary.rows import SummaryRow, frame_of, rows_of
from evalflow.summary.slices import case_arrays, clusters_in, find_units, own_cells, values_of
from evalflow.summary.summarise import Summary
from evalflow.summary.verdicts import STOPPED_BY_LOOKS

_MEAN = ("value", "ci_low", "ci_high", "ci_method")
_PASS_RATE = ("pass_rate", "pass_rate_low", "pass_rate_high")
_STOPPED = f"none: {STOPPED_BY_LOOKS}"


def with_stop(
    summary: Summary, scores: pl.LazyFrame, bounded: Collection[str], looked: Mapping[tuple[Gate, str], Looked]
) -> Summary:
    """The summary of a run stopped early, with numbers that are valid despite the stop.

    Statistics that gates looked at have the gates' mean (adjusted for the stop) and interval. Other means of metrics in
    0..1, and pass rates, have a confidence sequence (`stopped_interval`). Everything else has no interval, and
    `ci_method` says so.
    """
    stopped_ends = _ends_after_stop(scores, {*bounded, CASES})
    counted = passing_metrics(scores)
    if summary.frame["metric"].is_in([CASES]).any():
        stopped_ends |= _ends_after_stop(passing_cases(scores, counted).lazy(), set())
    rows: list[SummaryRow] = []
    for row in rows_of(summary.frame):
        held: dict[str, Any] = dict.fromkeys((*_MEAN[1:3], *_PASS_RATE[1:]))
        if row.ci_low is not None:
            held["ci_method"] = _STOPPED
        if row.statistic == "mean" or row.metric == CASES:
            held |= stopped_ends.get((*row.series, row.tag), {})
            for (gate, dataset), look in looked.items():
                same = (row.dataset, row.metric, row.tag) == (dataset, gate.metric, gate.tag)
                if same and look.low is not None:
                    both = row.value == row.pass_rate  # scores of 0 and 1
                    ends = (look.value, look.low, look.high, look.method)
                    held |= dict(zip(_MEAN, ends, strict=False)) if both or gate.statistic == "mean" else {}
                    held |= dict(zip(_PASS_RATE, ends, strict=False)) if both or gate.statistic != "mean" else {}
        rows.append(replace(row, **held))
    return Summary(frame_of(rows), summary.details)


def _ends_after_stop(scores: pl.LazyFrame, bounded: Collection[str]) -> dict[tuple[object, ...], dict[str, object]]:
    """The ends of the intervals of means and pass rates by dataset, target, metric, judge and tag."""
    from evalflow.stats.stopping import stopped_interval

    cells = own_cells(scores)
    units = find_units(cells)
    keys, stopped_ends = units.keys, dict[tuple[object, ...], dict[str, object]]()
    for unit, own in case_arrays(values_of(cells, units, repeats=units.repeated), units):
        groups, ends = clusters_in(own), dict[str, object]()
        for column, names in (("score", _MEAN[1:3]), ("passed", _PASS_RATE[1:])):
            known = ~np.isnan(own[column])
            if known.any() and (column == "passed" or keys[unit]["metric"] in bounded):
                one = stopped_interval(own[column][known], None if groups is None else groups[known])
                ends |= dict(zip(names, (one.low, one.high), strict=True))
                ends |= {"ci_method": one.method} if column == "score" else {}
        stopped_ends[tuple(keys[unit][name] for name in (*SLICE, "tag"))] = ends
    return stopped_ends
