"""What rankings say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evalflow.report.ranking_sentences import labels_of_ranking, of_board, of_ranking, of_standing
from evalflow.summary.changed import Attribution
from evalflow.summary.ranking import BoardPlace, Leaderboard, RankedRun, Ranking


def board(*rows: tuple[str, float, Any]) -> Leaderboard:
    none = dict.fromkeys(("ci_low", "ci_high", "raw_value", "raw_low", "raw_high"))
    places = [BoardPlace(run, "t", value, **none, n=9, n_scored=9, verdict=verdict) for run, value, verdict in rows]
    return Leaderboard("d", "tone", "j", "mean", (), 9, 0, 0, "", places)


def test_a_leaderboard_says_who_leads_only_if_somebody_is_worse() -> None:
    a, b, c = ("a", 0.9, "best"), ("b", 0.8, "worse"), ("c", 0.7, "worse")
    assert of_board(board(a, b, c)) == "a is better than all 2 others by tone on d: 0.90, by the judge alone"
    assert of_board(board(a, b)) == "a is better than the other run by tone on d: 0.90, by the judge alone"
    near = ("b", 0.8, "cannot_tell")
    better = "a is better than 1 of 2 others by tone on d: 0.90, by the judge alone"
    assert of_board(board(a, near, c)) == f"{better}; 1 other may be as good"
    assert (
        of_board(board(("a", 0.9, "first"), near))
        == "No run is clearly the best by tone on d: a has 0.90, by the judge alone, 1 other may be as good"
    )
    assert of_standing("cannot_tell", is_first=True).startswith("first, but another is better")
    beaten = board(("a", 0.9, "cannot_tell"), ("b", 0.8, "better"))
    assert of_board(beaten).startswith("No run is clearly the best by tone on d: ")
    assert of_board(board(("a", 0.9, "not_comparable"), ("b", 0.8, "not_comparable"))) == ""


def test_a_leaderboard_says_whether_the_judge_alone_decides() -> None:
    rows = ("a", 0.9, "best"), ("b", 0.8, "worse")
    whole = replace(board(*rows), metric="cases", statistic="pass_rate", judge=None)
    assert of_board(whole) == "a is better than the other run by cases that pass everything on d: 0.90"
    passing = replace(board(*rows), also=["pass_rate"])
    assert of_board(whole, [whole, passing]).endswith(": 0.90, by the judge alone")
    assert of_board(whole, [whole, board(*rows)]).endswith(": 0.90")  # the judge gives no pass or fail
    assert of_board(whole, [whole, replace(passing, dataset="other")]).endswith(": 0.90")
    labelled = replace(board(*rows), judge=None, n_labels=9)
    assert of_board(whole, [whole, labelled]).endswith(": 0.90, by the metrics alone")
    first, other = board(*rows).leaderboard
    corrected = replace(board(*rows), leaderboard=[replace(first, raw_value=0.95), other])
    assert of_board(corrected).endswith(": 0.90")


@pytest.mark.parametrize(
    ("attribution", "higher", "said"),
    [
        ("answers", True, ["a is the best."]),
        ("answers", False, ["a is the best."]),
        ("judge", True, ["a is the highest.", "This is about how the same answers were judged, not about the bots."]),
        ("data", False, ["a is the lowest.", "This is about the test cases, not about the bots."]),
        ("unclear", True, ["a is the highest.", "This cannot be attributed to the answers alone."]),
    ],
)
def test_no_run_is_the_best_if_more_than_the_answers_may_explain_it(
    attribution: Attribution, higher: bool, said: list[str]
) -> None:
    rows = [RankedRun(run, 0.5, 0.4, 0.6, rank, rank, rank, 0) for rank, run in enumerate("ab", start=1)]
    ranking = Ranking("d", "tone", "j", "mean", higher, 9, 9, "max_t", rows, attribution=attribution)
    assert [*of_ranking(ranking)] == said
    unclear = [replace(row, rank_low=1, rank_high=2) for row in rows]
    assert [*of_ranking(replace(ranking, rows=unclear))] == [
        "No run can be told from another: each may have any rank from 1 to 2."
    ]


def test_whole_cases_are_not_by_one_judge_or_metric() -> None:
    assert labels_of_ranking("cases", 9, "why", None) == "labels of 9 cases correct nothing (why)"
    assert labels_of_ranking("tone", 9, "why", "j") == "by the judge alone: labels of 9 cases correct nothing (why)"
    assert labels_of_ranking("tone", 0, "why", "j") == "by the judge alone: labels correct nothing (why)"
    assert labels_of_ranking("tone", 9, "", "j") == "corrected by labels of 9 cases of each run"
