"""How often intervals hold and gates pass falsely where scores have no fixed ends: seconds, dollars, counts.

    python -m bench skewed [--runs 2000]

Each cell has Student's t, as it would be without a rule, and what reports and `compare` say: an interval only where the
mean is not too skewed (`evalflow.stats.skewness`). Less is better, so that a false pass is an interval below the truth:
of t's intervals, and of all runs now, since a run without an interval leaves its gate undecided. Errors in brackets are
those of the simulation. Means of cases alone and in groups of five; paired differences of B = A times something; the
difference of two samples; means by 60 labels of a judge. Outliers add 20 to 1 %, or 10 to 3 %, of scores of about 1.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from evalflow.stats.intervals import interval, mean_error, t_interval
from evalflow.stats.paired import paired_difference
from evalflow.stats.prediction import corrected_mean
from evalflow.stats.unpaired import unpaired_difference

Floats = Any
Random = np.random.Generator
Ends = tuple[float | None, float | None]
Drawn = Callable[[Random], tuple[Ends, Ends]]
"""t's interval, and that of today."""

GROUP, LABELS, WANTED = 5, 60, 0.05


def log_normal(sd: float) -> tuple[float, Callable[[Random, int], Floats]]:
    """The mean and a draw of exp(normal)."""
    return math.exp(sd**2 / 2), lambda rng, n: np.exp(rng.normal(0, sd, n))


def outliers(share: float, size: float) -> tuple[float, Callable[[Random, int], Floats]]:
    """Scores of about 1, of which a share is larger."""
    return 1 + share * size, lambda rng, n: rng.normal(1, 0.2, n) + size * (rng.random(n) < share)


KINDS: dict[str, tuple[float, Callable[[Random, int], Floats]]] = {
    "normal": (3.0, lambda rng, n: rng.normal(3, 1, n)),
    "counts, Poisson of 3": (3.0, lambda rng, n: rng.poisson(3, n).astype(float)),
    "exponential": (1.0, lambda rng, n: rng.exponential(1, n)),
    "log-normal, sd 0.5": log_normal(0.5),
    "log-normal, sd 1": log_normal(1),
    "log-normal, sd 1.5": log_normal(1.5),
    "log-normal, sd 2": log_normal(2),
    "outliers of 10 in 3 %": outliers(0.03, 10),
    "outliers of 20 in 1 %": outliers(0.01, 20),
}


def t_ends(scores: Floats, groups: Floats | None = None) -> Ends:
    """Student's t, whatever the scores."""
    low, high = t_interval(scores.mean(), *mean_error(scores, groups))
    return float(low), float(high)


def means(kind: str, n: int) -> tuple[float, Drawn]:
    """Cases that stand alone."""
    truth, draw = KINDS[kind]

    def drawn(rng: Random) -> tuple[Ends, Ends]:
        scores = draw(rng, n)
        found = interval(scores)
        return t_ends(scores), (found.low, found.high)

    return truth, drawn


