"""Brier score and calibration error, worked out by hand and by simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalflow.stats.agreement import auroc
from evalflow.stats.figures import reliability_figures

pytestmark = pytest.mark.slow


def frame(said: Sequence[tuple[float | None, bool]], per_cluster: int = 1) -> pl.DataFrame:
    return pl.DataFrame(
        [(i // per_cluster, confidence, right, 1, 1) for i, (confidence, right) in enumerate(said)],
        schema={
            "cluster": pl.Int64,
            "confidence": pl.Float64,
            "correct": pl.Boolean,
            "n": pl.Int64,
            "clusters": pl.Int64,
        },
        orient="row",
    )


def test_a_small_case_by_hand():
    brier, ece = reliability_figures(frame([(0.95, True), (0.95, False), (0.6, True), (1.0, True), (None, False)]))
    assert brier.value == pytest.approx((0.05**2 + 0.95**2 + 0.4**2 + 0) / 4)
    # bin 0.9..1: three records, confidence 2.9, right 2; bin 0.6..0.7: one record
    assert ece.value == pytest.approx((abs(2.9 - 2) + abs(0.6 - 1)) / 4)
    assert (brier.n, ece.n) == (4, 4)
    bins = (ece.details or {})["bins"]
    assert [one["n"] for one in bins] == [0, 0, 0, 0, 0, 0, 1, 0, 0, 3]
    assert bins[9] == {
        "low": 0.9,
        "high": 1.0,
        "n": 3,
        "confidence": pytest.approx(2.9 / 3),
        "accuracy": pytest.approx(2 / 3),
    }
    assert bins[0]["accuracy"] is None


def test_agrees_with_scikit_learn():
    stated = [0.95, 0.9, 0.85, 0.8, 0.7, 0.65, 0.6, 0.4, 0.35, 0.2, 0.15, 0.05]
    right = [bool(int(digit)) for digit in "111011010000"]
    brier, ece = reliability_figures(frame(list(zip(stated, right, strict=True))), bins=5)
    assert brier.value == pytest.approx(0.1495833333, abs=1e-9)
    assert ece.value == pytest.approx(0.1583333333, abs=1e-9)
    assert [one["low"] for one in (ece.details or {})["bins"]] == [0, 0.2, 0.4, 0.6, 0.8]
    found = auroc(right, stated)
    assert (found.value, found.n) == (pytest.approx(0.8888888889, abs=1e-9), 12)


def test_separation_is_undefined_where_there_is_nothing_to_separate():
    assert auroc([1, 1], [0.5, 0.6]).method == "none: all labels pass"
    assert auroc([0, 0], [0.5, 0.6]).method == "none: all labels fail"
    assert auroc([], []).value is None
    perfect = auroc([1, 0, 1, 0], [0.9, 0.1, 0.8, 0.2])
    assert (perfect.value, perfect.low, perfect.method) == (1.0, None, "none: no fail is above a pass")
    assert auroc([1, 0, 1, 0], [0.5] * 4).value == 0.5


def test_the_interval_of_the_separation_holds_it():
    rng = np.random.default_rng(4)
    truth = 0.7602499  # that a draw of N(1, 1) is above one of N(0, 1)
    held = 0
    for _ in range(300):
        human = rng.random(80) < 0.4
        found = auroc(human, np.where(human, rng.normal(1, 1, 80), rng.normal(0, 1, 80)))
        held += (found.low or 0) < truth < (found.high or 0)
    assert held == pytest.approx(283, abs=14)


def test_no_confidence_at_all():
    brier, ece = reliability_figures(frame([(None, True)]))
    assert (brier.value, ece.value) == (None, None)
    assert ece.method == "none: no confidence is stated"


@pytest.mark.parametrize("per_cluster", [1, 5])
def test_overconfidence_is_found_with_an_interval_that_holds_it(per_cluster: int):
    rng = np.random.default_rng(3)
    confidence = rng.uniform(0.7, 1.0, 600)
    right = rng.uniform(size=600) < confidence - 0.2
    _, ece = reliability_figures(frame(list(zip(confidence.tolist(), right.tolist(), strict=True)), per_cluster))
    assert ece.value == pytest.approx(0.2, abs=0.06)
    assert ece.low is not None
    assert ece.high is not None
    assert 0.1 < ece.low < 0.2 < ece.high < 0.3
    assert ece.method == ("noise_bound" if per_cluster == 1 else "cluster_noise_bound")


def test_the_interval_of_calibrated_confidences_reaches_down_to_0():
    rng = np.random.default_rng(5)
    confidence = rng.uniform(0.5, 1.0, 400)
    right = rng.uniform(size=400) < confidence
    _, ece = reliability_figures(frame(list(zip(confidence.tolist(), right.tolist(), strict=True))))
    assert ece.low == 0
    assert (ece.value or 0) == pytest.approx((ece.details or {})["by_chance"], abs=0.02)


@pytest.mark.parametrize(("confidence", "off", "n"), [((0.5, 0.7, 0.9), 0.0, 100), ((0.8, 0.95, 1.0), 0.1, 300)])
def test_the_interval_holds_the_calibration_error(confidence: tuple[float, ...], off: float, n: int):
    rng = np.random.default_rng(6)
    missed = 0
    for _ in range(200):
        stated = rng.choice(confidence, n)
        right = rng.uniform(size=n) < stated - off
        _, ece = reliability_figures(frame(list(zip(stated.tolist(), right.tolist(), strict=True))))
        missed += not (ece.low or 0) <= off <= (ece.high or 0)
    assert missed <= 16  # 5 % and two standard errors


def test_few_records_that_all_agree_still_vary():
    _, ece = reliability_figures(frame([(1.0, True)] * 12))
    assert (ece.value, ece.low) == (0.0, 0.0)
    assert 0.05 < (ece.high or 0) < 0.3
    assert reliability_figures(frame([(0.9, True)]))[1].method == "none: one case"
    assert reliability_figures(frame([(0.9, True)] * 3, per_cluster=3))[1].method == "none: one cluster"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=40), st.sampled_from([1, 2]))
def test_the_interval_contains_the_error(said: list[tuple[float, bool]], per_cluster: int):
    _, ece = reliability_figures(frame(said, per_cluster))
    if len(said) > per_cluster:
        assert 0 <= (ece.low or 0) <= (ece.value or 0) <= (ece.high or 0) <= 1
