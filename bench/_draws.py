"""Scores of simulated cases, alone or in groups, of a given true mean; shape (runs, cases)."""

from __future__ import annotations

from typing import Any

import numpy as np

GROUP = 5
CORRELATION = 0.2
# Of a graded score: Beta(4 p, 4 (1 - p)), as spread out as grades of answers are.
CONCENTRATION = 4.0

Floats = Any


def binary(rng: np.random.Generator, p: float, runs: int, n: int) -> Floats:
    """Passes and failures; shape (runs, n)."""
    return (rng.random((runs, n)) < p).astype(np.float64)


def piled(rng: np.random.Generator, p: float, runs: int, n: int) -> Floats:
    """Grades of which most are exactly 1, as of a good bot: a share of 3 (1 - p) is anything else, 2/3 on average."""
    rest = min(1.0, 3 * (1 - p))
    other = 1 - (1 - p) / rest
    return np.where(rng.random((runs, n)) < rest, graded(rng, other, runs, n), 1.0)


def ties(rng: np.random.Generator, p: float, runs: int, n: int) -> Floats:
    """Wins, losses and ties of pairs; a third of what is not won is tied."""
    drawn = rng.random((runs, n))
    won = 1 - (1 - p) / (1 - 1 / 6)
    return np.where(drawn < won, 1.0, np.where(drawn < won + (1 - won) / 3, 0.5, 0.0))


def binary_in_groups(rng: np.random.Generator, p: float, runs: int, groups: Any) -> Floats:
    """Passes and failures whose chance is that of their group."""
    spread = (1 - CORRELATION) / CORRELATION
    chance = rng.beta(p * spread, (1 - p) * spread, (runs, groups.max() + 1))
    return (rng.random((runs, groups.size)) < chance[:, groups]).astype(np.float64)


def graded(rng: np.random.Generator, p: float, runs: int, n: int) -> Floats:
    """Scores in 0..1, the more skewed the nearer p is to 1."""
    return rng.beta(p * CONCENTRATION, (1 - p) * CONCENTRATION, (runs, n))


def graded_in_groups(rng: np.random.Generator, p: float, runs: int, groups: Any) -> Floats:
    """Mixtures of a group's score and a case's own, so that they correlate; their mean stays p."""
    own, shared = graded(rng, p, runs, groups.size), graded(rng, p, runs, groups.max() + 1)[:, groups]
    return np.where(rng.random((runs, groups.size)) < CORRELATION**0.5, shared, own)


def equal(n: int) -> Any:
    """The group of each case, in groups of five."""
    return np.arange(n) // GROUP


def unequal(n: int) -> Any:
    """The group of each case; the sizes of the groups are as 1, 1/2, 1/3 ..., at least one case."""
    shares = 1 / np.arange(1, n // GROUP + 1)
    sizes = np.maximum(1, np.round(n * shares / shares.sum())).astype(int)
    return np.repeat(np.arange(sizes.size), sizes)