def in_groups(kind: str, n: int) -> tuple[float, Drawn]:
    """Cases in groups of five, of which a half of the log's variance, or each outlier, is the group's."""
    truth, draw = KINDS[kind]
    groups = np.arange(n) // GROUP

    def drawn(rng: Random) -> tuple[Ends, Ends]:
        scores = np.where(rng.random(n) < 0.5, draw(rng, n), draw(rng, n // GROUP).repeat(GROUP))
        found = interval(scores, groups)
        return t_ends(scores, groups), (found.low, found.high)

    return truth, drawn


def paired(kind: str, n: int) -> tuple[float, Drawn]:
    """B takes 1.2 times as long as A, with noise of its own; the truth is the margin that it must not pass."""
    mean, draw = KINDS[kind]

    def drawn(rng: Random) -> tuple[Ends, Ends]:
        a = draw(rng, n)
        b = a * rng.uniform(0.9, 1.5, n)
        found = paired_difference(a, b, draws=9)
        return t_ends(b - a), (found.low, found.high)

    return 0.2 * mean, drawn


def samples(kind: str, n: int) -> tuple[float, Drawn]:
    """Two samples, of n cases and of n / 2 that take 1.2 times as long."""
    mean, draw = KINDS[kind]

    def drawn(rng: Random) -> tuple[Ends, Ends]:
        a, b = draw(rng, n), 1.2 * draw(rng, n // 2)
        found = unpaired_difference(a, b)
        (e_a, f_a), (e_b, f_b) = mean_error(a), mean_error(b)
        error = math.hypot(e_a, e_b)
        low, high = t_interval(b.mean() - a.mean(), error, error**4 / (e_a**4 / f_a + e_b**4 / f_b))
        return (float(low), float(high)), (found.low, found.high)

    return 0.2 * mean, drawn


def labelled(kind: str, n: int) -> tuple[float, Drawn]:
    """A judge's scores of n answers, corrected by 60 labels more; t is that of the labels alone."""
    truth, draw = KINDS[kind]

    def drawn(rng: Random) -> tuple[Ends, Ends]:
        people = draw(rng, n + LABELS)
        judged = 0.8 * people * rng.uniform(0.7, 1.3, people.size)
        found = corrected_mean(people[:LABELS], judged[:LABELS], judged[LABELS:])
        return t_ends(people[:LABELS]), (found.low, found.high)

    return truth, drawn


def cells() -> Iterator[tuple[str, float, Drawn]]:
    """The name, the truth and the draw of each cell."""
    for kind, n in product(KINDS, (10, 20, 50, 100, 200, 1000)):
        yield f"{kind}, n = {n}", *means(kind, n)
    for kind, n in product(("normal", "exponential", "log-normal, sd 1", "log-normal, sd 2"), (100, 500)):
        yield f"{kind}, n = {n} in groups of five", *in_groups(kind, n)
    for kind, n in product(("normal", "log-normal, sd 1", "log-normal, sd 2"), (20, 50, 100, 200)):
        yield f"{kind}, paired difference, n = {n}", *paired(kind, n)
        yield f"{kind}, samples of {n} and {n // 2}", *samples(kind, n)
    for kind in ("normal", "exponential", "log-normal, sd 1", "log-normal, sd 2"):
        yield f"{kind}, {LABELS} labels of 500", *labelled(kind, 500)


def line(name: str, truth: float, drawn: list[tuple[Ends, Ends]]) -> str:
    """A row of the table, from all runs."""
    runs, before = len(drawn), [one for one, _ in drawn]
    now: list[Ends] = [(low, high) for _, (low, high) in drawn if low is not None and high is not None]
    held, passed, other = _shares(before, truth, runs)
    _, passes_now, other_now = _shares(now, truth, runs)
    error = (passes_now * (1 - passes_now) / runs) ** 0.5
    mark = "**" if max(passes_now, other_now) > WANTED + 2 * error else ""
    shown = f"{len(now) / runs:.0%} | {mark}{passes_now:.1%}{mark} ({error:.1%}) | {other_now:.1%}"
    return f"| {name} | {held:.1%} | {passed:.1%} | {other:.1%} | {shown} |"


def _shares(ends: list[Ends], truth: float, runs: int) -> tuple[float, float, float]:
    """The shares of all runs that hold the truth, lie below it, and lie above it."""
    below = sum(high is not None and high < truth for _, high in ends) / runs
    above = sum(low is not None and low > truth for low, _ in ends) / runs
    return len(ends) / runs - below - above, below, above


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="simulations of a cell")
    runs = parser.parse_args().runs
    print(f"{runs:,} simulations a cell; bold: an error of over 5 % by two standard errors\n")
    print("| | t holds | t: false pass | other side | interval now | now: false pass | other side |")
    print("|---|---|---|---|---|---|---|")
    for seed, (name, truth, drawn) in enumerate(cells()):
        rng = np.random.default_rng([seed, 7])
        print(line(name, truth, [drawn(rng) for _ in range(runs)]), flush=True)


if __name__ == "__main__":
    main()
