"""What several judges say of one answer together: votes, quorums, ties and verdicts that were escalated."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.config.judges import EmbeddedJudgeConfig, PanelConfig
from evalflow.metrics.combine import settle, vote
from evalflow.records import Direction, Outcome, Usage

ABSENT = Outcome(status="skipped", reason="no reference")
EMPTY = Outcome(status="undefined", reason="no claims")
FAILED = Outcome(status="error", error_type="schema", error="no valid reply", latency_s=1.0, usage=Usage(5, 1))


def scored(score: float, value: Any = None, reason: str | None = None, **took: Any) -> Outcome:
    return Outcome(status="scored", score=score, value=value, reason=reason, **took)


def panel(*outcomes: Outcome, direction: Direction = "higher_is_better", **keys: Any) -> Outcome:
    parts = {f"m{place}": outcome for place, outcome in enumerate(outcomes)}
    members = {name: EmbeddedJudgeConfig(kind="embedded") for name in parts}
    config = PanelConfig.model_validate({"kind": "panel", "members": members, **keys})
    weights = [(config.weights or {}).get(name, 1.0) for name in parts]
    return vote(parts, weights, config, direction)


@pytest.mark.parametrize(
    ("how", "scores", "score"),
    [
        ({}, [0.3, 0.2, 0.7, 1.0], 0.55),
        ({"vote": "median"}, [0.3, 0.2, 0.7, 1.0], 0.5),
        ({"vote": "weighted", "weights": {"m0": 3, "m1": 1, "m2": 1}}, [0.3, 0.6, 0.5], 0.4),
        ({"vote": "majority"}, [0.3, 1.0, 0.3, 0.6], 0.3),
    ],
)
def test_a_vote_over_scores(how, scores, score):
    assert panel(*map(scored, scores), **how).score == pytest.approx(score)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.sampled_from(["mean", "median", "majority"]))
def test_a_vote_lies_between_the_members_scores(scores, how):
    together = panel(*map(scored, scores), vote=how)
    assert min(scores) - 1e-9 <= together.score <= max(scores) + 1e-9
    if how == "mean":
        assert together.score == pytest.approx(fmean(scores))
    if how == "majority":
        assert together.score in scores


def test_weights_count_only_among_those_who_scored():
    weights = {"m0": 0.5, "m1": 0.3, "m2": 0.2}
    together = panel(scored(1.0), scored(0.0), FAILED, vote="weighted", weights=weights, quorum=2)
    assert together.score == pytest.approx(0.5 / 0.8)


def test_a_majority_keeps_the_value_of_the_winners():
    together = panel(scored(1.0, "good"), scored(0.0, "bad"), scored(1.0, "good"), vote="majority")
    assert (together.score, together.value) == (1.0, "good")
    assert "tie" not in (together.reason or "")


@pytest.mark.parametrize(("direction", "score"), [("higher_is_better", 0.0), ("lower_is_better", 1.0)])
def test_a_tie_falls_to_the_worse_score_and_is_told(direction, score):
    together = panel(scored(1.0, "yes"), scored(0.0, "no"), vote="majority", direction=direction)
    assert together.score == score
    assert "a tie of 2 scores; the worse one counts" in (together.reason or "")


def test_grades_are_averaged_on_their_own_scale_and_labels_are_not():
    assert panel(scored(0.75, 4), scored(0.25, 2)).value == 3
    assert panel(scored(0.5, "so so"), scored(1.0, "good")).value is None
    assert panel(scored(1.0, True), scored(0.0, False)).value is None


def test_without_a_quorum_there_is_no_score():
    together = panel(scored(1.0), FAILED)
    assert (together.status, together.score, together.error_type) == ("error", None, "schema")
    assert together.error == "1 of 2 judges scored; the quorum is 2; m1 error (no valid reply)"
    assert panel(scored(1.0), FAILED, quorum=1).score == 1.0
    assert "m1 error (no valid reply)" in (panel(scored(1.0), FAILED, quorum=1).reason or "")


def test_what_is_undefined_or_skipped_is_neither_an_error_nor_a_zero():
    assert panel(ABSENT, ABSENT).status == "skipped"
    assert panel(ABSENT, ABSENT).reason == "no reference"
    together = panel(scored(1.0), EMPTY)
    assert (together.status, together.score) == ("undefined", None)
    assert panel(EMPTY, FAILED).status == "error"
    assert panel(EMPTY, EMPTY).status == "undefined"


def test_what_the_members_took_is_added_up():
    one = scored(0.5, usage=Usage(10, 2), cost_usd=0.25, latency_s=2.0)
    two = scored(0.5, usage=Usage(20, 3), cost_usd=0.5, latency_s=3.0, cached=True)
    together = panel(one, two)
    assert (together.usage, together.cost_usd) == (Usage(30, 5), 0.75)
    assert (together.latency_s, together.cached) == (3.0, False)
    assert panel(one, scored(0.5, latency_s=1.0)).cost_usd is None
    assert together.parts == (one, two)


def test_how_far_the_members_are_apart_is_kept():
    steps = panel(scored(0.75, 4, "fair"), scored(0.25, 2, "poor")).steps
    assert steps[0]["reply"] == {"vote": "mean", "range": 0.5}
    assert steps[1]["items"] == ["m0", "m1"]
    replies: Any = steps[1]["reply"]
    assert [one["reason"] for one in replies] == ["fair", "poor"]


def test_the_last_member_that_was_asked_decides_a_cascade():
    cheap, dear = scored(1.0, reason="looks fine", latency_s=1.0), scored(0.0, "no", "it is wrong", latency_s=4.0)
    together = settle({"cheap": cheap, "dear": dear}, {"cheap": 0.61})
    assert (together.score, together.value, together.latency_s) == (0.0, "no", 5.0)
    assert together.reason == "cheap was not confident enough (p 0.61); dear decides: it is wrong"
    assert together.steps[0]["reply"] == {"decided": "dear", "escalated": True}
    alone = settle({"cheap": cheap}, {"cheap": 0.97})
    assert (alone.score, alone.reason) == (1.0, "cheap decides, confident enough (p 0.97): looks fine")


def test_a_last_member_that_fails_is_an_error_whatever_the_one_before_said():
    together = settle({"cheap": scored(1.0), "dear": FAILED}, {"cheap": None})
    assert (together.status, together.score, together.error) == ("error", None, "no valid reply")
    assert together.reason == "cheap was not confident enough (no probability); dear decides"
