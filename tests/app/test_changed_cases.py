"""The cases that changed between two runs: by their worst drop, else their largest rise, with every other metric."""

from __future__ import annotations

from pathlib import Path

import pytest

import evalflow
from evalflow.app.core.saved import find_scored
from evalflow.summary.case_changes import CaseChanges, changed_cells
from evalflow.summary.pairing import pair_scores

pytestmark = pytest.mark.slow

METRICS = "metric=[exact_match,token_f1,rouge_l]"


@pytest.fixture(name="changes")
def _changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CaseChanges:
    """Three cases: all metrics rise; one metric drops while nothing flips; nothing but the answer changes."""
    monkeypatch.chdir(tmp_path)
    answers = {"up": ("no", "the fee is nine pounds"), "down": ("the fee is nine", "the fee"), "same": ("x", "y")}
    runs: list[evalflow.RunResult] = []
    for side in (0, 1):
        cases = [
            {"id": name, "question": "q", "answer": pair[side], "reference": "the fee is nine pounds"}
            for name, pair in answers.items()
        ]
        runs.append(evalflow.run(METRICS, "metric.token_f1.threshold=0.9", cases=cases))
    a, b = (find_scored(str(run.folder)) for run in runs)
    cells = changed_cells(
        pair_scores(a.scores(), b.scores(), b.traits), b.traits, [("cases", name, "q", True) for name in answers]
    )
    return CaseChanges((a.name, b.name), cells, b.scores())


def test_a_case_is_shown_by_its_worst_drop_else_its_largest_rise(changes: CaseChanges) -> None:
    page = changes.page("all")
    shown = {one.case_id: one for one in page}
    assert [one.case_id for one in page] == ["down", "same", "up"]
    up = shown["up"]
    assert up.change is not None
    assert up.change > 0
    assert {one.metric for one in (up, *up.others)} == {"exact_match", "token_f1", "rouge_l", "cases"}
    assert up.metric != "cases"
    down = shown["down"]
    assert down.change is not None
    assert down.change < 0
    assert not shown["same"].others


def test_flips_in_any_metric_and_of_whole_cases_are_flips(changes: CaseChanges) -> None:
    assert "up" in [one.case_id for one in changes.page("flipped")]
    flipped = next(one for one in changes.page("flipped") if one.case_id == "up")
    states = {one.metric: (one.passed_a, one.passed_b) for one in (flipped, *flipped.others)}
    assert states["exact_match"] == (False, True)
    assert states["cases"] == (False, True)
    assert changes.page("better")[0].case_id == "up"
