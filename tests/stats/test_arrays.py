"""Clusters as numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.stats.arrays import cluster_codes


@given(st.lists(st.integers(-40, 40) | st.integers(0, 2**63 - 1), max_size=30))
def test_integers_are_numbered_as_by_sorting_them(names: list[int]):
    given_names = np.array(names, dtype=np.int64)
    assert cluster_codes(given_names).tolist() == np.unique(given_names, return_inverse=True)[1].tolist()


@pytest.mark.parametrize("kind", [np.uint64, np.int32, np.float64, str])
def test_names_of_any_type(kind: type):
    assert cluster_codes(np.array([3, 1, 3, 2]).astype(kind)).tolist() == [2, 0, 2, 1]
