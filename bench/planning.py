"""How often what `plan` plans is reached, by running it.

    python bench/planning.py [PILOTS]

Widths: each pilot (100 by default) gives a plan for an interval; then runs of that size are drawn from the truth, ten
for each pilot. Shown are the cases planned (median), and the share of runs whose interval is no wider: without an
assurance about half, with one of 80 % at least that. Differences: from the true distribution, the share of comparisons
of the planned size that find it, 2,000 for each; wanted are 80 %. In brackets the same by closed formulas: of a t
interval, with the variance at its upper limit for an assurance, and of a z test.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from _lab import print_cells

from evalflow.stats.intervals import interval
from evalflow.stats.paired import paired_difference
from evalflow.stats.power import cases_for_rate_width, cases_for_width, cases_needed, cases_needed_to_flip
from evalflow.stats.simulation import Population
from evalflow.stats.variance import Components, variance_limit
from evalflow.summary.plan import Basis, Level, Planner

ASSURANCE = 0.8
GROUP = 5
RUNS = 10
_COMPARED = 2_000
Draw = Callable[[np.random.Generator, int], Any]


def _beta(mean: float, sd: float) -> Draw:
    weight = mean * (1 - mean) / sd**2 - 1
    return lambda rng, n: rng.beta(mean * weight, (1 - mean) * weight, n)


def _piled(rng: np.random.Generator, n: int) -> Any:
    """Grades of which most are exactly 1, as of a good bot."""
    return np.where(rng.random(n) < 0.3, rng.beta(8 / 3, 4 / 3, n), 1.0)


def _grouped(rng: np.random.Generator, n: int) -> Any:
    """Graded scores in groups of five, with an intraclass correlation of about 0.3."""
    groups = math.ceil(n / GROUP)
    return np.clip(np.repeat(rng.normal(0.6, 0.11, groups), GROUP)[:n] + rng.normal(0, 0.17, n), 0, 1)


def _passes(rng: np.random.Generator, n: int) -> Any:
    return (rng.random(n) < 0.9).astype(float)


def _passes_in_groups(rng: np.random.Generator, n: int) -> Any:
    """Pass or fail in groups of five, with an intraclass correlation of 0.2."""
    chance = np.repeat(rng.beta(3.6, 0.4, math.ceil(n / GROUP)), GROUP)[:n]
    return (rng.random(n) < chance).astype(float)


WIDTHS: dict[str, tuple[Draw, float]] = {
    "graded, mean 0.95, sd 0.05": (_beta(0.95, 0.05), 0.05),
    "graded, mean 0.95, sd 0.1": (_beta(0.95, 0.1), 0.1),
    "graded, mean 0.7, sd 0.2": (_beta(0.7, 0.2), 0.1),
    "most exactly 1, mean 0.9": (_piled, 0.1),
    "groups of five": (_grouped, 0.1),
    "pass rate 0.9": (_passes, 0.1),
    "pass rate 0.9, groups of five": (_passes_in_groups, 0.15),
}
SIZES = (30, 100)


def _codes(draw: Draw, n: int) -> Any:
    return np.arange(n) // GROUP if draw in (_grouped, _passes_in_groups) else None


def basis_of(scores: Any, clusters: Any) -> Basis | None:
    """A pilot's basis for a width; None if nothing varies."""
    drawn = Population(scores, clusters)
    if not drawn.variance > 0:
        return None
    parts = Components(scores.size, drawn.variance, None, None)
    alone = drawn.binary and clusters is None
    rate = float(scores.mean()) if alone else None
    limit = variance_limit(scores, clusters, ASSURANCE)
    return Basis("", [], parts, parts, 0.0, drawn, drawn, rate, sampled=scores.size, scores_limit=limit)


def by_formula(basis: Basis, width: float) -> int:
    """Cases by closed formulas."""
    if basis.rate is not None:
        return cases_for_rate_width(basis.rate, width)
    return cases_for_width(basis.scores.variance(), width)


def of_width(draw: Draw, width: float, size: int, pilots: int) -> list[str]:
    """Cells without and with an assurance, and these by formulas."""
    rng, cells = np.random.default_rng([7, size]), list[str]()
    every = [(scores := draw(rng, size), basis_of(scores, _codes(draw, size))) for _ in range(pilots)]
    for chance in (None, ASSURANCE):
        planned: list[tuple[int, int]] = []
        for _, basis in every:
            if basis is not None:
                own = basis if chance is None else basis.assured(chance)
                planned.append((Planner(own, Level()).cases_for_width(width, 1, 1), by_formula(own, width)))
        met = np.array([[_met(rng, draw, n, width) for n in pair] for pair in planned])
        error = met[:, 0].std() / math.sqrt(len(planned))
        cells.append(
            f"{np.median([n for n, _ in planned]):.0f}: {met[:, 0].mean():.0%} ± {error:.1%} ({met[:, 1].mean():.0%})"
        )
    return cells


