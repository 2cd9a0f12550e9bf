"""Who leads a sweep: the verdicts of `compare`, on equal cases."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalflow.app.core.comparison import ComparisonOptions, compare_pairs
from evalflow.app.core.result_rules import RunMetric
from evalflow.app.core.saved import SavedRun
from evalflow.app.core.sweep import leaderboards
from evalflow.config.schema import MetricConfig
from evalflow.engine.folder import RunFolder
from evalflow.errors import UserError
from evalflow.summary.journal import scores_schema
from evalflow.summary.ranking import Leaderboard
from evalflow.summary.summarise import Threshold, summarise, with_passed
from tests.manifests import manifest_of

Scores = Sequence[float | None]
"""One score per case; None for an undefined one."""


def sweep(folder: Path, runs: Mapping[str, Scores], direction: Any = "higher_is_better") -> list[Leaderboard]:
    """The boards of some runs, after a check that none says other than `compare` of the sweep and of its pairs."""
    opened = [_run(folder / name, scores, direction) for name, scores in runs.items()]
    described = {"m": RunMetric(MetricConfig(kind="judge", direction=direction), bounded=True, figures=None)}
    summary = pl.concat(
        [summarise(run.scores(), described).frame.select(pl.lit(run.name).alias("run"), pl.all()) for run in opened]
    )
    boards = leaderboards(opened, summary)
    _agrees(boards, opened)
    return boards


def _agrees(boards: Sequence[Leaderboard], runs: Sequence[SavedRun]) -> None:
    of_sweep = {} if not boards else _verdicts(list(combinations(runs, 2)))
    by_name = {run.name: run for run in runs}
    for board in boards:
        ranked = [row for row in board.leaderboard if row.verdict != "not_comparable"]
        for row in ranked[1:]:
            pair = (ranked[0].run, row.run)
            assert of_sweep[*pair, board.statistic] == (row.verdict, row.p_adjusted)
            if row.verdict != "cannot_tell":
                alone = _verdicts([(by_name[pair[0]], by_name[pair[1]])])
                assert alone[*pair, board.statistic][0] == row.verdict
        if ranked and ranked[0].verdict == "best":
            assert {row.verdict for row in ranked[1:]} <= {"worse", "cannot_tell"}


def _verdicts(pairs: Sequence[tuple[SavedRun, SavedRun]]) -> dict[tuple[str, str, str], tuple[str, float | None]]:
    """Of B against A, both ways round."""
    other_way = {"better": "worse", "worse": "better", "cannot_tell": "cannot_tell"}
    try:
        rows = compare_pairs(pairs, ComparisonOptions()).rows
    except UserError as error:
        if error.problems[0].what == "the runs have no scored case in common":
            return {}
        raise
    found: dict[tuple[str, str, str], tuple[str, float | None]] = {}
    for row in rows:
        for statistic in (row.statistic, *row.also):
            found[row.pair[0], row.pair[1], statistic] = (row.verdict, row.p_adjusted)
            found[row.pair[1], row.pair[0], statistic] = (other_way[row.verdict], row.p_adjusted)
    return found


def _run(folder: Path, scores: Scores, direction: Any) -> SavedRun:
    folder.mkdir()
    run = RunFolder(folder)
    cells = [
        {
            "dataset": "d",
            "case_id": f"c{i}",
            "tags": [],
            "target": "t",
            "target_repeat": 0,
            "metric": "m",
            "metric_version": 1,
            "judge": "j",
            "repeat": 0,
            "status": "undefined" if score is None else "scored",
            "score": score,
            "cached": False,
        }
        for i, score in enumerate(scores)
    ]
    frame = pl.LazyFrame(cells, schema=scores_schema())
    with_passed(frame, [Threshold("m", "j", 0.5, direction)]).collect().write_parquet(run.scores)
    run.cases.write_text("".join(f'{{"id": "c{i}", "question": "Q?"}}\n' for i in range(len(scores))))
    manifest = manifest_of(
        metrics={"m": {"judge": "j"}},
        judges={"j": {}},
        config={"metric": {"m": {"direction": direction}}, "seed": 0, "limit": None, "sample": None, "dataset": {}},
        datasets={"d": {"sha256": "same", "cases": len(scores)}},
    )
    return SavedRun(run, manifest, folder.name)


def test_a_run_that_skipped_the_hard_cases_does_not_lead(tmp_path: Path) -> None:
    """B has scored the 20 easy cases alone: its mean is higher, and on the cases that both have scored A is better."""
    easy, hard = [0.9 + 0.001 * i for i in range(20)], [0.1] * 40
    boards = sweep(tmp_path, {"a": [*easy, *hard], "b": [*(score - 0.1 for score in easy), *[None] * 40]})
    [board] = [board for board in boards if board.statistic == "mean"]
    assert [(row.run, row.verdict) for row in board.leaderboard] == [("a", "best"), ("b", "worse")]
    assert (board.cases, board.cases_left_out) == (20, 40)
    assert abs(board.leaderboard[0].value - sum(easy) / 20) < 1e-9


def test_runs_without_a_common_case_are_not_ranked(tmp_path: Path) -> None:
    boards = sweep(tmp_path, {"a": [0.9, None], "b": [None, 0.2]})
    assert {row.verdict for board in boards for row in board.leaderboard} == {"not_comparable"}


def test_a_first_that_another_beats_on_the_cases_of_these_two_does_not_lead(tmp_path: Path) -> None:
    """On the 5 cases that all three have scored A is first; on the 60 that A and B share, B is better."""
    boards = sweep(
        tmp_path,
        {
            "a": [*[0.9] * 5, *[0.1 + 0.001 * i for i in range(55)]],
            "b": [*[0.8] * 5, *[0.9 - 0.002 * i for i in range(55)]],
            "c": [*[0.5] * 5, *[None] * 55],
        },
    )
    [board] = [board for board in boards if board.statistic == "mean"]
    assert [(row.run, row.verdict) for row in board.leaderboard][:2] == [("a", "cannot_tell"), ("b", "better")]


SCORE = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
RUNS = st.integers(2, 14).flatmap(lambda n: st.lists(st.lists(SCORE, min_size=n, max_size=n), min_size=2, max_size=4))


@settings(max_examples=20)
@given(RUNS, st.sampled_from(["higher_is_better", "lower_is_better"]))
@pytest.mark.slow
def test_compare_and_the_leaderboard_never_disagree(runs: list[Scores], direction: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sweep(Path(folder), {f"r{i}": scores for i, scores in enumerate(runs)}, direction)
