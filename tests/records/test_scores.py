"""Which side of a threshold a number is on, whatever holds the number."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sqlalchemy import create_engine, literal, select

from evalflow.records import passes

ROUNDED = 0.1 + 0.2
"""0.3 but for rounding, above it."""


def sql(value: float, threshold: float, *, higher_is_better: bool) -> Any:
    with create_engine("sqlite://").connect() as connection:
        return connection.scalar(select(passes(literal(value), threshold, higher_is_better=higher_is_better)))


@pytest.mark.parametrize(
    ("value", "threshold", "higher", "expected"),
    [
        (0.3, ROUNDED, True, True),
        (ROUNDED, 0.3, False, True),
        (0.3, 0.3, True, True),
        (0.3, 0.3, False, True),
        (0.3 - 1e-6, 0.3, True, False),
        (0.3 + 1e-6, 0.3, False, False),
    ],
)
def test_the_threshold_passes_also_where_it_is_missed_by_rounding(
    value: float, threshold: float, higher: bool, expected: bool
) -> None:
    assert passes(value, threshold, higher_is_better=higher) is expected
    assert passes(np.array([value]), threshold, higher_is_better=higher).tolist() == [expected]
    assert pl.select(passes(pl.lit(value), threshold, higher_is_better=higher)).item() is expected
    assert bool(sql(value, threshold, higher_is_better=higher)) is expected
