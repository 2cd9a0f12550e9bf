"""Pairing of expected and actual calls, against the optimum that scipy finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from evalflow.metrics.call_matching import matched

SOME = arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.booleans())


@given(SOME)
def test_as_many_pairs_as_possible_and_those_the_closest(fits: NDArray[np.bool_]) -> None:
    pairs = matched(fits)
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    assert len(set(rows)) == len(set(columns)) == len(pairs)
    assert all(fits[pair] for pair in pairs)

    distance = np.abs(np.subtract.outer(np.arange(fits.shape[0]), np.arange(fits.shape[1])))
    best = [
        (int(i), int(j))
        for i, j in zip(*linear_sum_assignment(np.where(fits, 1000.0 - distance, 0), maximize=True), strict=True)
        if fits[i, j]
    ]
    assert len(pairs) == len(best)
    assert sum(distance[pair] for pair in pairs) == sum(distance[pair] for pair in best)


def test_many_calls_that_all_fit_are_paired_in_their_order() -> None:
    assert matched(np.ones((300, 301), dtype=bool)) == [(number, number) for number in range(300)]
