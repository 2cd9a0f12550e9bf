"""How often each test of a comparison finds a difference that does not exist, against its level of 5 %.

    python -m bench type1 [--runs 1000]

Every cell is simulated under a hypothesis of no difference: the same case is scored in two runs, with the case's own
difficulty in both, and with judge noise that the cases of a cluster share. The column `compare` is the p-value that
`evalflow compare` reports; the others are what it is made of, and McNemar's mid-p, which it does not use. A cell is
marked where its rate is above 5.5 % by more than the simulation's own error; what cannot hold is listed at the end.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import _samples
import numpy as np
from _draws import binary_in_groups, piled, ties
from numpy.typing import NDArray

from evalflow.stats.classification import of_class
from evalflow.stats.figures import BINS, bin_of, calibration_error
from evalflow.stats.paired import (
    adjust,
    cluster_sums,
    mcnemar,
    paired_difference,
    paired_table,
    sign_flip_test,
    standard_error,
    t_test,
)
from evalflow.stats.paired_figures import PairedClusters, figure_difference

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats, NDArray[np.int64] | None]]
LEVEL, GOAL = 0.05, 0.055
TESTS = ("t", "sign flip", "McNemar", "McNemar mid-p", "compare")
WIDTH = 14
_CELLS = [("true", "true"), ("true", "false"), ("false", "true"), ("false", "false")]


def binary(p: float) -> Draw:
    """Two runs that pass a case with a probability of its own, which is p on average."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, None]:
        chance = rng.beta(2 * p, 2 * (1 - p), n)
        a, b = (rng.random((2, n)) < chance).astype(float)
        return a, b, None

    return draw


def binary_clusters(p: float) -> Draw:
    """The same, and each run has a chance of its own with each cluster of five cases."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
        clusters = np.arange(n) // 5
        chance = rng.beta(2 * p, 2 * (1 - p), (2, clusters[-1] + 1))[:, clusters]
        a, b = (rng.random((2, n)) < chance).astype(float)
        return a, b, clusters

    return draw


def scores(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, None]:
    """Scores of 0..1 about a case's difficulty, with judge noise."""
    a, b = np.clip(rng.beta(4, 2, n) + rng.normal(0, 0.15, (2, n)), 0, 1)
    return a, b, None


