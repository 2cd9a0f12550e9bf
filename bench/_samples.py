"""Two runs on different cases that are alike: how often they are told apart, and how often the interval holds 0."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from _draws import equal, unequal
from numpy.typing import NDArray

from evalflow.stats.classification import of_class
from evalflow.stats.paired import Difference
from evalflow.stats.paired_figures import PairedClusters
from evalflow.stats.unpaired import unpaired_difference, unpaired_figure_difference

Floats = NDArray[np.float64]
CELLS = [("true", "true"), ("true", "false"), ("false", "false"), ("false", "true")]
GROUPINGS = ("cases alone", "groups of five", "groups of five, shared", "unequal groups")
"""Cases of a group share a part of what becomes of them; where groups are shared, both runs have the same ones.

The sizes of unequal groups are as 1, 1/2, 1/3 ..., five cases on average.
"""
KINDS = ("pass or fail", "scores", "precision", "F1")
SIZES = ((10, 10), (30, 30), (30, 100), (100, 100), (300, 300))
_SHARED = 0.2
_POSITIVE = 1 / 3


def rates(kind: str, grouping: str, sizes: tuple[int, int], runs: int, level: float) -> tuple[float, float, float]:
    """The share of simulations that find a difference, that have an interval, and whose interval holds 0."""
    rng = np.random.default_rng([*sizes, KINDS.index(kind), GROUPINGS.index(grouping)])
    found, given, covered = 0, 0, 0
    for _ in range(runs):
        one = _compared(kind, list(_drawn(rng, grouping, sizes)), int(rng.integers(2**31)))
        found += one.p_value is not None and one.p_value <= level
        if one.low is not None and one.high is not None:
            given += 1
            covered += one.low <= 0 <= one.high
    return found / runs, given / runs, covered / max(1, given)


def _drawn(
    rng: np.random.Generator, grouping: str, sizes: tuple[int, int]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_], Floats]]:
    """For each run the groups of its cases, which of them are positive, and the chance of each to be right."""
    spread = (1 - _SHARED) / _SHARED
    known = rng.beta(0.8 * spread, 0.2 * spread, max(sizes))
    for side, n in enumerate(sizes):
        names = np.arange(n) if grouping == "cases alone" else equal(n)
        names = unequal(n)[:n] if grouping == "unequal groups" else names
        n = names.size
        own = rng.beta(0.8 * spread, 0.2 * spread, names[-1] + 1)
        shared = grouping.endswith("shared")
        chance = (known if shared else own)[names]
        yield names + (0 if shared else side * 2 * max(sizes)), rng.random(n) < _POSITIVE, chance


def _compared(kind: str, sides: list[tuple[NDArray[np.int64], NDArray[np.bool_], Floats]], seed: int) -> Difference:
    rng = np.random.default_rng(seed)
    (names_a, *_), (names_b, *_) = sides
    if kind == "scores":
        a, b = (np.clip(chance + rng.normal(0, 0.15, chance.size), 0, 1) for _, _, chance in sides)
        return unpaired_difference(a, b, names_a, names_b, bounded=True)
    right = [rng.random(chance.size) < chance for _, _, chance in sides]
    if kind == "pass or fail":
        a, b = (side.astype(float) for side in right)
        return unpaired_difference(a, b, names_a, names_b, bounded=True)
    cells = [np.where(positive, 1 - hit, 2 + (1 - hit)) for (_, positive, _), hit in zip(sides, right, strict=True)]
    _, codes = np.unique(np.concatenate([names_a, names_b]), return_inverse=True)
    counts = np.zeros((int(codes.max()) + 1, 8))
    np.add.at(counts, (codes, np.concatenate([cells[0], cells[1] + 4])), 1)
    patterns, weights = np.unique(counts, axis=0, return_counts=True)
    n = names_a.size, names_b.size
    clusters = PairedClusters(patterns[:, :4], patterns[:, 4:], weights, sum(n), seed)
    return unpaired_figure_difference(of_class(CELLS, "true")[kind.lower()], clusters, n)
