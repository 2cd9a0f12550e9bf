"""What changed between two runs, from tables of scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from evalflow.app.compare import Changes, cells_between
from evalflow.app.core.saved import SavedRun
from evalflow.engine.folder import RunFolder
from tests.manifests import manifest_of

Cell = tuple[str, str, float | None, bool | None]
"""Case, metric, score, passed."""
SCHEMA = {"case_id": pl.String, "metric": pl.String, "score": pl.Float64, "passed": pl.Boolean}
A: list[Cell] = [
    ("same", "good", 0.5, True), ("same", "slow", 9.0, None),
    ("flips", "good", 0.6, True), ("flips", "slow", 100.0, None),
    ("lost", "good", 0.6, True), ("lost", "slow", 4.0, None),
    ("rises", "good", 0.2, False), ("rises", "slow", 4.0, None),
    ("said", "good", 0.9, True), ("said", "slow", 4.0, None),
    ("alone", "good", 0.9, True),
]  # fmt: skip
B: list[Cell] = [
    ("same", "good", 0.5, True), ("same", "slow", 9.0, None),
    ("flips", "good", 0.1, False), ("flips", "slow", 120.0, None),
    ("lost", "good", None, None), ("lost", "slow", 4.0, None),
    ("rises", "good", 0.4, False), ("rises", "slow", 3.0, None),
    ("said", "good", 0.9, True), ("said", "slow", 4.0, None),
]  # fmt: skip


def scored(folder: Path, cells: Sequence[Cell]) -> SavedRun:
    folder.mkdir()
    frame = pl.DataFrame(cells, schema=SCHEMA, orient="row").with_columns(
        dataset=pl.lit("d"), judge=pl.lit(None, pl.String), group=pl.lit(None, pl.String),
        member_of=pl.lit(None, pl.String), tags=pl.lit([], pl.List(pl.String)),
    )  # fmt: skip
    run = RunFolder(folder)
    frame.write_parquet(run.scores)
    facts = {name: {"bounded": name == "good"} for name in ("good", "slow")}
    config = {"metric": {"good": {}, "slow": {"direction": "lower_is_better"}}}
    return SavedRun(run, manifest_of(metrics=facts, config=config), folder.name)


def changes(folder: Path, other_answers: Sequence[str] = ("said", "flips")) -> Changes:
    cases = [("d", case, f"About {case}?", case in other_answers) for case in dict.fromkeys(cell[0] for cell in B)]
    return Changes(cells_between(scored(folder / "a", A), scored(folder / "b", B), cases))


def test_each_case_counts_once_in_every_way_that_it_changed(tmp_path: Path) -> None:
    found = changes(tmp_path)
    assert found.common == 5
    assert found.counts == {"all": 4, "flipped": 1, "worse": 1, "better": 1, "lost": 1, "answer": 2}


def test_the_worst_comes_first_by_the_metric_that_changed_most(tmp_path: Path) -> None:
    found = changes(tmp_path)
    assert [one.case_id for one in found.page("all")] == ["flips", "lost", "said", "rises"]
    [worse] = found.page("worse")
    assert (worse.metric, worse.change, worse.others) == ("slow", -20.0, 1)  # lower is better: 20 more are worse
    assert (worse.question, worse.is_answered_otherwise) == ("About flips?", True)
    [flipped] = found.page("flipped")
    assert (flipped.metric, flipped.passed_a, flipped.passed_b, flipped.others) == ("good", True, False, 0)
    [better] = found.page("better")
    assert (better.case_id, better.metric, better.others) == ("rises", "good", 1)


def test_a_score_that_one_run_alone_has_is_no_change_to_or_from_0(tmp_path: Path) -> None:
    [lost] = changes(tmp_path).page("lost")
    assert (lost.case_id, lost.score_a, lost.score_b, lost.change) == ("lost", 0.6, None, None)


def test_another_answer_with_the_same_scores_is_told(tmp_path: Path) -> None:
    found = changes(tmp_path).page("answer")
    assert [one.case_id for one in found] == ["flips", "said"]
    assert found[1].change == 0


def test_pages_follow_each_other(tmp_path: Path) -> None:
    found = changes(tmp_path)
    whole = found.page("all")
    assert [*found.page("all", 0, 3), *found.page("all", 3, 3)] == list(whole)
    assert not found.page("all", 4)
    assert found.page("lost", 0, 1) == found.page("lost")
