"""Answers are counted by what was sent for them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from evalflow.engine.bookkeeping import Tally, git_commit
from evalflow.records import Answer, Spend, Usage


def answer(**changes: Any) -> Answer:
    known: dict[str, Any] = {"dataset": "d", "index": 0, "case_id": "c", "target": "t", "latency_s": 0.1}
    return Answer(**{**known, **changes})


def test_an_answer_counts_its_requests_tokens_and_cost() -> None:
    tally = Tally()
    tally.count_answer(answer(requests=2, usage=Usage(10, 3), cost_usd=0.5))
    tally.count_answer(answer(requests=1, usage=Usage(1, 1), cost_usd=0.25))
    assert (tally.requests, tally.input_tokens, tally.output_tokens, tally.cost) == (3, 11, 4, 0.75)
    assert tally.answers == {"answered": 2}


def test_a_failure_before_anything_was_sent_costs_nothing() -> None:
    tally = Tally()
    tally.count_answer(answer(status="error", error_type="prompt", latency_s=None))
    assert (tally.requests, tally.cost, tally.answers) == (0, 0.0, {"error": 1})


def test_a_failure_that_was_paid_for_counts() -> None:
    tally = Tally()
    tally.count_answer(answer(status="error", requests=1, usage=Usage(10, 0), cost_usd=0.5))
    assert (tally.requests, tally.input_tokens, tally.cost) == (1, 10, 0.5)


def test_a_price_that_is_not_known_makes_the_cost_unknown() -> None:
    tally = Tally()
    tally.count_answer(answer(requests=1))
    assert tally.cost is None


def test_a_cached_answer_counts_no_request() -> None:
    tally = Tally()
    tally.count_answer(answer(cached=True, requests=0, usage=Usage(10, 3), cost_usd=0.5))
    assert (tally.requests, tally.cached, tally.input_tokens, tally.cost) == (0, 1, 0, 0.0)


@pytest.mark.parametrize(
    ("changes", "generated"),
    [
        ({}, True),
        ({"latency_s": None, "requests": 1}, True),
        ({"latency_s": None, "status": "error"}, True),
        ({"latency_s": None}, False),
        ({"latency_s": None, "status": "absent"}, False),
    ],
)
def test_generated_tells_a_targets_answer_from_a_recorded_one(changes: dict[str, Any], generated: bool) -> None:
    assert answer(**changes).generated is generated


def test_the_commit_says_whether_files_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert git_commit() is None
    git("init", "-q")
    assert git_commit() is None  # there is no commit yet
    Path("a").write_text("1")
    git("add", "a")
    git("-c", "user.name=n", "-c", "user.email=n@localhost", "commit", "-q", "-m", "x")
    head = git("rev-parse", "HEAD")
    assert git_commit() == head
    Path("other").write_text("1")
    assert git_commit() == head
    Path("a").write_text("2")
    assert git_commit() == f"{head}+"


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()


def test_what_providers_caches_saved_is_summed_as_far_as_it_is_known() -> None:
    tally = Tally()
    tally.count(Spend(requests=1, usage=Usage(100, 5)))
    assert (tally.provider_cached, tally.provider_saved_usd) == (None, None)
    told = Spend(requests=1, usage=Usage(100, 5, 80, 0.25))
    tally.count(told)
    tally.count(told)
    assert (tally.provider_cached, tally.provider_saved_usd) == (160, 0.5)
    tally.retract(told)
    assert (tally.provider_cached, tally.provider_saved_usd) == (80, 0.25)
