"""How often ranks with joint confidence are wrong, and what suspect keys and short sets are worth, by simulation.

    python -m bench ranks [--runs 500]

Ranks may be wrong in at most 5 % of the runs: a run counts as wrong if any of its systems is said to be better than one
that is as good or better. Systems are all alike, which is hardest, or on a staircase with two systems on each step.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import _draws
import numpy as np
from numpy.typing import NDArray

from evalflow.stats import ranks
from evalflow.stats.bradley_terry import NoStrengthsError, strengths
from evalflow.stats.items import choose, items, measured_loss
from evalflow.stats.quantiles import quantile
from evalflow.stats.ranks import mean_covariance, rank_intervals

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, Floats, int], tuple[Floats, Any]]
LEVEL, SIZES, SYSTEMS = 0.05, (30, 100, 300), (3, 10)
_STEP = 0.05


def passes(p: float) -> Draw:
    """Passes and failures of cases with a difficulty of their own, which all systems share."""

    def draw(rng: np.random.Generator, better: Floats, n: int) -> tuple[Floats, None]:
        chance = rng.beta(2 * p, 2 * (1 - p), (n, 1))
        return (rng.random((n, better.size)) < _moved(chance, better)).astype(np.float64), None

    return draw


def passes_in_groups(p: float, sizes: Callable[[int], Any]) -> Draw:
    """The same; each system has a chance of its own with each group of cases."""

    def draw(rng: np.random.Generator, better: Floats, n: int) -> tuple[Floats, Any]:
        groups = sizes(n)
        chance = rng.beta(2 * p, 2 * (1 - p), (groups.max() + 1, better.size))[groups]
        return (rng.random((groups.size, better.size)) < _moved(chance, better)).astype(np.float64), groups

    return draw


def _moved(chance: Floats, better: Floats) -> Floats:
    """Chances of failure made smaller by a share, so that they stay chances."""
    return 1 - (1 - chance) * (1 - better)


def graded(rng: np.random.Generator, better: Floats, n: int) -> tuple[Floats, None]:
    """Grades about a case's difficulty."""
    return rng.beta(4, 2, (n, 1)) + rng.normal(0, 0.15, (n, better.size)) + better * 0.3, None


def piled(rng: np.random.Generator, better: Floats, n: int) -> tuple[Floats, None]:
    """Grades of which most are exactly 1."""
    lost = rng.random((n, better.size)) < 0.2 * (1 - better)
    return np.where(lost, rng.beta(2, 1, (n, better.size)), 1.0), None


DRAWS: dict[str, Draw] = {
    "pass or fail, 0.7": passes(0.7),
    "pass or fail, 0.95": passes(0.95),
    "grades": graded,
    "grades, most exactly 1": piled,
    "pass or fail, 0.7, groups of five": passes_in_groups(0.7, _draws.equal),
    "pass or fail, 0.95, groups of five": passes_in_groups(0.95, _draws.equal),
    "pass or fail, 0.7, unequal groups": passes_in_groups(0.7, _draws.unequal),
}


def wrong_ranks(draw: Draw, better: Floats, n: int, runs: int) -> tuple[float, float]:
    """The share of runs with a wrong claim, and the mean width of a system's range of ranks."""
    wrong, width = 0, 0.0
    for run in range(runs):
        scores, groups = draw(np.random.default_rng([run, n, better.size]), better, n)
        found = rank_intervals(*mean_covariance(scores, groups), seed=run)
        wrong += bool((found.better & (better[:, None] <= better[None, :])).any())
        width += float((found.high - found.low).mean()) / runs
    return wrong / runs, width


def strengths_held(n: int, tie: float | None, copies: int, runs: int) -> tuple[float, float, float]:
    """Coverage of strengths, share of runs with a wrong rank, and share of runs without strengths.

    n comparisons of four systems, of which two are alike, in groups of `copies` that repeat each other's result in half
    of the cases.
    """
    truth = np.array([0.6, 0.0, 0.0, -0.6])
    inside, wrong, none, made = 0.0, 0, 0, 0
    for run in range(runs):
        rng = np.random.default_rng([run, n, copies])
        groups = np.arange(n) // copies
        first = rng.integers(0, 4, groups[-1] + 1)
        second = (first + rng.integers(1, 4, first.size)) % 4
        i, j = first[groups], second[groups]
        half = (truth[i] - truth[j]) / 2
        terms = np.exp(np.stack([half, np.full(n, -math.inf if tie is None else tie), -half]))
        win, level = terms[0] / terms.sum(axis=0), terms[1] / terms.sum(axis=0)
        place = np.where(rng.random(n) < 0.5, rng.random(groups[-1] + 1)[groups], rng.random(n))
        points = np.where(place < win, 1.0, np.where(place < win + level, 0.5, 0.0))
        try:
            found = strengths(i, j, points, "abcd", groups)
        except NoStrengthsError:
            none += 1
            continue
        made += 1
        half_width = quantile(0.975, found.df) * np.sqrt(np.diag(found.covariance))
        inside += float((np.abs(found.values - truth) <= half_width).mean())
        placed = rank_intervals(found.values, found.covariance, found.df, seed=run)
        wrong += bool((placed.better & (truth[:, None] <= truth[None, :])).any())
    return inside / made, wrong / made, none / runs


