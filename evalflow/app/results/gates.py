"""The gates of a run, held against its results, in words that say what would decide them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from evalflow.app.comparison.baseline import baseline_summary, differences
from evalflow.app.results.recipe import Recipe
from evalflow.errors import UserError
from evalflow.summary import Gate, GateResult, GateRow, evaluate_gates

if TYPE_CHECKING:
    import polars as pl


def hold_gates(
    recipe: Recipe, summary: pl.DataFrame, scores: pl.LazyFrame
) -> tuple[list[GateResult], list[dict[str, Any]]]:
    """Hold a run's gates against its summary, and against its baseline where they ask for it.

    Args:
        recipe: The gates, and what they are about.
        summary: Columns of summary.parquet.
        scores: Columns of scores.parquet.

    Returns:
        The outcomes, and as reports show them: one row per dataset, target and judge that a gate was held against.
    """
    results, why = _outcomes(recipe, summary, scores)
    return results, [row for result in results for row in _gate_rows(result, why)]


def _outcomes(recipe: Recipe, summary: pl.DataFrame, scores: pl.LazyFrame) -> tuple[list[GateResult], str]:
    """The gates' outcomes, and why the baseline cannot be read; empty where it can."""
    if not any(gate.baseline for gate in recipe.gates):
        return evaluate_gates(recipe.gates, summary), ""
    run = recipe.settings.run
    try:
        found = differences(recipe.gates, run, scores, recipe.metrics)
        baseline = baseline_summary(run)
    except UserError as error:
        return evaluate_gates(recipe.gates, summary), error.problems[0].what
    return evaluate_gates(recipe.gates, summary, found, baseline), ""


def _gate_rows(result: GateResult, why: str) -> Iterator[dict[str, Any]]:
    gate = result.gate
    common = {
        "metric": gate.about,
        "statistic": gate.statistic,
        "condition": str(gate.condition),
        "limit": gate.condition.limit,
        "name": str(gate),
    }
    nothing: dict[str, Any] = {
        "dataset": None,
        "value": None,
        "ci_low": None,
        "ci_high": None,
        "passed": None,
        "cases_needed": None,
        "basis": "",
        "of_metric": gate.metric,
    }
    if not result.rows:
        note = _missing(gate, why)
        yield {**common, **nothing, "of": "", "note": note, "message": f"{gate}: {note}"}
    for row in result.rows:
        # A gate on a tag is about several metrics.
        parts = (row.metric if gate.metric is None else "", row.dataset, row.target, row.judge)
        of = " · ".join(part for part in parts if part)
        ends = {"value": row.value, "ci_low": row.low, "ci_high": row.high}
        basis, note = _basis(row), _undecided(gate, row)
        known = {"dataset": row.dataset, "passed": row.passed, "cases_needed": row.cases_needed, "basis": basis}
        known["of_metric"] = row.metric
        message = "; ".join(text for text in (f"{gate}: {_found(row)} ({of})", basis, note) if text)
        yield {**common, **ends, **known, "of": of, "note": note, "message": message}


def _missing(gate: Gate, why: str) -> str:
    """Why a gate was held against nothing."""
    if gate.baseline and why:
        return why
    where = " in common with the baseline" if gate.baseline else ""
    of_class = " of this class or label" if "[" in gate.statistic else ""
    tagged = f" with the tag {gate.tag!r}" if gate.tag else ""
    return f"no scored case{of_class}{tagged}{where}"


def _found(row: GateRow) -> str:
    if row.value is None:
        return "no value"
    return f"{row.value:.4g}" + (f" [{row.low:.4g}, {row.high:.4g}]" if row.low is not None else "")


def _basis(row: GateRow) -> str:
    """How many scores the value rests on, of how many; empty for what leaves none out."""
    if not row.n:
        return ""
    states = {"undefined": row.n_undefined, "skipped": row.n_skipped}
    states["in error"] = row.n - row.n_scored - row.n_undefined - row.n_skipped
    left = ", ".join(f"{count:,} {state}" for state, count in states.items() if count)
    scores = f"{row.n_scored:,} of {row.n:,} scores" + (f" ({left})" if left else "")
    if row.compared is None:
        return f"rests on {scores}"
    return f"rests on {row.compared:,} case{'' if row.compared == 1 else 's'} of both runs; this run has {scores}"


def _undecided(gate: Gate, row: GateRow) -> str:
    """What it would take to decide."""
    if row.undefined_in:
        most = f"max_undefined_rate: {gate.max_undefined_rate:g}"
        return f"more scores of {row.undefined_in} are undefined than {most} allows, and so it decides nothing"
    if row.passed is not None or row.value is None:
        return ""
    if row.low is None:
        return "it has no interval, and so decides nothing: more cases, or point: true"
    if row.cases_needed is None:
        return "it lies on the limit, which no number of cases decides"
    return f"about {row.cases_needed:,} cases would decide, if it stayed as it is"
