"""How often a mean is decided wrongly, and how soon rightly, if it is looked at once, often, or by a method for looks.

    python -m bench looks [--runs 2000]

Of 1,000 cases in random order each method says whether the mean is above or below a limit of 0.9, as a gate does: by
one interval at the end; by the same interval after every 100 cases, stopping at the first that leaves the limit
(peeking); at five planned looks (`planned_interval`); and after every case or group (`LimitTest`). Where the mean is
the limit, every verdict is wrong: at most 2.5 % may be above, and as many below. Elsewhere the share of right verdicts
is shown, and the mean number of cases that it took. In brackets: wrong verdicts,
if there were any. A second table has the exact errors of planned looks at few passes and failures, by calculation. Last
is what a case costs.

`--stopped` has runs of up to 500 cases that stop once decided, a line a cell: of the first 60 of them the mean of their
plain means and of the adjusted ones (`stopping.adjusted_mean`), with the simulation's standard error; of all, how often
the interval that is reported holds the truth: that of the gate's own statistic, and that of any other
(`stopping.stopped_interval`).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from _draws import Floats, binary, binary_in_groups, equal, graded, graded_in_groups, piled, unequal
from _lab import machine, print_table

from evalflow.stats.arrays import Interval
from evalflow.stats.intervals import interval, wilson
from evalflow.stats.looks import LimitTest, anytime_interval, obrien_fleming, planned_interval
from evalflow.stats.stopping import adjusted_mean, by_bets, by_plan, stopped_interval

LIMIT, CASES, EVERY, PLANNED = 0.9, 1_000, 100, 5
TRUTHS = (0.8, 0.85, 0.9, 0.92, 0.95, 0.97)
SIDE = 0.025
Random = np.random.Generator
Decided = tuple[str | None, int]


@dataclass(frozen=True, slots=True)
class Run:
    """One run's scores in the order in which they were drawn, and the group of each, whole groups together."""

    scores: Floats
    groups: Floats | None
    largest: float

    def ends(self, looks: int) -> list[int]:
        """How many cases are there at each of equally spaced looks, without a group that is not complete."""
        n = self.scores.size
        ends = np.arange(n) + 1 if self.groups is None else np.append(np.flatnonzero(np.diff(self.groups)) + 1, n)
        return [int(ends[ends <= n * look // looks].max(initial=0)) for look in range(1, looks + 1)]


def alone(draw: Callable[[Random, float, int, int], Floats]) -> Callable[[Random, float], Run]:
    """Cases without groups."""
    return lambda rng, p: Run(draw(rng, p, 1, CASES)[0], None, 1)


def grouped(
    draw: Callable[[Random, float, int, Floats], Floats], of: Callable[[int], Floats]
) -> Callable[[Random, float], Run]:
    """Cases in groups, which come in random order."""

    def run(rng: Random, p: float) -> Run:
        sizes = rng.permutation(np.bincount(of(CASES)))
        groups = np.repeat(np.arange(sizes.size), sizes)
        return Run(draw(rng, p, 1, groups)[0], groups, float(sizes.max()))

    return run


def large_ones_worse(rng: Random, p: float) -> Run:
    """Groups of two that pass more often than groups of ten; as many of each, and p of all cases pass."""
    sizes = rng.permutation(np.repeat([2, 10], CASES // 12 + 1))
    groups = np.repeat(np.arange(sizes.size), sizes)[:CASES]
    of_small = 1 - (1 - p) / 5
    chance = np.where(sizes[groups] == 2, of_small, (6 * p - of_small) / 5)
    return Run((rng.random(CASES) < chance).astype(float), groups, 10)


KINDS: dict[str, Callable[[Random, float], Run]] = {
    "pass or fail": alone(binary),
    "graded scores": alone(graded),
    "grades of which most are 1": alone(piled),
    "pass or fail, groups of five": grouped(binary_in_groups, equal),
    "graded scores, groups of five": grouped(graded_in_groups, equal),
    "pass or fail, unequal groups": grouped(binary_in_groups, unequal),
    "pass or fail, large groups worse": large_ones_worse,
}


def once(run: Run) -> Decided:
    return _first(run, 1, lambda scores, groups, _: interval(scores, groups, bounded=True))


def peeking(run: Run) -> Decided:
    return _first(run, CASES // EVERY, lambda scores, groups, _: interval(scores, groups, bounded=True))


def planned(run: Run) -> Decided:
    return _first(run, PLANNED, lambda scores, groups, look: planned_interval(scores, groups, look=look, looks=PLANNED))


def anytime(run: Run) -> Decided:
    test = LimitTest(LIMIT, largest=run.largest)
    if run.groups is None:
        units = zip(run.scores.tolist(), [1] * run.scores.size, strict=True)
    else:
        units = zip(np.bincount(run.groups, run.scores).tolist(), np.bincount(run.groups).tolist(), strict=True)
    seen = 0
    for total, size in units:
        test.add(total, size)
        seen += size
        if test.verdict:
            break
    return test.verdict, seen


METHODS = {"one look": once, "peeking": peeking, "5 looks": planned, "anytime": anytime}


def _first(run: Run, looks: int, of: Callable[[Floats, Floats | None, int], Interval]) -> Decided:
    for look, end in enumerate(run.ends(looks), start=1):
        if not end:
            continue
        found = of(run.scores[:end], None if run.groups is None else run.groups[:end], look)
        if found.low is not None and found.high is not None and not found.low <= LIMIT <= found.high:
            return ("above" if found.low > LIMIT else "below"), end
    return None, run.scores.size


def rows(kind: str, runs: int) -> Iterator[list[str]]:
    """A row for each method: its errors at the limit, and at other means what is decided, by how many cases."""
    for method, decide in METHODS.items():
        cells = [kind, method]
        for truth in TRUTHS:
            rng = np.random.default_rng([len(kind), round(1000 * truth)])
            drawn = runs if truth == LIMIT else max(1, runs // 5)
            verdicts, seen = zip(*(decide(KINDS[kind](rng, truth)) for _ in range(drawn)), strict=True)
            above, below = verdicts.count("above") / drawn, verdicts.count("below") / drawn
            right, wrong = (above, below) if truth > LIMIT else (below, above)
            if truth == LIMIT:
                most = SIDE + 2 * math.sqrt(SIDE * (1 - SIDE) / runs)
                cells.append(" / ".join(f"**{side:.1%}**" if side > most else f"{side:.1%}" for side in (above, below)))
            else:
                cells.append(f"{right:.0%}, {np.mean(seen):.0f}" + (f" ({wrong:.1%})" if wrong else ""))
        yield cells


MOST, ADJUSTED = 500, 60
STOPPED = ("pass or fail", "graded scores", "pass or fail, groups of five")


def stopped(kind: str, method: str, truth: float, runs: int) -> str:
    """A cell of runs that stop once a gate on 0.9 is decided."""
    rng = np.random.default_rng([len(kind), round(1000 * truth), 5])
    means: list[tuple[float, float]] = []
    held, any_held = 0, 0
    for place in range(runs):
        run = KINDS[kind](rng, truth)
        cut = Run(run.scores[:MOST], None if run.groups is None else run.groups[:MOST], run.largest)
        _, seen = anytime(cut) if method == "anytime" else planned(cut)
        scores, groups = cut.scores[:seen], None if cut.groups is None else cut.groups[:seen]
        if method == "anytime":
            rule = by_bets(LIMIT, largest=run.largest)
            own = anytime_interval(scores, groups, largest=int(run.largest))
        else:
            rule = by_plan(LIMIT, MOST, PLANNED)
            own = planned_interval(scores, groups, look=round(seen / MOST * PLANNED), looks=PLANNED)
        other = stopped_interval(scores, groups, largest=int(run.largest))
        held += own.low is None or own.high is None or own.low <= truth <= own.high
        any_held += other.low is None or other.high is None or other.low <= truth <= other.high
        if place < ADJUSTED:
            means.append((float(scores.mean()), adjusted_mean(scores, groups, MOST, rule)))
    plain, adjusted = np.array(means).T
    errors = [one.std(ddof=1) / one.size**0.5 for one in (plain, adjusted)]
    shown = f"{plain.mean():.3f} ({errors[0]:.3f}) | {adjusted.mean():.3f} ({errors[1]:.3f})"
    return f"| {kind}, {method}, {truth:g} | {shown} | {held / runs:.1%} | {any_held / runs:.1%} |"


def print_stopped(runs: int) -> None:
    """The table of runs that stop once decided."""
    print(f"{runs} simulations a cell, limit {LIMIT}, at most {MOST} cases\n")
    print("| | plain mean | adjusted | its interval holds | any other holds |\n|---|---|---|---|---|")
    for kind in STOPPED:
        for method in ("anytime", "5 looks"):
            for truth in (0.8, 0.85, 0.95, 0.97):
                print(stopped(kind, method, truth, runs), flush=True)


def exact(cases: int, looks: int, rate: float) -> str:
    """How often planned looks at passes and failures err at the true rate, above / below, without simulation."""
    open_by_passes, above, below, seen = np.ones(1), 0.0, 0.0, 0
    for look in range(1, looks + 1):
        end = cases * look // looks
        more = [math.comb(end - seen, k) * rate**k * (1 - rate) ** (end - seen - k) for k in range(end - seen + 1)]
        open_by_passes, seen = np.convolve(open_by_passes, more), end
        quantile = obrien_fleming(looks) * math.sqrt(looks / look)
        low, high = wilson(np.arange(end + 1), end, NormalDist().cdf(quantile))
        above, below = above + open_by_passes[low > rate].sum(), below + open_by_passes[high < rate].sum()
        open_by_passes[(low > rate) | (high < rate)] = 0
    return f"{above:.1%} / {below:.1%}"


def cost(cases: int = 20_000) -> float:
    """Microseconds of CPU that a case costs as long as nothing is decided."""
    scores = (np.arange(cases) % 10 > 0).astype(float).tolist()
    test = LimitTest(LIMIT)
    begun = time.process_time()
    for score in scores:
        test.add(score)
    assert test.verdict is None
    return (time.process_time() - begun) / cases * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=2000, help="simulations at the limit; a fifth of them at other means"
    )
    parser.add_argument("--stopped", action="store_true", help="what runs that stop once decided report")
    given = parser.parse_args()
    runs = given.runs
    if given.stopped:
        print_stopped(runs)
        return
    error = math.sqrt(SIDE * (1 - SIDE) / runs)
    print(f"{runs} simulations at the limit, {max(1, runs // 5)} at other means. Bold: above 2.5 % by two of its")
    print(f"standard errors, {error:.2%}\n")
    head = ["", "", *(f"{LIMIT}: above / below" if truth == LIMIT else f"{truth:g}" for truth in TRUTHS)]
    print_table(head, (row for kind in KINDS for row in rows(kind, runs)))
    rates = (0.5, 0.8, 0.9, 0.95, 0.98)
    print("\nexact errors of five planned looks at passes and failures, above / below\n")
    print_table(["cases", *map(str, rates)], ([n, *(exact(n, PLANNED, p) for p in rates)] for n in (50, 100, 200, 500)))
    print(f"{min(cost() for _ in range(5)):.1f} microseconds a case ({machine()})")


if __name__ == "__main__":
    main()
