"""How often a gate passes where the truth lies just at its limit, and how often intervals hold, where that is hard.

    python -m bench false_passes [--runs 1000] [--only margins]

The cells are those where audits found intervals too narrow: means that pile up at 1, ties, few groups of very unequal
size, groups that go bad as wholes, differences at a margin that few cases miss by much, means over classes of which one
is rare, and the calibration error of calibrated confidences. A gate such as
`mean: ">= 0.9"` passes if the interval lies above the limit; where the limit is the truth, that is a false pass, wanted
in at most 3.5 % (2.5 % nominal). For errors, of which less is better, a false pass is an interval below the truth. In
brackets: the simulation's standard error. The caveat is what stands beside the number in most runs, after the method.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from _draws import Floats, binary, binary_in_groups, graded, graded_in_groups, piled, ties
from _wholes import margins, wholes

from evalflow.stats.classification import classification_figures, means
from evalflow.stats.classification import of_class as ratios_of
from evalflow.stats.figures import Figure, reliability_figures
from evalflow.stats.intervals import interval

WANTED, PASSES = (0.93, 0.97), 0.035
Random = np.random.Generator
Ends = tuple[float | None, float | None, str]
Drawn = Callable[[Random], Ends]
Groups = Callable[[Random, int], Any]


def log_normal(rng: Random, groups: int) -> Any:
    """Groups of ten cases on average, log-normal sizes with a standard deviation of 1 of their logarithm."""
    return np.repeat(np.arange(groups), np.maximum(1, np.round(np.exp(rng.normal(1.8, 1, groups)))).astype(int))


def zipf(_: Random, groups: int) -> Any:
    """Groups whose sizes are as 1, 1/2, 1/3 ..., ten cases on average."""
    shares = 1 / np.arange(1, groups + 1)
    return np.repeat(np.arange(groups), np.maximum(1, np.round(10 * groups * shares / shares.sum())).astype(int))


def dominated(_: Random, groups: int) -> Any:
    """Groups of ten cases, but one that holds 30 % of all."""
    return np.repeat(np.arange(groups), [round(0.3 / 0.7 * 10 * (groups - 1)), *[10] * (groups - 1)])


def mean(draw: Callable[..., Floats], p: float, n: int) -> Drawn:
    """The interval of the mean of n cases that stand alone."""

    def drawn(rng: Random) -> Ends:
        found = interval(draw(rng, p, 1, n)[0], bounded=True)
        return found.low, found.high, found.method

    return drawn


def grouped_mean(draw: Callable[..., Floats], p: float, groups: Groups, n: int) -> Drawn:
    """The interval of the mean of cases in n groups."""

    def drawn(rng: Random) -> Ends:
        own = groups(rng, n)
        found = interval(draw(rng, p, 1, own)[0], own, bounded=True)
        return found.low, found.high, found.method

    return drawn


def over_classes(shares: tuple[float, ...], right: float, n: int, group: int = 1) -> tuple[dict[str, float], Any]:
    """True figures of a classifier that is right in each class with this chance, and a draw of all of them."""
    names = [f'"{place}"' for place in range(len(shares))]
    pairs = [(truth, prediction) for truth in names for prediction in names]
    wrong = (1 - right) / (len(shares) - 1)
    chances = np.array(
        [share * (right if a == b else wrong) for a, share in enumerate(shares) for b in range(len(names))]
    )
    truths = means({name: list(ratios_of(pairs, name).values()) for name in names})
    known = {name: float(of(chances[None, :])[0]) for name, of in truths.items()}

    def drawn(rng: Random) -> list[Figure]:
        own, shared = rng.choice(len(pairs), n, p=chances), rng.choice(len(pairs), n // group, p=chances).repeat(group)
        cell = np.where(rng.random(n) < 0.2**0.5, shared, own) if group > 1 else own
        frame = pl.DataFrame(
            {
                "cluster": np.arange(n) // group,
                "truth": [pairs[c][0] for c in cell],
                "prediction": [pairs[c][1] for c in cell],
            }
        )
        counts = frame.group_by("cluster" if group > 1 else pl.lit(0), "truth", "prediction").agg(n=pl.len())
        if group == 1:  # as `summary.figures` merges records that stand alone
            counts = (
                counts.select("truth", "prediction", clusters="n").with_row_index("cluster").with_columns(n=pl.lit(1))
            )
        else:
            counts = counts.with_columns(clusters=pl.lit(1))
        return classification_figures(counts, None, int(rng.integers(2**31)))

    return known, drawn


CONFIDENCES: dict[str, Callable[[Random, int], Floats]] = {
    "0.5 to 1": lambda rng, n: rng.uniform(0.5, 1, n),
    "0.8, 0.9, 0.95, 0.99": lambda rng, n: rng.choice([0.8, 0.9, 0.95, 0.99], n, p=[0.1, 0.2, 0.5, 0.2]),
    "0.7, 0.9, 1": lambda rng, n: rng.choice([0.7, 0.9, 1.0], n, p=[0.1, 0.3, 0.6]),
}


def calibration(kind: str, off: float, n: int, group: int = 1) -> tuple[float, Drawn]:
    """The true calibration error of confidences that are too high by `off`, and a draw of its interval."""

    def drawn(rng: Random) -> Ends:
        stated = CONFIDENCES[kind](rng, n)
        luck = rng.random(n)
        if group > 1:  # as in `graded_in_groups`: some share their luck
            luck = np.where(rng.random(n) < 0.2**0.5, rng.random(n // group).repeat(group), luck)
        frame = pl.DataFrame(
            {
                "cluster": np.arange(n) // group,
                "confidence": stated,
                "correct": luck < stated - off,
                "n": 1,
                "clusters": 1,
            }
        )
        ece = reliability_figures(frame, int(rng.integers(2**31)))[1]
        return ece.low, ece.high, str(ece.method)

    return off, drawn


def cells() -> Iterator[tuple[str, float, Drawn]]:
    """The name, the truth and the draw of each cell of a mean."""
    for n in (5, 10, 20, 29, 30, 50, 100, 200):
        yield f"grades of which most are 1, 0.945, n = {n}", 0.945, mean(piled, 0.945, n)
    for n in (30, 60, 150):
        yield f"win rates with ties, 0.94, n = {n}", 0.94, mean(ties, 0.94, n)
        yield f"pass or fail, 0.94, n = {n}", 0.94, mean(binary, 0.94, n)
        yield f"graded, 0.94, n = {n}", 0.94, mean(graded, 0.94, n)
    kinds = ((graded_in_groups, "graded"), (binary_in_groups, "pass or fail"))
    for (draw, what), p in product(kinds, (0.7, 0.95)):
        for groups, sizes in ((log_normal, "log-normal"), (zipf, "as 1, 1/2 ..."), (dominated, "one holds 30 %")):
            for n in (6, 10, 20, 50):
                yield f"{what}, {p}, {n} groups, sizes {sizes}", p, grouped_mean(draw, p, groups, n)


def line(name: str, truth: float, ends: list[Ends], *, less_is_better: bool = False) -> str:
    """A row of the table, from the intervals of all runs."""
    given = [(low, high) for low, high, _ in ends if low is not None and high is not None]
    if not given:
        return f"| {name} | no interval | | | |"
    above = sum(low > truth + 1e-12 for low, _ in given) / len(given)
    below = sum(high < truth - 1e-12 for _, high in given) / len(given)
    passes, other = (below, above) if less_is_better else (above, below)
    covered, n = 1 - above - below, len(given)

    def noise(rate: float) -> float:
        return (rate * (1 - rate) / n) ** 0.5

    slack = 2 * noise(0.95)
    mark = "**" if not WANTED[0] - slack <= covered <= WANTED[1] + slack else ""
    wrong = "**" if passes > PASSES + 2 * noise(PASSES) else ""
    method, _, why = Counter(method for *_, method in ends).most_common(1)[0][0].partition(": ")
    none = f", none in {1 - n / len(ends):.0%}" if n < 0.995 * len(ends) else ""
    why = "" if method.startswith("wilson") else why
    shown = f"{mark}{covered:.1%}{mark} ({noise(covered):.1%}){none} | {wrong}{passes:.1%}{wrong} ({noise(passes):.1%})"
    return f"| {name} | {shown} | {other:.1%} | {method}{f': {why}' if why else ''} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="simulations of a cell")
    parser.add_argument("--only", choices=("means", "margins", "wholes", "ece", "classes"), help="some of the cells")
    given = parser.parse_args()
    runs, only = given.runs, given.only
    print(f"{runs:,} simulations a cell; bold: outside 93 to 97 %, or over 3.5 % false passes, by two standard errors")
    print("\n| | holds | false pass | other side | method and caveat |\n|---|---|---|---|---|")
    for part, of_part in (("means", cells), ("margins", margins), ("wholes", wholes)):
        for seed, (name, truth, drawn) in enumerate(of_part() if only in (None, part) else ()):
            rng = np.random.default_rng([seed, 7])
            print(line(name, truth, [drawn(rng) for _ in range(runs)]), flush=True)
    if only in (None, "ece"):
        of_calibration(runs)
    if only in (None, "classes"):
        of_classes(runs)


def of_calibration(runs: int) -> None:
    """Print the rows of calibration errors."""
    for kind in CONFIDENCES:
        for n, group in ((30, 1), (100, 1), (1000, 1), (300, 5)):
            for off in (0.0, 0.1):
                truth, drawn = calibration(kind, off, n, group)
                rng = np.random.default_rng([n, group, round(100 * off)])
                name = f"ece, states {kind}, too high by {off:g}, n = {n}{', groups of five' if group > 1 else ''}"
                print(line(name, truth, [drawn(rng) for _ in range(runs)], less_is_better=True), flush=True)


def of_classes(runs: int) -> None:
    """Print the rows of means over classes."""
    for shares in ((0.7, 0.25, 0.05), (0.5, 0.3, 0.18, 0.02)):
        for right in (0.7, 0.95):
            for n, group in ((60, 1), (200, 1), (600, 1), (300, 5)):
                known, draw_all = over_classes(shares, right, n, group)
                rng = np.random.default_rng([len(shares), round(100 * right), n, group])
                all_of: dict[str, list[Ends]] = {}
                for _ in range(runs):
                    for one in draw_all(rng):
                        all_of.setdefault(one.statistic, []).append((one.low, one.high, str(one.method)))
                for name in ("macro_precision", "macro_recall", "macro_f1", "weighted_f1"):
                    where = f"rarest class {min(shares):.0%}, right {right:.0%}, n = {n}"
                    where += ", groups of five" if group > 1 else ""
                    print(line(f"{name}, {where}", known[name], all_of[name]), flush=True)


if __name__ == "__main__":
    main()
