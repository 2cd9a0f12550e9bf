"""Our quantiles against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit  # pyright: ignore[reportMissingTypeStubs]

from evalflow.stats.quantiles import normal_quantile, student_quantile


@pytest.mark.parametrize("p", [0.5, 0.75, 0.9, 0.95, 0.975, 0.995, 0.9995])
def test_they_are_those_of_scipy(p: float) -> None:
    df = np.concatenate([np.arange(1, 400), [0.5, 1.5, 2.3, 7.77, 1e4, 1e6, 1e9]])
    np.testing.assert_allclose(student_quantile(df, p), stdtrit(df, p), rtol=1e-10, atol=1e-14)
    assert normal_quantile(p) == pytest.approx(float(ndtri(p)), rel=1e-14)


def test_without_degrees_of_freedom_there_is_none() -> None:
    assert np.isnan(student_quantile([0.0, -1.0, np.nan], 0.975)).all()


def test_the_shape_is_kept() -> None:
    assert student_quantile(3.0, 0.975).shape == ()
    assert student_quantile([[1.0, 2.0]], 0.975).shape == (1, 2)