def rasch(rng: np.random.Generator, cases: int, systems: int, *, told_apart: bool = True) -> tuple[Floats, Any]:
    """Passes of systems of unlike abilities in three topics, on cases of unlike difficulty; and each case's topic."""
    ability = rng.normal(0, 0.7 if told_apart else 0, (3, systems))
    topic = rng.integers(0, 3, cases)
    hard, slope = rng.normal(-1, 1.3, (cases, 1)), rng.lognormal(0, 0.5, (cases, 1))
    return (rng.random((cases, systems)) < 1 / (1 + np.exp(-slope * (ability[topic] - hard)))).astype(np.float64), topic


def suspects(cases: int, systems: int, runs: int, *, told_apart: bool) -> tuple[float, float]:
    """The share of runs that suspect a right key, and the share of wrong keys (one of 25) that are found."""
    false, power = 0, 0.0
    wrong = cases // 25
    for run in range(runs):
        scores, _ = rasch(np.random.default_rng([run, cases, systems]), cases, systems, told_apart=told_apart)
        false += bool((items(scores).p_adjusted < LEVEL).any())
        scores[:wrong] = 1 - scores[:wrong]
        power += float((items(scores).p_adjusted[:wrong] < LEVEL).mean())
    return false / runs, power / runs


def short_sets(cases: int, systems: int, n: int, runs: int) -> tuple[float, float, float, float]:
    """The mean error of a short set: as measured, on ten new systems, of a random set; and how often it is better."""
    rows = np.zeros((runs, 4))
    for run in range(runs):
        scores, topic = rasch(np.random.default_rng([run, cases, systems]), cases, systems + 10)
        loss = measured_loss(scores[:, :systems], n, topic, seed=run)
        places = choose(scores[:, :systems], n, topic, seed=run)
        new = np.abs(scores[places].mean(axis=0) - scores.mean(axis=0))[systems:].mean()
        rows[run] = loss.error, new, loss.random_error, loss.low > 0
    error, new, by_chance, better = rows.mean(axis=0).tolist()
    return error, new, by_chance, better


def print_ranks(runs: int) -> None:
    """Wrong ranks by mean."""
    limit = LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / runs)
    ranks.DRAWS = 1_000  # enough for a rate over many runs
    print(f"wrong ranks by mean, wanted at most 5 % (* above {limit:.1%}); {runs} runs a cell")
    sizes = "".join(f"{f'n = {n}':>9}" for n in SIZES)
    print(f"{'':36}{'systems':>8}{sizes}   staircase, n = 100: wrong, width of a range")
    for name, draw in DRAWS.items():
        for systems in SYSTEMS:
            rates = [wrong_ranks(draw, np.zeros(systems), n, runs)[0] for n in SIZES]
            cells = "".join(f"{rate:8.1%}{'*' if rate > limit else ' '}" for rate in rates)
            stairs, width = wrong_ranks(draw, _STEP * (np.arange(systems) // 2).astype(np.float64), 100, runs // 2)
            print(f"{name:36}{systems:8}{cells}   {stairs:.1%}, {width:.1f}", flush=True)


def print_strengths(runs: int) -> None:
    """Strengths from comparisons."""
    print("\nstrengths of four systems: covered (wanted 93 to 97 %), wrong ranks (at most 5 %), without strengths")
    for tie in (None, 0.0):
        for copies in (1, 5):
            for n in (60, 200, 1_000):
                covered, wrong, none = strengths_held(n, tie, copies, runs)
                name = f"{'no ties' if tie is None else 'a third ties'}, {'alone' if copies == 1 else 'groups of five'}"
                print(f"{name:32}{n:6} {covered:.1%}, {wrong:.1%}, {none:.1%}", flush=True)


def print_items(runs: int) -> None:
    """Suspect keys and short sets."""
    print("\nsuspect keys: runs that suspect a right one, systems alike | apart; wrong keys found")
    for cases in (50, 500):
        for systems in (6, 10, 20, 40):
            alike, _ = suspects(cases, systems, runs // 2, told_apart=False)
            apart, power = suspects(cases, systems, runs // 2, told_apart=True)
            print(f"{cases:6} cases {systems:4} systems {alike:.1%} | {apart:.1%}; {power:.1%}", flush=True)
    print("\nshort sets: a mean is off by, as measured | on new systems | of a random set; called better")
    for cases, systems, n in ((200, 5, 30), (500, 8, 50), (1_000, 20, 100)):
        error, new, by_chance, better = short_sets(cases, systems, n, runs // 10)
        print(
            f"{n:5} of {cases:5}, {systems:3} systems {error:.4f} | {new:.4f} | {by_chance:.4f}; {better:.0%}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    runs: int = parser.parse_args().runs
    print_ranks(runs)
    print_strengths(runs)
    print_items(runs)


if __name__ == "__main__":
    main()
