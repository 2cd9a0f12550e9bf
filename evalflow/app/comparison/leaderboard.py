"""Who leads a sweep, and who cannot be told apart from the leader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.app.comparison.comparable import Scored, obstacles
from evalflow.stats.multiple import adjust
from evalflow.summary import ComparisonRow, compare_cases, pair_scores
from evalflow.summary.compare import LEVEL
from evalflow.summary.figure_differences import LOWER_IS_BETTER

if TYPE_CHECKING:
    import polars as pl

_BOARD = ("dataset", "metric", "judge")
_SHOWN = ("run", "target", "value", "ci_low", "ci_high", "n", "n_scored")
_RATE = {"value": "pass_rate", "ci_low": "pass_rate_low", "ci_high": "pass_rate_high"}


def leaderboards(runs: Sequence[Scored], summary: pl.DataFrame) -> list[dict[str, Any]]:
    """A board for each dataset, metric, judge and statistic that several runs have, as details of the sweep's summary.

    The statistics are the mean, the pass rate and the figures over all classes; what is one number has one board. Each
    run is held against the leader case by case, as `compare` does. Since the data chose the leader, p-values are
    adjusted by Holm as one family of all pairs of the board, of which only the leader's are computed: the others count
    as 1, which makes the p-values larger, never smaller.

    Args:
        runs: The sweep's runs that have scores.
        summary: Their summaries, with the column `run` in front.
    """
    import polars as pl

    by_name = {run.name: run for run in runs}
    found: list[dict[str, Any]] = []
    for key, rows in summary.filter(pl.col("tag").is_null()).group_by(_BOARD, maintain_order=True):
        board: dict[str, Any] = dict(zip(_BOARD, key, strict=True))
        pairs = _Pairs(by_name, board["dataset"], board["metric"])
        known: set[str] = set()
        for statistic, own in _standings(rows):
            if statistic not in known and own["run"].n_unique() == own.height > 1:
                held = _held(own, statistic, pairs)
                also = pairs.also(statistic)
                known.update(also)
                found.append({**board, "statistic": statistic, "also": also, "leaderboard": held})
    return found


class _Pairs:
    """The comparisons of runs on one metric, each made once."""

    def __init__(self, runs: Mapping[str, Scored], dataset: str, metric: str) -> None:
        self.runs, self.dataset, self.metric = runs, dataset, metric
        self._rows: dict[tuple[str, str], list[ComparisonRow] | None] = {}

    def row(self, best: str, other: str, statistic: str) -> ComparisonRow | None:
        """The difference in a statistic; None where there is none."""
        rows = self.rows(best, other) or ()
        return next((row for row in rows if row.statistic == statistic), None)

    def rows(self, best: str, other: str) -> list[ComparisonRow] | None:
        """All differences of two runs; None where they cannot be compared."""
        if (best, other) not in self._rows:
            a, b = self.runs[best], self.runs[other]
            self._rows[best, other] = None if obstacles(a, b) else self._compared(a, b)
        return self._rows[best, other]

    def also(self, statistic: str) -> list[str]:
        """The statistics that are the same number in all pairs so far."""
        rows = [row for found in self._rows.values() for row in found or () if row.statistic == statistic]
        return [name for name in (rows[0].also if rows else ()) if all(name in row.also for row in rows)]

    def higher_is_better(self, statistic: str) -> bool:
        """Which way is up."""
        traits = next(run.traits[self.metric] for run in self.runs.values() if self.metric in run.traits)
        return traits.higher_is_better if statistic == "mean" else statistic not in LOWER_IS_BETTER

    def _compared(self, a: Scored, b: Scored) -> list[ComparisonRow]:
        import polars as pl

        own = (pl.col("dataset") == self.dataset) & (pl.col("metric") == self.metric)
        pairing = pair_scores(a.scores().filter(own), b.scores().filter(own))
        return compare_cases(pairing, (a.name, b.name), a.traits, seed=b.manifest["config"]["seed"])


def _standings(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each statistic that have a value; the pass rate's are columns of the mean's."""
    import polars as pl

    figures = rows.filter(~pl.col("statistic").str.contains("[", literal=True) & (pl.col("statistic") != "mean"))
    means = rows.filter(pl.col("statistic") == "mean")
    yield "mean", means.drop_nulls("value").select(_SHOWN)
    yield (
        "pass_rate",
        means.drop_nulls("pass_rate").with_columns(**{k: pl.col(v) for k, v in _RATE.items()}).select(_SHOWN),
    )
    for (statistic,), own in figures.drop_nulls("value").group_by("statistic", maintain_order=True):
        yield str(statistic), own.select(_SHOWN)


def _held(standing: pl.DataFrame, statistic: str, pairs: _Pairs) -> list[dict[str, Any]]:
    """The rows, the leader first, with p_adjusted and verdict: best, worse, cannot_tell or not_comparable."""
    higher = pairs.higher_is_better(statistic)
    best, *others = standing.sort("value", descending=higher, maintain_order=True).to_dicts()
    compared = [pairs.row(best["run"], row["run"], statistic) for row in others]
    p_values = [None if row is None else row.found.p_value for row in compared]
    tested = [p for p in p_values if p is not None]
    count = standing.height * (standing.height - 1) // 2
    adjusted: Iterator[float] = iter(adjust([*tested, *[1.0] * (count - len(tested))])[: len(tested)].tolist())
    held = [{**best, "p_adjusted": None, "verdict": "best"}]
    for row, p in zip(others, p_values, strict=True):
        found = None if p is None else next(adjusted)
        told = "worse" if found is not None and found < LEVEL else "cannot_tell"
        verdict = "not_comparable" if pairs.rows(best["run"], row["run"]) is None else told
        held.append({**row, "p_adjusted": found, "verdict": verdict})
    return held
