"""The cases that changed between two runs, from tables of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.records import CASES
from evalflow.summary.case_changes import CaseChanges, changed_cells
from evalflow.summary.pairing import Traits, pair_scores

pytestmark = pytest.mark.slow

Cell = tuple[str, str, float | None, bool | None]
"""Case, metric, score, passed."""
SCHEMA = {"case_id": pl.String, "metric": pl.String, "score": pl.Float64, "passed": pl.Boolean}
A: list[Cell] = [
    ("same", "good", 0.5, True),
    ("same", "slow", 9.0, None),
    ("flips", "good", 0.6, True),
    ("flips", "slow", 100.0, None),
    ("lost", "good", 0.6, True),
    ("lost", "slow", 4.0, None),
    ("rises", "good", 0.2, False),
    ("rises", "slow", 4.0, None),
    ("said", "good", 0.9, True),
    ("said", "slow", 4.0, None),
    ("alone", "good", 0.9, True),
]
B: list[Cell] = [
    ("same", "good", 0.5, True),
    ("same", "slow", 9.0, None),
    ("flips", "good", 0.1, False),
    ("flips", "slow", 120.0, None),
    ("lost", "good", None, None),
    ("lost", "slow", 4.0, None),
    ("rises", "good", 0.4, False),
    ("rises", "slow", 3.0, None),
    ("said", "good", 0.9, True),
    ("said", "slow", 4.0, None),
]


TRAITS = {"good": Traits(bounded=True), "slow": Traits(higher_is_better=False)}


def scored(cells: Sequence[Cell]) -> pl.LazyFrame:
    return pl.LazyFrame(cells, schema=SCHEMA, orient="row").with_columns(
        dataset=pl.lit("d"),
        judge=pl.lit(None, pl.String),
        group=pl.lit(None, pl.String),
        member_of=pl.lit(None, pl.String),
        tags=pl.lit([], pl.List(pl.String)),
        repeat=pl.lit(0),
        threshold=pl.when(pl.col("metric") == "good").then(0.5),
        reason="case_id",
    )


def changes(other_answers: Sequence[str] = ("said", "flips")) -> CaseChanges:
    cases = [("d", case, f"About {case}?", case in other_answers) for case in dict.fromkeys(cell[0] for cell in B)]
    return CaseChanges(("a", "b"), changed_cells(pair_scores(scored(A), scored(B), TRAITS), TRAITS, cases), scored(B))


def test_each_case_counts_once_in_every_way_that_it_changed() -> None:
    found = changes()
    assert found.common == 5
    assert found.counts == {"all": 4, "flipped": 1, "worse": 1, "better": 1, "lost": 1, "answer": 2}


def test_the_worst_comes_first_by_the_metric_that_changed_most() -> None:
    found = changes()
    assert [one.case_id for one in found.page("all")] == ["flips", "lost", "said", "rises"]
    [worse] = found.page("worse")
    assert (worse.metric, worse.change) == ("slow", -20.0)  # lower is better: 20 more are worse
    assert [one.metric for one in worse.others] == ["good"]
    assert (worse.question, worse.is_answered_otherwise) == ("About flips?", True)
    [flipped] = found.page("flipped")
    assert (flipped.metric, flipped.passed_a, flipped.passed_b) == ("good", True, False)
    [better] = found.page("better")
    assert (better.case_id, better.metric, [one.metric for one in better.others]) == ("rises", "good", ["slow"])


def test_a_score_that_one_run_alone_has_is_no_change_to_or_from_0() -> None:
    [lost] = changes().page("lost")
    assert (lost.case_id, lost.score_a, lost.score_b, lost.change) == ("lost", 0.6, None, None)


def test_another_answer_with_the_same_scores_is_told() -> None:
    found = changes().page("answer")
    assert [one.case_id for one in found] == ["flips", "said"]
    assert found[1].change == 0


def test_pages_follow_each_other() -> None:
    found = changes()
    whole = found.page("all")
    assert [*found.page("all", 0, 3), *found.page("all", 3, 3)] == list(whole)
    assert not found.page("all", 4)
    assert found.page("lost", 0, 1) == found.page("lost")


def test_documents_list_flips_and_other_scores_of_metrics_without_pass_or_fail() -> None:
    found = changes()
    assert [(one.case_id, one.metric, one.reason) for one in found.cases] == [
        ("flips", "slow", "flips"),
        ("rises", "slow", "rises"),
    ]
    assert (found.worsened, found.improved, found.rescored, found.listed) == (1, 0, 1, 2)
    documents: list[Any] = [one.document() for one in found.cases]
    [document, _] = documents
    assert [one["metric"] for one in document["others"]] == ["good"]


def test_labels_of_both_answers_count_and_the_judge_is_told_beside_them() -> None:
    known = {"dataset": "d", "metric": "good", "human_undefined": False}
    a = pl.DataFrame(
        [
            known | {"case_id": "flips", "human": 0.2, "accepted": 0.0},
            known | {"case_id": "said", "human": 1.0, "accepted": 1.0},
        ]
    )
    b = pl.DataFrame([known | {"case_id": "flips", "human": 0.8, "accepted": 1.0}])
    pairing = pair_scores(scored(A), scored(B), TRAITS, (a, b))
    for by_labels in (True, False):
        cells = changed_cells(pairing, TRAITS, by_labels=by_labels).filter(metric="good")
        own = {row["case_id"]: row for row in cells.iter_rows(named=True)}
        flips, rises = own["flips"], own["rises"]
        if by_labels:
            assert (flips["score_a"], flips["score_b"], flips["passed_a"], flips["passed_b"]) == (0.2, 0.8, False, True)
            assert (flips["change"], flips["judged"]) == (pytest.approx(0.6), pytest.approx(-0.5))
        else:
            assert (flips["score_a"], flips["passed_a"], flips["judged"]) == (0.6, True, None)
        assert (rises["score_a"], rises["judged"]) == (0.2, None)  # nobody labelled it
        assert own["said"]["score_a"] == 0.9  # B's answer has no label


def test_an_answer_in_which_people_found_nothing_to_score_has_no_score() -> None:
    known = {"dataset": "d", "metric": "good", "case_id": "flips"}
    said = pl.DataFrame([known | {"human": 0.8, "accepted": 1.0, "human_undefined": False}])
    nothing = pl.DataFrame(
        [known | {"human": None, "accepted": None, "human_undefined": True}],
        schema_overrides={"human": pl.Float64, "accepted": pl.Float64},
    )

    def flips(a: pl.DataFrame, b: pl.DataFrame) -> dict[str, Any]:
        pairing = pair_scores(scored(A), scored(B), TRAITS, (a, b))
        cells = changed_cells(pairing, TRAITS)
        return cells.filter(metric="good", case_id="flips").row(0, named=True)

    lost = flips(said, nothing)
    assert (lost["score_a"], lost["score_b"], lost["passed_a"], lost["passed_b"]) == (0.8, None, True, None)
    assert (lost["lost"], lost["worse"], lost["flipped"]) == (True, False, False)
    none = flips(nothing, nothing)
    assert (none["score_a"], none["score_b"], none["all"]) == (None, None, False)


@given(st.lists(st.tuples(*[st.sampled_from([None, 0.0, 0.4, 0.5, 1.0])] * 6), min_size=1, max_size=12))
def test_every_listed_case_counts_once(scores: list[tuple[float | None, ...]]) -> None:
    """For any scores of three metrics in two runs, of which one has no pass or fail."""
    names = ("one", "other", "slow")

    def side(first: int) -> pl.LazyFrame:
        cells: list[Cell] = []
        for i, row in enumerate(scores):
            for name, score in zip(names, row[first : first + 3], strict=True):
                cells.append((f"c{i}", name, score, None if name == "slow" or score is None else score >= 0.5))
        return scored(cells).with_columns(
            threshold=pl.when(pl.col("metric") != "slow").then(0.5),
            target=pl.lit("t"),
            target_repeat=pl.lit(0),
            status=pl.when(pl.col("score").is_null()).then(pl.lit("error")).otherwise(pl.lit("scored")),
            finish_reason=pl.lit(None, pl.String),
        )

    found = CaseChanges(("a", "b"), changed_cells(pair_scores(side(0), side(3), {}), {}), side(3))
    listed = found.first(len(scores))
    assert found.worsened + found.improved + found.rescored == found.listed == len({one.case_id for one in listed})
    assert len(listed) == found.listed
    assert found.counts["flipped"] == found.worsened + found.improved
    fails = 0
    for one in listed:
        ends = [change for change in (one, *one.others) if change.change is not None]
        fails += any(change.passed_a and change.passed_b is False for change in ends)
        told = [one for one in ends if one.passed_a != one.passed_b or one.passed_a is None]
        drops = [change for other in told if other.metric != CASES and (change := other.change or 0) < 0]
        assert not drops or one.change == min(drops)
    assert fails == found.worsened