def score_clusters(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """The same, and half of the judge's noise is shared by the five cases of a cluster."""
    clusters = np.arange(n) // 5
    shared = rng.normal(0, 0.1, (2, clusters[-1] + 1))[:, clusters]
    a, b = np.clip(rng.beta(4, 2, n) + shared + rng.normal(0, 0.1, (2, n)), 0, 1)
    return a, b, clusters


def uneven_clusters(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """The same, with clusters of very different sizes: half of all cases are in the first."""
    a, b, _ = score_clusters(rng, n)
    clusters = np.where(np.arange(n) < n // 2, 0, np.arange(n) // 5)
    noise = rng.normal(0, 0.1, (2, n))[:, clusters]
    return a + noise[0], b + noise[1], clusters


def piled_up(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, None]:
    """Grades of which most are exactly 1 in both runs, 0.945 on average; half of the others are bad in both."""
    shared, own = piled(rng, 0.945, 1, n)[0], piled(rng, 0.945, 2, n)
    a, b = np.where(rng.random((2, n)) < 0.5, shared, own)
    return a, b, None


def tied(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, None]:
    """Wins, losses and ties against the same opponent, 0.94 on average; half of them are alike in both runs."""
    shared, own = ties(rng, 0.94, 1, n)[0], ties(rng, 0.94, 2, n)
    a, b = np.where(rng.random((2, n)) < 0.5, shared, own)
    return a, b, None


def unequal_clusters(p: float) -> Draw:
    """Passes and failures in groups whose sizes are as 1, 1/2, 1/3 ..., ten on average; a chance for group and run."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
        sizes = 1 / np.arange(1, n // 10 + 1)
        clusters = np.repeat(np.arange(sizes.size), np.maximum(1, np.round(n * sizes / sizes.sum())).astype(int))
        a, b = binary_in_groups(rng, p, 2, clusters)
        return a, b, clusters

    return draw


def ece_alike(off: float, n: int, runs: int) -> tuple[float, float]:
    """Of two runs whose confidences are too high by `off`: how often their errors differ, how often 0 is covered."""
    rng = np.random.default_rng([n, round(100 * off)])
    found = covered = given = 0
    for _ in range(runs):
        stated = rng.choice([0.6, 0.7, 0.8, 0.9], (2, n))
        gaps = (rng.random((2, n)) < stated - off) - stated
        cells = np.zeros((2, n, BINS + 1))
        np.put_along_axis(cells, bin_of(stated)[..., None], gaps[..., None], axis=2)
        cells[..., BINS] = 1
        both = PairedClusters(cells[0], cells[1], np.ones(n, dtype=np.int64), n, int(rng.integers(2**31)))
        one = figure_difference(calibration_error, both)
        found += one.p_value is not None and one.p_value <= LEVEL
        if one.low is not None and one.high is not None:
            given += 1
            covered += one.low <= 0 <= one.high
    return found / runs, covered / max(1, given)


def skewed(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, None]:
    """One run scores 0.9 always, the other 1 in nine cases of ten and 0 in the tenth: alike on average alone."""
    return np.full(n, 0.9), (rng.random(n) < 0.9).astype(float), None


def rates(draw: Draw, n: int, runs: int) -> dict[str, float]:
    """The share of simulations in which each test rejects."""
    rng = np.random.default_rng([n, runs])
    hits: dict[str, int] = {}
    for _ in range(runs):
        a, b, clusters = draw(rng, n)
        for name, p in p_values(a, b, clusters, int(rng.integers(2**31))).items():
            hits[name] = hits.get(name, 0) + (p <= LEVEL)
    return {name: count / runs for name, count in hits.items()}


def mid_p(only_a: int, only_b: int) -> float:
    """McNemar's test with the observed outcome counted half (Fagerland, Lydersen & Laake 2013)."""
    from scipy.stats import binom  # pyright: ignore[reportMissingTypeStubs]

    untyped: Any = binom
    fewer, flips = min(only_a, only_b), only_a + only_b
    return min(1.0, 2 * float(untyped.cdf(fewer, flips, 0.5)) - float(untyped.pmf(fewer, flips, 0.5)))


def p_values(a: Floats, b: Floats, clusters: NDArray[np.int64] | None, seed: int) -> dict[str, float]:
    """The p-value of every test that may be used on such data."""
    d = b - a
    sums = cluster_sums(d, clusters)
    error, df = standard_error(d, clusters)
    found = {
        "t": t_test(float(d.mean()), error, df) if error else 1.0,
        "sign flip": sign_flip_test(sums, seed, draws=999),
    }
    found["compare"] = max(found.values())
    if clusters is None and np.isin(np.concatenate([a, b]), (0, 1)).all():
        table = paired_table(a, b)
        found |= {
            "McNemar": mcnemar(table.only_a, table.only_b),
            "McNemar mid-p": mid_p(table.only_a, table.only_b),
        }
        found["compare"] = found["McNemar"]
    return found


def families(n: int, size: int, runs: int) -> dict[str, float]:
    """The share of tables of `size` comparisons, all without a difference, in which any is found."""
    rng = np.random.default_rng([n, size])
    hits = {"none": 0, "holm": 0, "bh": 0}
    for _ in range(runs):
        difficulty = rng.beta(4, 2, n)
        noise = rng.normal(0, 0.1, (2, n))
        tests = [difficulty + noise + rng.normal(0, 0.1, (2, n)) for _ in range(size)]
        p = [paired_difference(a, b, bounded=True).p_value or 1.0 for a, b in tests]
        hits["none"] += min(p) <= LEVEL
        hits["holm"] += adjust(p, "holm").min() <= LEVEL
        hits["bh"] += adjust(p, "bh").min() <= LEVEL
    return {name: count / runs for name, count in hits.items()}


def f1_alike(p: float, n: int, group: int, runs: int) -> tuple[float, float]:
    """Of two classifiers that are right with a chance of p on average: how often F1 differs, how often 0 is covered.

    A third of the cases are positive. The cases of a group share a chance in each run.
    """
    f1 = of_class(_CELLS, "true")["f1"]
    rng = np.random.default_rng([n, group, round(100 * p)])
    found, covered, given = 0, 0, 0
    for _ in range(runs):
        size = n if group == 1 else (2, n // group)
        chance = rng.beta(2 * p, 2 * (1 - p), size).repeat(group, axis=-1)
        right = rng.random((2, n)) < chance
        truth = rng.random(n) < 1 / 3
        cells = np.where(truth, np.where(right, 0, 1), np.where(right, 3, 2))
        counts = np.concatenate([np.eye(4)[side].reshape(-1, group, 4).sum(axis=1) for side in cells], axis=1)
        patterns, weights = np.unique(counts, axis=0, return_counts=True)
        one = figure_difference(
            f1, PairedClusters(patterns[:, :4], patterns[:, 4:], weights, n, int(rng.integers(2**31)))
        )
        found += one.p_value is not None and one.p_value <= LEVEL
        if one.low is not None and one.high is not None:
            given += 1
            covered += one.low <= 0 <= one.high
    return found / runs, covered / max(1, given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="simulations of a cell, a quarter of them for figures")
    runs = parser.parse_args().runs
    limit = GOAL + 2 * math.sqrt(GOAL * (1 - GOAL) / runs)
    cells: list[tuple[str, Draw]] = [(f"pass or fail, p = {p}", binary(p)) for p in (0.5, 0.9, 0.99)]
    cells += [(f"pass or fail, p = {p}, clusters", binary_clusters(p)) for p in (0.5, 0.9, 0.99)]
    cells += [("scores", scores), ("scores, clusters", score_clusters), ("scores, uneven clusters", uneven_clusters)]
    cells += [("scores, skewed differences", skewed), ("grades, most are 1", piled_up), ("wins, losses, ties", tied)]
    cells += [(f"pass or fail, p = {p}, unequal", unequal_clusters(p)) for p in (0.7, 0.95)]
    print(f"{runs} simulations a cell; * above {GOAL:.1%} by more than their error\n")
    print(f"{'':32}{'n':>6}" + "".join(f"{test:>{WIDTH}}" for test in TESTS))
    missed: list[str] = []
    for name, draw in cells:
        for n in (20, 60, 200, 500) if name.endswith("unequal") else (10, 30, 100, 1000):
            found = rates(draw, n, runs)
            marks = {test: f"{rate:.3f}{'*' if rate > limit else ' '}" for test, rate in found.items()}
            missed += [f"{test}: {name}, n = {n}: {found[test]:.3f}" for test in found if found[test] > limit]
            print(f"{name:32}{n:6}" + "".join(f"{marks.get(test, '– '):>{WIDTH}}" for test in TESTS), flush=True)
    print("\nF1 of two classifiers that are alike: how often it is found to differ, and how often its interval holds 0")
    for p, group in ((0.5, 1), (0.9, 1), (0.5, 5), (0.9, 5)):
        for n in (30, 100, 1000):
            rate, covered = f1_alike(p, n, group, max(200, runs // 4))
            name = f"right {p:.0%}" + (", clusters of five" if group > 1 else "")
            print(f"  {name:28}{n:6} {rate:.3f}{'*' if rate > limit else ' '} covered {covered:.3f}", flush=True)
    print("\ncalibration errors of two runs that are alike")
    for off in (0.0, 0.1):
        for n in (30, 100, 1000):
            rate, covered = ece_alike(off, n, max(200, runs // 4))
            print(
                f"  too high by {off:<16g}{n:6} {rate:.3f}{'*' if rate > limit else ' '} covered {covered:.3f}",
                flush=True,
            )
    print("\ntwo samples of different cases that are alike: told apart, and how often an interval holds 0")
    for kind in _samples.KINDS:
        for grouping in _samples.GROUPINGS:
            for sizes in _samples.SIZES:
                rate, given, covered = _samples.rates(
                    kind, grouping, sizes, runs if kind in _samples.KINDS[:2] else max(200, runs // 4), LEVEL
                )
                name, n = f"{kind}, {grouping}", f"{sizes[0]} | {sizes[1]}"
                none = "" if given == 1 else f", none in {1 - given:.0%}"
                mark = "*" if rate > limit else " "
                print(f"  {name:38}{n:>12} {rate:.3f}{mark} covered {covered:.3f}{none}", flush=True)
    print("\nany finding in a table of comparisons without a difference, n = 15, judge noise shared by all")
    for size in (2, 5, 10):
        found = families(15, size, max(200, runs // 4))
        print(f"  {size:3} comparisons: " + ", ".join(f"{name} {rate:.3f}" for name, rate in found.items()))
    print("\ncannot hold:\n  " + "\n  ".join(missed) if missed else "\nall cells hold")


if __name__ == "__main__":
    main()
