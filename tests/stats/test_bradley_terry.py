"""Strengths against published numbers and a maximum found by scipy, and comparisons that determine none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from evalflow.stats.bradley_terry import NoStrengthsError, strengths

WINS = ((0, 14, 18), (6, 0, 13), (2, 7, 0))


def compared(table: Any) -> tuple[list[int], list[int], list[float]]:
    """Each win of the table as a comparison; the winner stands first in every other one."""
    found = [(i, j) for i, row in enumerate(table) for j, wins in enumerate(row) for _ in range(wins)]
    turned = [(i, j, 1.0) if place % 2 else (j, i, 0.0) for place, (i, j) in enumerate(found)]
    first, second, points = zip(*turned, strict=True)
    return list(first), list(second), list(points)


def test_without_ties_it_is_the_model_of_bradley_and_terry():
    """Strengths that choix 0.4.1 gives for this table."""
    found = strengths(*compared(WINS), "abc")
    assert found.values == pytest.approx([0.955536, -0.081657, -0.873878], abs=1e-6)
    assert found.tie is None
    assert found.clusters == 60


def drawn(n: int = 600, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, n)
    second = (first + rng.integers(1, 4, n)) % 4
    win, tie, _ = np.exp(log_chances(np.array([0.5, 0.2, -0.1, -0.6, -0.3]), first, second))
    place = rng.random(n)
    return first, second, np.where(place < win, 1.0, np.where(place < win + tie, 0.5, 0.0))


def log_chances(fit: Any, first: Any, second: Any) -> Any:
    half = (fit[first] - fit[second]) / 2
    terms = np.stack([half, np.full(half.shape, fit[-1]), -half])
    return terms - np.logaddexp.reduce(terms, axis=0)


def test_ties_are_those_of_davidson():
    first, second, points = drawn()

    def loss(free: Any) -> float:
        win, tie, lost = log_chances(np.array([*(free[:4] - free[:4].mean()), free[4]]), first, second)
        return -float(np.select([points == 1, points == 0.5], [win, tie], lost).sum())

    best: Any = minimize(loss, np.zeros(5), tol=1e-10).x
    found = strengths(first, second, points, "abcd")
    assert found.values == pytest.approx(best[:4] - best[:4].mean(), abs=1e-5)
    assert found.tie == pytest.approx(best[4], abs=1e-5)


def test_the_covariance_is_the_sandwich_of_numerical_derivatives():
    first, second, points = drawn(200)
    clusters = np.arange(200) // 4
    found = strengths(first, second, points, "abcd", clusters)
    at = np.array([*found.values, found.tie], dtype=np.float64)
    kind = np.select([points == 1, points == 0.5], [0, 1], 2)

    def each(fit: Any) -> Any:
        return log_chances(fit, first, second)[kind, np.arange(200)]

    step = 1e-5
    slopes = np.stack([(each(at + step * e) - each(at - step * e)) / 2 / step for e in np.eye(5)])
    signs = [(s, t) for s in (1, -1) for t in (1, -1)]
    curves = np.array(
        [
            [sum(s * t * each(at + 1e-3 * (s * e + t * f)).sum() for s, t in signs) / 4e-6 for f in np.eye(5)]
            for e in np.eye(5)
        ]
    )
    sums = np.stack([np.bincount(clusters, row) for row in slopes])
    bread = np.linalg.pinv(-curves, rcond=1e-6)
    expected = (bread @ sums @ sums.T @ bread * 50 / 46)[:4, :4]
    assert found.covariance == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_the_same_answers_copied_into_their_clusters_say_no_more():
    first, second, points = drawn(100)
    once = strengths(first, second, points, "abcd")
    i, j, u = (np.repeat(x, 3) for x in (first, second, points))
    thrice = strengths(i, j, u, "abcd", np.repeat(np.arange(100), 3))
    assert thrice.values == pytest.approx(once.values)
    assert thrice.covariance == pytest.approx(once.covariance)
    assert (thrice.clusters, thrice.df) == (100, 96)


@pytest.mark.parametrize(
    ("first", "second", "points", "clusters", "why"),
    [
        ([0, 2, 2], [1, 3, 3], [1, 0, 1], None, "no chain of comparisons connects a with c, d"),
        ([0, 1, 2, 3], [1, 2, 3, 0], [0.5] * 4, None, "all comparisons are ties"),
        ([0, 1, 2, 3], [1, 2, 3, 1], [1, 0.5, 0.5, 0], None, "a, c never lost; c, d never won"),
        (
            [0, 0, 1, 1, 2, 2, 3, 3, 0],
            [1, 1, 0, 0, 3, 3, 2, 2, 2],
            [1, 0, 1, 0, 1, 0, 1, 0, 1],
            None,
            "some systems won every decided comparison",
        ),
        ([0, 1, 2, 3], [1, 2, 3, 0], [1, 1, 1, 1], [1, 2, 3, 1], "too few cases or groups .3. for the strengths of 4"),
        ([], [], [], None, "no chain of comparisons"),
    ],
)
def test_what_determines_no_strengths(first: Any, second: Any, points: Any, clusters: Any, why: str):
    with pytest.raises(NoStrengthsError, match=why):
        strengths(first, second, points, "abcd", clusters)
