"""How far scores are from people's, from scores that a judge could have given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from evalflow.summary.proof import FixtureAgreement, FixtureScore, agreement_of

Given = tuple[float | None, float | str]
"""People's score of a case, and the judge's, or the state without a score."""


def compared(cases: Sequence[Given | tuple[float | None, list[Any]]], **options: Any) -> FixtureAgreement:
    """The agreement on these cases, tagged `even` and `odd` by turns; a list has the scores of several repeats."""
    rows = [
        {
            "case_id": f"c{at}",
            "tags": [["even", "odd"][at % 2]],
            "group": None,
            "reason": f"r{at}",
            "status": said if isinstance(said, str) else "scored",
            "score": None if isinstance(said, str) else said,
            "threshold": options.get("threshold"),
        }
        for at, (_, judge) in enumerate(cases)
        for said in (judge if isinstance(judge, list) else [judge])
    ]
    frame = pl.DataFrame(rows, schema_overrides={"score": pl.Float64, "threshold": pl.Float64, "group": pl.String})
    people = {f"c{at}": FixtureScore(score, f"w{at}") for at, (score, _) in enumerate(cases)}
    higher = options.get("higher_is_better", True)
    return agreement_of(frame, people, higher_is_better=higher, by=0.1, bounded=True)


def test_scores_agree_if_they_are_close() -> None:
    found = compared([(1.0, 1.0), (0.5, 0.55), (0.5, 0.6), (0.0, 0.9)])
    assert (found.same.n, found.same.value, found.verdict, found.unscored) == (4, 0.5, None, 0)
    assert found.distance.value == pytest.approx((0.05 + 0.1 + 0.9) / 4)
    assert found.same.low is not None
    assert 0 < found.same.low < 0.5
    assert {name: (rate.n, rate.value) for name, rate in found.tags.items()} == {"even": (2, 0.5), "odd": (2, 0.5)}
    assert [(one.case_id, one.person, one.judge, one.why, one.reason) for one in found.furthest] == [
        ("c3", 0.0, 0.9, "w3", "r3"),
        ("c2", 0.5, 0.6, "w2", "r2"),
    ]


def test_nothing_to_score_agrees_with_nothing_to_score_alone() -> None:
    found = compared([(None, "undefined"), (None, 1.0), (1.0, "undefined"), (1.0, 0.5)])
    assert (found.same.n, found.same.value) == (4, 0.25)
    assert (found.distance.n, found.distance.value) == (1, 0.5)
    assert [(one.case_id, one.person, one.judge) for one in found.furthest] == [
        ("c1", None, 1.0),
        ("c2", 1.0, None),
        ("c3", 1.0, 0.5),
    ]


@pytest.mark.parametrize("state", ["error", "skipped"])
def test_what_was_not_scored_is_counted_and_left_out(state: str) -> None:
    found = compared([(1.0, 1.0), (1.0, state), (None, state)])
    assert (found.same.n, found.same.value, found.unscored) == (1, 1.0, 2)
    assert found.furthest == []
    none = compared([(1.0, state), (None, state)])
    assert (none.same.n, none.same.value, none.distance.n, none.unscored, none.tags) == (0, None, 0, 2, {})


def test_the_threshold_decides_as_it_does_for_people() -> None:
    found = compared([(0.8, 1.0), (0.5, 0.85), (0.2, 0.1), (None, "undefined")], threshold=0.8)
    assert found.verdict is not None
    assert (found.verdict.n, found.verdict.value) == (3, pytest.approx(2 / 3))
    lower = compared([(0.0, 0.0), (0.5, 0.0)], threshold=0.0, higher_is_better=False)
    assert lower.verdict is not None
    assert lower.verdict.value == 0.5


def test_repeats_count_by_their_mean() -> None:
    found = compared([(0.5, [0.0, 1.0]), (None, ["undefined", "undefined", 1.0]), (1.0, [1.0, "error"])])
    assert (found.same.n, found.same.value, found.unscored) == (2, 1.0, 1)