def _met(rng: np.random.Generator, draw: Draw, n: int, width: float) -> float:
    """Share of runs of n cases whose interval is no wider."""
    found = (interval(draw(rng, n), _codes(draw, n), bounded=True) for _ in range(RUNS))
    return float(np.mean([one.low is not None and (one.high or 0) - one.low <= width for one in found]))


def of_difference(sd: float, difference: float, *, group: int, comparisons: int = 1) -> str:
    """Power at the planned number of cases, and at that of the formula; graded scores, correlation 0.2 in groups."""
    rng = np.random.default_rng(8)

    def draw(n: int) -> tuple[Any, Any]:
        own = rng.normal(0, sd, n)
        if group == 1:
            return own, None
        codes = np.arange(n) // group
        shared = rng.normal(0, sd, codes[-1] + 1)[codes]
        return math.sqrt(0.2) * shared + math.sqrt(0.8) * own, codes

    d, codes = draw(4_000)
    drawn = Population(d, codes, base=np.full(d.size, 0.5))
    effect = 1 + 0.2 * (group - 1)
    parts = Components(0, sd**2 * effect / 2, None, None)
    level = Level(comparisons=comparisons)
    basis = Basis("", [], parts, parts, sd**2 * effect, None, drawn)
    planned = Planner(basis, level).cases_to_detect(difference, 1, 1)
    formula = math.ceil(cases_needed(sd**2 * effect, difference, alpha=level.each))
    cells: list[float] = []
    for n in (planned, formula):
        hits = 0
        for seed in range(_COMPARED):
            e, own = draw(n)
            a = np.full(n, 0.5)
            found = paired_difference(a, a + difference + e, own, seed, bounded=True, draws=1_999 if n <= 400 else 0)
            hits += (found.p_value or 1) < level.each and (found.low is None or found.low > 0)
        cells.append(hits / _COMPARED)
    error = math.sqrt(0.16 / _COMPARED)
    return f"{planned}: {cells[0]:.1%} ± {error:.1%} ({formula}: {cells[1]:.1%})"


def of_flips(flips: float, difference: float) -> str:
    """Power at the planned number of cases that pass or fail, and at that of the formula."""
    rng = np.random.default_rng(9)
    parts = Components(0, flips / 2, None, None)
    drawn = Population(np.array([-1.0, 1.0]))
    planned = Planner(Basis("", [], parts, parts, flips, None, drawn, flips=flips), Level()).cases_to_detect(
        difference, 1, 1
    )
    worse, better = (flips - difference) / 2, (flips + difference) / 2
    formula = math.ceil(cases_needed_to_flip(worse, better))
    cells: list[float] = []
    for n in (planned, formula):
        hits = 0
        for _ in range(_COMPARED):
            drawn_now = rng.random(n)
            passes = (rng.random(n) < 0.8).astype(float)
            a = np.where(drawn_now < worse, 1.0, np.where(drawn_now < flips, 0.0, passes))
            b = np.where(drawn_now < worse, 0.0, np.where(drawn_now < flips, 1.0, passes))
            found = paired_difference(a, b, bounded=True)
            hits += (found.p_value or 1) < 0.05 and (found.low or 0) > 0
        cells.append(hits / _COMPARED)
    error = math.sqrt(0.16 / _COMPARED)
    return f"{planned}: {cells[0]:.1%} ± {error:.1%} ({formula}: {cells[1]:.1%})"


def main() -> None:
    """Print the tables."""
    pilots = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    heads = [f"{kind}, pilot of {n}" for n in SIZES for kind in ("typical", "assured")]
    print("| interval, width | plan | cases: runs that meet it |\n|---|---|---|")
    for name, (draw, width) in WIDTHS.items():
        cells = (cell for size in SIZES for cell in of_width(draw, width, size, pilots))
        print_cells(f"{name}, {width:g}", heads, cells)
    print("\n| difference, power wanted 80 % | cases | power |\n|---|---|---|")
    for sd, difference in ((0.2, 0.1), (0.3, 0.05), (0.3, 0.2)):
        cells = [
            of_difference(sd, difference, group=1),
            of_difference(sd, difference, group=GROUP),
            of_difference(sd, difference, group=GROUP, comparisons=4),
        ]
        places = ("alone", "groups of five", "one of four comparisons, groups")
        print_cells(f"sd {sd:g}, difference {difference:g}", places, cells)
    print("\n| pass or fail: share of flips, difference | power |\n|---|---|")
    for flips, difference in ((0.32, 0.1), (0.17, 0.05), (0.15, 0.1), (0.06, 0.03)):
        print(f"| {flips:g}, {difference:g} | {of_flips(flips, difference)} |", flush=True)


if __name__ == "__main__":
    main()
