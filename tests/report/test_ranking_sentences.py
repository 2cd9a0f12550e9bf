"""What rankings say."""

from __future__ import annotations

from typing import Any

from evalflow.report.ranking_sentences import of_board, of_standing
from evalflow.summary.ranking import BoardPlace, Leaderboard


def board(*rows: tuple[str, float, Any]) -> Leaderboard:
    none = dict.fromkeys(("ci_low", "ci_high", "raw_value", "raw_low", "raw_high"))
    places = [BoardPlace(run, "t", value, **none, n=9, n_scored=9, verdict=verdict) for run, value, verdict in rows]
    return Leaderboard("d", "tone", "j", "mean", (), 9, 0, 0, "", places)


def test_a_leaderboard_says_who_leads_only_if_somebody_is_worse() -> None:
    a, b, c = ("a", 0.9, "best"), ("b", 0.8, "worse"), ("c", 0.7, "worse")
    assert of_board(board(a, b, c)) == "a is better than all 2 others by tone on d: 0.90"
    assert of_board(board(a, b)) == "a is better than the other run by tone on d: 0.90"
    near = ("b", 0.8, "cannot_tell")
    assert of_board(board(a, near, c)) == "a is better than 1 of 2 others by tone on d: 0.90; 1 other may be as good"
    assert (
        of_board(board(("a", 0.9, "first"), near))
        == "No run is clearly the best by tone on d: a has 0.90, 1 other may be as good"
    )
    assert of_standing("cannot_tell", is_first=True).startswith("first, but another is better")
    beaten = board(("a", 0.9, "cannot_tell"), ("b", 0.8, "better"))
    assert of_board(beaten).startswith("No run is clearly the best by tone on d: ")
    assert of_board(board(("a", 0.9, "not_comparable"), ("b", 0.8, "not_comparable"))) == ""
