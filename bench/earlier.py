"""How often a mean adjusted by an earlier run's scores holds the truth, and how much narrower it is, by simulation.

    python bench/earlier.py [RUNS]

A run has a random sample of the 1,000 cases that an earlier run scored. Both runs' scores of a case come from normal
variables with the given correlation. A cell has the coverage of the adjusted interval, of the interval that is shown
(the plain one where the adjusted one is not narrower, or fewer than five scores differ) and, in brackets, the adjusted
width over the plain one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import beta, norm

from evalflow.stats.intervals import interval
from evalflow.stats.prediction import corrected_mean
from evalflow.summary.adjusted_means import FEWEST_DIFFERING

ALL = 1_000
SAMPLES = (50, 200)
CORRELATIONS = (0.4, 0.8)
GROUP = 5

_GRID = np.linspace(-6, 6, 20_001)
_U = norm.cdf(_GRID)
_PILED = np.where(_U < 0.3, beta.ppf(np.minimum(_U / 0.3, 1), 8 / 3, 4 / 3), 1.0)
_GRADED = beta.ppf(_U, 2.8, 1.2)
SCORES: dict[str, Callable[[Any], Any]] = {
    "pass / fail, 0.8": lambda z: (z > norm.ppf(0.2)).astype(float),
    "pass / fail, 0.95": lambda z: (z > norm.ppf(0.05)).astype(float),
    "graded, 0.7": lambda z: np.interp(z, _GRID, _GRADED),
    "most exactly 1, 0.9": lambda z: np.interp(z, _GRID, _PILED),
}


def cell(rng: np.random.Generator, score: Callable[[Any], Any], n: int, r: float, runs: int, *, grouped: bool) -> str:
    """Coverage and widths for one size of the sample and one correlation."""
    true = float(score(rng.normal(size=2_000_000)).mean())
    held, widths = np.zeros(2), np.zeros(2)
    groups = np.arange(ALL) // GROUP if grouped else np.arange(ALL)
    for _ in range(runs):
        shared = (
            rng.normal(size=ALL)
            if not grouped
            else 0.5**0.5 * (rng.normal(size=ALL // GROUP)[groups] + rng.normal(size=ALL))
        )
        a, b = (score(r**0.5 * shared + (1 - r) ** 0.5 * rng.normal(size=ALL)) for _ in range(2))
        b = b[:n]
        found = corrected_mean(b, a[:n], a[n:], clusters=groups[:n], unlabelled_clusters=groups[n:], bounded=True)
        plain = interval(b, groups[:n], bounded=True)
        ends = (max(0.0, found.low or 0.0), min(1.0, found.high or 1.0)), (plain.low or 0.0, plain.high or 1.0)
        narrower = found.lambda_ and ends[0][1] - ends[0][0] < ends[1][1] - ends[1][0]
        shown = ends[0] if narrower and (b != a[:n]).sum() >= FEWEST_DIFFERING else ends[1]
        held += [low <= true <= high for low, high in (ends[0], shown)]
        widths += [high - low for low, high in ends]
    return f"{held[0] / runs:.1%}, {held[1] / runs:.1%} ({widths[0] / widths[1]:.2f})"


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    rng = np.random.default_rng(11)
    heads = [f"{n} of {ALL:,}, r {r}" for n in SAMPLES for r in CORRELATIONS]
    print("| scores | " + " | ".join(heads) + " |\n|---|" + "---:|" * len(heads))
    for grouped in (False, True):
        for name, score in SCORES.items():
            cells = [cell(rng, score, n, r, runs, grouped=grouped) for n in SAMPLES for r in CORRELATIONS]
            print(f"| {name}{', groups of 5' if grouped else ''} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
