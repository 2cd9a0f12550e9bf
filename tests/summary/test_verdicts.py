"""No output says better, worse or passed if the finding does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.report.comparison_sentences import in_words, not_worse_in_words
from evalflow.stats.paired import Difference, paired_difference
from evalflow.summary.compare import ComparisonRow
from evalflow.summary.gates import Gate, evaluate_gates
from evalflow.summary.rows import summary_schema
from evalflow.summary.verdicts import (
    Condition,
    cases_to_decide,
    not_worse,
    of_difference,
    oriented,
    reversed_verdict,
    unseen_share,
)

NOT_WORSE = Gate("tone", "mean", Condition(">=", -0.02), baseline=True)
SHARE = st.floats(-1, 1).map(lambda x: round(x, 4))


@st.composite
def differences(draw: Any) -> Difference:
    """A difference with an interval around it, or none."""
    value = draw(SHARE)
    low, high = value - draw(st.floats(0, 0.5)), value + draw(st.floats(0, 0.5))
    ends = (low, high) if draw(st.booleans()) else (None, None)
    return Difference(100, 100, 0.5, 0.5 + value, value, 0.1, 99.0, *ends, draw(st.floats(0, 1)), "paired_t")


@given(differences(), st.none() | st.floats(0, 1), st.booleans(), st.booleans())
def test_only_what_excludes_zero_is_better_or_worse(
    found: Difference, p: float | None, higher: bool, of_answers: bool
) -> None:
    verdict = of_difference(found, p, higher_is_better=higher, of_answers=of_answers)
    if verdict != "cannot_tell":
        assert p is not None
        assert p < 0.05
        assert found.low is None or found.high is None or not found.low <= 0 <= found.high
        assert (verdict in ("better", "worse")) == of_answers
    low, high = (None if end is None else -end for end in (found.high, found.low))
    other = Difference(100, 100, difference=-(found.difference or 0.0), low=low, high=high)
    mirrored = of_difference(other, p, higher_is_better=higher, of_answers=of_answers)
    assert mirrored == reversed_verdict(verdict)


@given(st.lists(st.tuples(differences(), st.floats(0, 0.2)), min_size=1, max_size=4), st.booleans())
def test_a_sentence_goes_no_further_than_its_rows(found: list[tuple[Difference, float]], higher: bool) -> None:
    rows = [
        ComparisonRow(("a", "b"), "d", f"m{i}", None, None, "mean", higher, one, p_adjusted=p)
        for i, (one, p) in enumerate(found)
    ]
    verdicts = {row.verdict for row in rows}
    said = in_words(rows)
    for word in ("better", "worse"):
        assert (word in said) == (word in verdicts)
    assert [row.document()["verdict"] for row in rows] == [row.verdict for row in rows]


@given(differences(), st.floats(1e-6, 0.5), st.booleans())
def test_a_margin_is_kept_only_by_the_whole_interval(found: Difference, margin: float, higher: bool) -> None:
    answer = not_worse(found, margin, higher_is_better=higher)
    _, low, high = oriented(found, higher_is_better=higher)
    if answer is True:
        assert low is not None
        assert low >= -margin - 1e-9
    if answer is False:
        assert high is not None
        assert high < -margin
    if answer is not None:
        assert cases_to_decide(found, margin, higher_is_better=higher) is None


def test_a_margin_that_few_cases_pass_names_the_drops_that_they_may_miss() -> None:
    def found(n: int, rise: float, *, bounded: bool = True) -> Difference:
        rises = rise + np.resize([-0.02, 0.0, 0.02], n)
        return paired_difference(np.full(n, 0.5), 0.5 + rises, bounded=bounded)

    for higher in (True, False):
        sign = 1 if higher else -1
        few, many = found(21, sign * 0.03), found(99, sign * 0.03)
        assert not_worse(few, 0.02, higher_is_better=higher) is True
        assert unseen_share(few, 0.02, higher_is_better=higher) == pytest.approx(0.05 / 1.03)
        assert unseen_share(many, 0.02, higher_is_better=higher) is None
    assert unseen_share(found(21, 0.0), 0.02, higher_is_better=True) is None
    assert unseen_share(found(21, 0.03, bounded=False), 0.02, higher_is_better=True) is None
    row = ComparisonRow(("a", "b"), "desk", "tone", "j", None, "mean", True, found(21, 0.03))
    assert row.document(0.02)["unseen_share"] == pytest.approx(0.05 / 1.03)
    assert " ".join(not_worse_in_words(row, 0.02)) == (
        "not worse by more than 0.02; if 5 % of all cases went from best to worst, it would be worse by that much, and "
        "21 cases may show none of them"
    )
    [gate] = evaluate_gates([NOT_WORSE], pl.DataFrame(schema=summary_schema()), [row])
    assert gate.rows[0].unseen_share == pytest.approx(0.05 / 1.03)


def test_labels_decide_what_labels_correct() -> None:
    found = Difference(100, 100, 0.5, 0.51, 0.01, 0.02, 99.0, -0.03, 0.05, 0.6, "ppi_t")
    row = ComparisonRow(("a", "b"), "d", "m", None, None, "mean", True, found)
    assert row.cases_to_decide(0.02) is not None
    corrected = ComparisonRow(("a", "b"), "d", "m", None, None, "mean", True, found, judged=found, labelled=60)
    assert corrected.not_worse(0.02) is None
    assert corrected.cases_to_decide(0.02) is None  # more labels would, not more cases
    assert corrected.document(0.02)["n_labels"] == pytest.approx(60)
