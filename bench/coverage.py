"""How often each 95 % interval holds the truth, by simulation.

    python bench/coverage.py [RUNS]

Runs are simulated (2,000 by default) for samples of 10 to 1,000 cases, true values of 0.5 to 0.99, and cases that stand
alone or share a group (intraclass correlation 0.2): five each, or sizes as unequal as 1, 1/2, 1/3 ... Wanted are 93 to
97 %. A cell outside is marked; in brackets how often the interval is above and below the truth, if one of these exceeds
3.5 %; and how often there was no interval at all: those runs are left out of the coverage, since nothing was claimed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
from _draws import (
    CONCENTRATION,
    CORRELATION,
    GROUP,
    binary,
    binary_in_groups,
    equal,
    graded,
    graded_in_groups,
    piled,
    ties,
    unequal,
)
from numpy.typing import NDArray

from evalflow.stats.arrays import Estimated
from evalflow.stats.classification import classification_figures
from evalflow.stats.intervals import intervals, moments, stacked
from evalflow.stats.raters import noise_ceiling, reliability
from evalflow.stats.variance import pass_all_k, pass_at_k

SIZES = (10, 30, 100, 1_000)
TRUTHS = (0.5, 0.9, 0.99)
WANTED = (0.93, 0.97)
# A side of the interval that errs more often than this is said: above the truth / below it.
_SIDE = 0.035
RUNS = 2_000
_ANSWERS = 5
# Figures are computed run by run, which takes longer.
_FIGURE_RUNS = 200
_FIGURE_TRUTHS = (0.5, 0.9)

Floats = Any
Draw = Callable[[np.random.Generator, float, int, Any], Floats]
Groups = Callable[[int], Any]


def repeated(rng: np.random.Generator, p: float, runs: int, n: int) -> Floats:
    """Means of three judgements, pass or fail, of each case; a judge agrees with itself on most."""
    chance = rng.beta(p, 1 - p, (runs, n))
    return rng.binomial(3, chance) / 3


def answered(rng: np.random.Generator, p: float, runs: int, n: int) -> NDArray[np.int64]:
    """How many of five answers to each case pass, each with a chance of its own."""
    return rng.binomial(_ANSWERS, graded(rng, p, runs, n))


def passes_once(rng: np.random.Generator, p: float, runs: int, n: int) -> Floats:
    """pass@2 of each case, from five answers."""
    return pass_at_k(answered(rng, p, runs, n), np.full((runs, n), _ANSWERS), 2)


def passes_always(rng: np.random.Generator, p: float, runs: int, n: int) -> Floats:
    """pass^2 of each case, from five answers."""
    return pass_all_k(answered(rng, p, runs, n), np.full((runs, n), _ANSWERS), 2)


def both_pass(p: float) -> float:
    """The chance that two answers to a case of `graded` chance both pass."""
    return p * (p * CONCENTRATION + 1) / (CONCENTRATION + 1)


def of_means(
    draw: Draw, groups: Groups | None, runs: int, seed: int, truth: Callable[[float], float] = float
) -> Iterator[str]:
    """One line per sample size and p: the coverage of what `truth` makes of it."""
    for n in SIZES:
        clusters = None if groups is None else groups(n)
        for p in TRUTHS:
            scores = draw(np.random.default_rng([seed, n]), p, runs, n if clusters is None else clusters)
            found = intervals(stacked(moments(row, clusters, bounded=True) for row in scores), bounded=True)
            names = [str(name).split(":")[0] for name in found.method]
            cell = _cell(found.low, found.high, truth(p), max(set(names), key=names.count))
            yield f"| {n:,} | {p:g} | {cell} |"


def of_figures(statistic: str, group: int, seed: int) -> Iterator[str]:
    """Coverage of a figure of a classifier whose precision and recall are both p, a third of the cases positive."""
    for n in SIZES[1:]:
        for p in _FIGURE_TRUTHS:
            rng = np.random.default_rng([seed, n])
            found = [_figure(rng, statistic, p, n, group) for _ in range(_FIGURE_RUNS)]
            bounds = np.array([(f.low, f.high) for f in found], dtype=np.float64)
            names = [str(f.method).split(":")[0] for f in found]
            cell = _cell(bounds[:, 0], bounds[:, 1], p, max(set(names), key=names.count))
            yield f"| {n:,} | {p:g} | {cell} |"


def _figure(rng: np.random.Generator, statistic: str, p: float, n: int, group: int) -> Any:
    """One simulated run's figure. Of a group, many cases share what becomes of them."""
    missed = (1 - p) / 3
    cells = [p / 3, missed, missed, 1 - p / 3 - 2 * missed]  # hits, misses, false alarms, and the rest
    own = rng.choice(4, size=n, p=cells)
    shared = rng.choice(4, size=n // group, p=cells).repeat(group)
    drawn = np.where(rng.random(n) < CORRELATION**0.5, shared, own) if group > 1 else own
    frame = pl.DataFrame(
        {
            "cluster": np.arange(n) // group,
            "truth": np.array(["true", "true", "false", "false"])[drawn],
            "prediction": np.array(["true", "false", "true", "false"])[drawn],
        }
    )
    counts = frame.group_by("cluster", "truth", "prediction").agg(n=pl.len(), clusters=pl.lit(1))
    return next(f for f in classification_figures(counts, "true") if f.statistic == statistic)


def _cell(low: Floats, high: Floats, truth: float, method: str) -> str:
    there = ~np.isnan(low)
    if not there.any():
        return "no interval"
    covered = float(((low <= truth + 1e-12) & (high >= truth - 1e-12))[there].mean())
    # Two standard errors of the simulation itself are not miss.
    noise = 2 * (0.95 * 0.05 / there.sum()) ** 0.5
    outside = not WANTED[0] - noise <= covered <= WANTED[1] + noise
    above, below = float((low > truth + 1e-12)[there].mean()), float((high < truth - 1e-12)[there].mean())
    sides = f" ({above:.1%} / {below:.1%})" if max(above, below) > _SIDE else ""
    share = f", none in {1 - there.mean():.0%}" if there.mean() < 0.995 else ""
    return f"{'**' if outside else ''}{covered:.1%}{'**' if outside else ''} {method}{sides}{share}"


def of_ceilings(raters: int, seed: int) -> Iterator[str]:
    """Cells of the highest correlation that a judge can have with the mean of so many people.

    An answer is found good by a share of all people, which varies by a beta distribution of this concentration.
    """
    rng = np.random.default_rng(seed)
    for n in (20, 50, 100, 300):
        for concentration in (0.5, 1.5, 4.0):
            chance = 1 / (1 + concentration)  # the correlation of two people
            truth = math.sqrt(raters * chance / (1 + (raters - 1) * chance))
            found: list[Estimated] = []
            for run in range(_FIGURE_RUNS):
                shares = rng.beta(concentration / 2, concentration / 2, n)
                ratings = (rng.random((raters, n)) < shares).astype(np.float64)
                found.append(noise_ceiling(reliability(ratings, seed=run)))
            low, high = np.array([(one.low, one.high) for one in found], dtype=np.float64).T
            yield f"| {n:,} | {truth:.2f} | {_cell(low, high, truth, 'bootstrap')} |"


def main() -> None:
    """Print all tables."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    print(
        f"Wanted: {WANTED[0]:.0%} to {WANTED[1]:.0%}. {runs:,} runs a cell, {_FIGURE_RUNS} of a figure; bold: outside."
    )
    tables: list[tuple[str, Draw, Groups | None]] = [
        ("pass or fail", binary, None),
        ("graded scores", graded, None),
        ("means of three judgements", repeated, None),
        ("grades of which most are 1", piled, None),
        ("win rates with ties", ties, None),
        ("pass or fail, groups of five", binary_in_groups, equal),
        ("graded scores, groups of five", graded_in_groups, equal),
        ("pass or fail, unequal groups", binary_in_groups, unequal),
        ("graded scores, unequal groups", graded_in_groups, unequal),
    ]
    head = "| n | truth | holds |\n|---|---|---|"
    for seed, (title, draw, groups) in enumerate(tables):
        print(f"\n{title}\n\n{head}", *of_means(draw, groups, runs, seed), sep="\n", flush=True)
    draws = [
        ("pass@2 of five answers", passes_once, lambda p: 1 - both_pass(1 - p)),
        ("pass^2", passes_always, both_pass),
    ]
    for title, draw, truth in draws:
        print(f"\n{title}, each with the chance\n\n{head}", *of_means(draw, None, runs, 7, truth), sep="\n", flush=True)
    for statistic in ("precision", "recall", "f1"):
        for title, group in (("alone", 1), ("groups of five", GROUP)):
            print(f"\n{statistic}, cases {title}\n\n{head}", *of_figures(statistic, group, 9), sep="\n", flush=True)
    for raters in (2, 3):
        title = f"the ceiling of a judge, by {raters} people who say yes or no to each answer"
        print(f"\n{title}\n\n{head}", *of_ceilings(raters, 11), sep="\n", flush=True)


if __name__ == "__main__":
    main()
