"""What stands beside a score is what its replies say, not what they might have said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from evalflow.addons.studio.web.ui.score import score_source, why
from evalflow.addons.studio.work.scores import Score

CHANCES = [{"score": {"7": 0.6, "8": 0.4}}]


def _score(path: str | None, *steps: Mapping[str, Any], **facts: str) -> Score:
    empty = {one.name: None for one in fields(Score)}
    return Score(**empty | {"path": path, "steps": steps} | facts)  # pyright: ignore


@pytest.mark.parametrize(
    ("status", "reason", "shown"),
    [
        (
            "skipped",
            "the case has no reference and no vars.col_1",
            "the case has no expected answer and no column col_1",
        ),
        ("skipped", "the case has no vars.Topic", "the case has no column Topic"),
        ("skipped", "the case has no metadata.category", "the case has no metadata.category"),
        ("scored", "the case has no contexts", "the case has no contexts"),
    ],
)
def test_a_skipped_score_names_the_fields_as_people_do_and_a_judge_is_quoted(
    status: str, reason: str, shown: str
) -> None:
    assert why(_score(None, status=status, reason=reason)) == shown


@pytest.mark.parametrize(
    ("path", "step", "said"),
    [
        ("weighted", {"id": "score", "probabilities": CHANCES, "mass": {"score": 0.95}}, "token probabilities"),
        ("weighted", {"id": "score", "probabilities": CHANCES, "samples": 10}, "the mean of 10 sampled replies"),
        ("weighted", {"id": "verdicts", "probabilities": CHANCES}, "probabilities of the judge"),
        ("weighted", {"id": "members", "probabilities": None}, "probabilities of the judge"),
        ("reasked", {"id": "score", "probabilities": None}, "a second request"),
        ("direct", {"id": "score", "probabilities": None}, ""),
    ],
)
def test_token_probabilities_are_named_only_where_the_score_was_made_of_them(
    path: str, step: Mapping[str, Any], said: str
) -> None:
    assert score_source(_score(path, step)) == said
