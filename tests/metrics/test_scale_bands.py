"""Score ranges of a rubric."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalflow.metrics.scale import Band, band_fault


def band(low, high, outcome="fair"):
    return Band.model_validate({"score_range": [low, high], "expected_outcome": outcome})


def test_ranges_with_gaps_and_single_grades_in_any_order_are_fine():
    assert band_fault([band(9, 10), band(1, 3), band(5, 5)], 1, 10) is None


def test_overlapping_ranges_are_both_named():
    fault = band_fault([band(4, 6, "good"), band(1, 4, "bad")], 1, 10)
    assert fault == "the score ranges 1..4 (bad) and 4..6 (good) overlap"


@pytest.mark.parametrize(("low", "high"), [(0, 3), (8, 11)])
def test_a_range_beyond_the_scale_is_named(low, high):
    assert band_fault([band(low, high)], 1, 10) == f"the score range {low}..{high} (fair) is not within the scale 1..10"


def test_a_range_begins_with_its_lowest_grade():
    with pytest.raises(ValidationError, match="the lowest grade must come first, but 5 is above 3"):
        band(5, 3)


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(1, 10)).map(sorted), max_size=4))
def test_ranges_overlap_exactly_where_a_grade_lies_in_two(ranges):
    bands = [band(low, high) for low, high in ranges]
    shared = any(sum(low <= grade <= high for low, high in ranges) > 1 for grade in range(1, 11))
    assert (band_fault(bands, 1, 10) is not None) == shared
