"""Cells where few cases, or whole groups, go bad: differences at a margin, and means over groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from _draws import GROUP, Floats

from evalflow.stats.intervals import interval
from evalflow.stats.paired import paired_difference

Random = np.random.Generator
Ends = tuple[float | None, float | None, str]
Drawn = Callable[[Random], Ends]
_BOTH = 0.5**0.5


def margins() -> Iterator[tuple[str, float, Drawn]]:
    """Differences that are worse by just a margin, since a few cases drop by much: name, truth and draw."""
    for margin, (drop, noise) in product(
        (0.02, 0.05), ((1.0, 0.02), (0.8, 0.0), (0.8, 0.05), (0.5, 0.0), (0.5, 0.1), (0.25, 0.0))
    ):
        for n in (20, 50, 100, 200, 500):
            if margin / drop * n >= 1:
                yield _name(margin, drop, noise, n), -margin, difference(margin, drop, noise, n)
    for margin, n in product((0.02, 0.05), (50, 100, 200, 500)):
        name = f"one in five changes by a grade, few drop by 0.5, margin {margin:g}, n = {n}"
        yield name, -margin, difference(margin, 0.5, 0.0, n, grades=0.2)
        yield f"noise 0.1 alone, margin {margin:g}, n = {n}", -margin, difference(margin, 0.0, 0.1, n)
    for margin, n in product((0.02, 0.05), (20, 50, 100)):
        name = f"all rise by 0.03, few drop by 1, margin {margin:g}, n = {n}"
        yield name, -margin, difference(margin, 1.0, 0.03, n, rise=0.03)
    for together, margin, groups in product(("whole", "half", "alone"), (0.02, 0.05), (20, 50, 100)):
        name = f"{_name(margin, 0.8, 0.05, GROUP * groups)}, {groups} groups of five, {together}"
        yield name, -margin, difference(margin, 0.8, 0.05, GROUP * groups, together=together)


def _name(margin: float, drop: float, noise: float, n: int) -> str:
    return f"few drop by {drop:g}{f', noise {noise:g}' if noise else ''}, margin {margin:g}, n = {n}"


def difference(
    margin: float, drop: float, noise: float, n: int, *, grades: float = 0.0, rise: float = 0.0, together: str = ""
) -> Drawn:
    """The interval of a mean difference of -margin.

    All cases rise by `rise`, as many drop by `drop` as make the mean, a share `grades` of the others changes by a
    grade of 0.25 up or down. `together` is how many of a group of five drop with it: whole, half, alone; empty without
    groups.
    """
    share = (margin + rise) / drop if drop else 0.0

    def drawn(rng: Random) -> Ends:
        hit = rng.random(n) < share
        if together in ("whole", "half"):
            shared = (rng.random(n // GROUP) < share).repeat(GROUP)
            hit = np.where(rng.random(n) < (1 if together == "whole" else _BOTH), shared, hit)
        d = np.where(hit, -drop, 0.0) + rise - (0 if drop else margin)
        d += (
            rng.normal(0, noise, n)
            if noise
            else np.where(~hit & (rng.random(n) < grades), rng.choice([-0.25, 0.25], n), 0)
        )
        clusters = np.arange(n) // GROUP if together else None
        found = paired_difference(np.zeros(n), d, clusters, bounded=True, **_FEW_FLIPS)
        return found.low, found.high, found.method

    return drawn


_FEW_FLIPS: dict[str, Any] = {"draws": 9}  # p-values are not part of this


def wholes() -> Iterator[tuple[str, float, Drawn]]:
    """Means over groups of which some go bad as wholes: name, truth and draw."""
    for kind, p, correlation in product(KINDS, (0.8, 0.95), (0.2, 0.5, 0.8, 1.0)):
        for sizes, groups in product(("equal", "log-normal"), (20, 50)):
            truth, drawn = KINDS[kind](p, correlation, sizes, groups)
            yield f"{kind}, {p:g}, correlation {correlation:g}, {groups} groups of {sizes} sizes", truth, drawn


def _groups(rng: Random, sizes: str, groups: int) -> Any:
    """The group of each case, ten cases on average."""
    counts = np.full(groups, 10) if sizes == "equal" else np.round(np.exp(rng.normal(1.8, 1, groups)))
    return np.repeat(np.arange(groups), np.maximum(1, counts).astype(int))


def _chances(rng: Random, p: float, correlation: float, groups: int) -> Floats:
    """Each group's chance to be good."""
    if correlation == 1:
        return (rng.random(groups) < p).astype(float)
    spread = 1 / correlation - 1
    return rng.beta(p * spread, (1 - p) * spread, groups)


def _mean_of(
    scores: Callable[[Random, Floats], Floats], p: float, correlation: float, sizes: str, groups: int
) -> Drawn:
    def drawn(rng: Random) -> Ends:
        own = _groups(rng, sizes, groups)
        found = interval(scores(rng, _chances(rng, p, correlation, groups)[own]), own, bounded=True)
        return found.low, found.high, found.method

    return drawn


def passes(p: float, correlation: float, sizes: str, groups: int) -> tuple[float, Drawn]:
    """Passes and failures, with the group's chance."""
    return p, _mean_of(lambda rng, chance: (rng.random(chance.size) < chance) * 1.0, p, correlation, sizes, groups)


def shares(p: float, correlation: float, sizes: str, groups: int) -> tuple[float, Drawn]:
    """Shares of four claims that hold, each with the group's chance."""
    return p, _mean_of(lambda rng, chance: rng.binomial(4, chance) / 4, p, correlation, sizes, groups)


def collapses(p: float, correlation: float, sizes: str, groups: int) -> tuple[float, Drawn]:
    """Grades of 1, a tenth of them 0.8; of a group whose chance is below one half, 0 to 0.4."""
    from scipy.special import betainc  # pyright: ignore[reportMissingTypeStubs]

    spread = 1 / correlation - 1
    bad = 1 - p if correlation == 1 else float(betainc(p * spread, (1 - p) * spread, 0.5))

    def scores(rng: Random, chance: Floats) -> Floats:
        good = np.where(rng.random(chance.size) < 0.9, 1.0, 0.8)
        return np.where(chance > 0.5, good, rng.random(chance.size) * 0.4)

    return 0.98 * (1 - bad) + 0.2 * bad, _mean_of(scores, p, correlation, sizes, groups)


KINDS: dict[str, Callable[[float, float, str, int], tuple[float, Drawn]]] = {
    "pass or fail": passes,
    "claims that hold": shares,
    "grades, groups collapse": collapses,
}
