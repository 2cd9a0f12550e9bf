"""How a judge keeps to itself and to the form."""

from __future__ import annotations

from itertools import combinations
from statistics import mean, variance
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.summary.details import consistency, replies


def test_nothing_was_judged_twice(table, record):
    assert consistency(table([record(0.5, 0), record(0.7, 1)])) is None


def test_by_hand(table, record):
    scores = [record(s, 0, repeat=i, value=s) for i, s in enumerate((1.0, 1.0, 0.0))]
    scores += [record(s, 1, repeat=i, value=s) for i, s in enumerate((0.5, 0.5, 0.5))]
    scores += [record(None, 1, repeat=3, status="error", error_type="timeout"), record(1.0, 2)]
    found = consistency(table(scores))
    assert found == {
        "answers": 2,
        "repeats": 3,
        "same": pytest.approx((1 / 3 + 1) / 2),
        "sd": pytest.approx((1 / 6) ** 0.5),
    }


@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=5), min_size=1, max_size=6))
def test_is_what_its_definition_says(answers):
    import polars as pl

    rows = [
        {"case_id": f"c{c}", "target": "t", "target_repeat": 0, "status": "scored", "value": str(s), "score": s}
        for c, own in enumerate(answers)
        for s in own
    ]
    found: Any = consistency(pl.LazyFrame(rows))
    assert found is not None
    assert found["same"] == pytest.approx(mean(mean(a == b for a, b in combinations(own, 2)) for own in answers))
    assert found["sd"] ** 2 == pytest.approx(mean(variance(own) for own in answers), abs=1e-9)


def test_replies_that_could_not_be_read(table, record):
    scores = [
        record(1.0, 0),
        record(1.0, 1, path="reasked"),
        record(None, 2, status="error", error_type="schema"),
        record(1.0, 3, path="direct"),
        record(None, 4, status="error", error_type="rate_limit"),
        record(None, 5, status="undefined"),
    ]
    assert replies(table(scores)) == {"judged": 4, "unparsable": 0.25, "reasked": 0.25}
    assert replies(table([record(None, status="skipped")])) == {"judged": 0, "unparsable": None, "reasked": None}
