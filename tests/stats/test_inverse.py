"""Our tails and quantiles against scipy's, over wide ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from evalflow.stats.inverse import beta_quantile, chi_square_quantile
from evalflow.stats.labelled import exact_mann_whitney
from evalflow.stats.quantiles import student_tail

powers = st.floats(-0.3, 5)
chances = st.floats(1e-6, 1 - 1e-6)


@given(st.floats(-0.5, 6), st.floats(-3, 1.5), st.booleans())
def test_a_tail_of_t(df: float, t: float, is_low: bool) -> None:
    df, t = 10**df, (-1) ** is_low * 10**t
    assert float(student_tail(df, t)) == pytest.approx(float(special.stdtr(df, t)), rel=1e-12, abs=1e-290)


def test_a_tail_of_t_at_the_ends() -> None:
    found = student_tail([3.0, 3.0, 0.0, 3.0, 3.0], [-np.inf, np.inf, 1.0, np.nan, 0.0])
    np.testing.assert_array_equal(found, [0, 1, np.nan, np.nan, 0.5])


@given(powers, powers, chances)
def test_a_quantile_of_beta(a: float, b: float, p: float) -> None:
    a, b = 10**a, 10**b
    assert beta_quantile(a, b, p) == pytest.approx(float(special.betaincinv(a, b, p)), rel=1e-12)


def test_the_quantiles_of_beta_at_the_ends() -> None:
    assert (beta_quantile(2, 3, 0), beta_quantile(2, 3, 1)) == (0, 1)


@given(powers, chances)
def test_a_quantile_of_chi_square(df: float, p: float) -> None:
    df = 10**df
    known = special.gammaincinv(df / 2, p) if p <= 0.5 else special.gammainccinv(df / 2, 1 - p)
    assert chi_square_quantile(df, p) == pytest.approx(2 * float(known), rel=1e-12)


@given(st.integers(1, 8), st.integers(1, 40), st.data())
def test_the_exact_p_value_of_mann_whitney(few: int, many: int, data: st.DataObject) -> None:
    ranks = data.draw(st.permutations(range(few + many)))
    a, b = ranks[:few], ranks[few:]
    known = stats.mannwhitneyu(a, b, method="exact")
    assert exact_mann_whitney(round(known.statistic), few, many) == pytest.approx(known.pvalue, rel=1e-12)
