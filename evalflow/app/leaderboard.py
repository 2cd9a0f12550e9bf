"""Who leads a sweep, and who cannot be told apart from the leader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.app.comparable import Scored, obstacles
from evalflow.stats.multiple import adjust
from evalflow.summary import Traits, compare_cases, pair_scores
from evalflow.summary.compare import LEVEL

if TYPE_CHECKING:
    import polars as pl

_BOARD = ("dataset", "metric", "judge")
_SHOWN = ("run", "target", "value", "ci_low", "ci_high", "n", "n_scored")


def leaderboards(runs: Sequence[Scored], summary: pl.DataFrame) -> list[dict[str, Any]]:
    """A board for each dataset, metric and judge that several runs have, as details of the sweep's summary.

    Each run is held against the leader case by case, as `compare` does. Since the data chose the leader, p-values are
    adjusted by Holm as one family of all pairs of the board, of which only the leader's are computed: the others count
    as 1, which makes the p-values larger, never smaller.

    Args:
        runs: The sweep's runs that have scores.
        summary: Their summaries, with the column `run` in front.
    """
    import polars as pl

    means = summary.filter((pl.col("statistic") == "mean") & pl.col("tag").is_null() & pl.col("value").is_not_null())
    by_name = {run.name: run for run in runs}
    traits = {name: known for run in runs for name, known in run.traits.items()}
    found: list[dict[str, Any]] = []
    for key, rows in means.group_by(_BOARD, maintain_order=True):
        if rows["run"].n_unique() == rows.height > 1:
            higher = traits[str(key[1])].higher_is_better
            ordered = rows.sort("value", descending=higher, maintain_order=True).select(_SHOWN).to_dicts()
            board: dict[str, Any] = dict(zip(_BOARD, key, strict=True))
            found.append({**board, "statistic": "mean", "leaderboard": _held(ordered, board, by_name, traits)})
    return found


def _held(
    rows: Sequence[dict[str, Any]], board: Mapping[str, Any], runs: Mapping[str, Scored], traits: Mapping[str, Traits]
) -> list[dict[str, Any]]:
    """The rows, the leader first, with p_adjusted and verdict: best, worse, cannot_tell or not_comparable."""
    best = runs[rows[0]["run"]]
    alike = [not obstacles(best, runs[row["run"]]) for row in rows[1:]]
    p_values = [
        _p_value(best, runs[row["run"]], board, traits) if same else None
        for row, same in zip(rows[1:], alike, strict=True)
    ]
    tested = [p for p in p_values if p is not None]
    pairs = len(rows) * (len(rows) - 1) // 2
    adjusted: Iterator[float] = iter(adjust([*tested, *[1.0] * (pairs - len(tested))])[: len(tested)].tolist())
    held = [{**rows[0], "p_adjusted": None, "verdict": "best"}]
    for row, p, same in zip(rows[1:], p_values, alike, strict=True):
        found = None if p is None else next(adjusted)
        told = "worse" if found is not None and found < LEVEL else "cannot_tell"
        verdict = told if same else "not_comparable"
        held.append({**row, "p_adjusted": found, "verdict": verdict})
    return held


def _p_value(best: Scored, other: Scored, board: Mapping[str, Any], traits: Mapping[str, Traits]) -> float | None:
    """Of the difference on common cases; None where nothing can be tested."""
    import polars as pl

    a, b = (
        run.scores().filter((pl.col("dataset") == board["dataset"]) & (pl.col("metric") == board["metric"]))
        for run in (best, other)
    )
    rows = compare_cases(pair_scores(a, b), (best.name, other.name), traits, seed=other.manifest["config"]["seed"])
    return next((row.found.p_value for row in rows if row.statistic == "mean"), None)
