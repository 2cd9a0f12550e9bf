"""How often a plan with an assurance of 80 % has enough cases, over the cases that a pilot happens to have.

    python bench/planning.py [PILOTS]

Each pilot (4,000 by default) gives a plan. For scores it has enough cases if its variance is not below the true one; in
brackets by the chi-square limit with n - 1 degrees of freedom, which holds for normal scores. For a pass rate (an
interval 0.1 wide) and flips (a difference of 0.1) it has as many cases as the true share needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import chdtri

from evalflow.stats.power import cases_needed_to_flip
from evalflow.stats.variance import Components, variance_limit
from evalflow.summary.plan import Basis, Level

SIZES = (20, 50, 100, 200)
ASSURANCE = 0.8
GROUP = 5


def _piled(rng: np.random.Generator, n: int) -> Any:
    """Grades of which most are exactly 1, as of a good bot."""
    return np.where(rng.random(n) < 0.3, rng.beta(8 / 3, 4 / 3, n), 1.0)


def _grouped(rng: np.random.Generator, n: int) -> Any:
    """Graded scores in groups of five, with an intraclass correlation of about 0.3."""
    return np.clip(np.repeat(rng.normal(0.6, 0.11, n // GROUP), GROUP) + rng.normal(0, 0.17, n), 0, 1)


SCORES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "graded, mean 0.7": lambda rng, n: rng.beta(2.8, 1.2, n),
    "most exactly 1, mean 0.9": _piled,
    "difference of two such": lambda rng, n: _piled(rng, n) - _piled(rng, n),
    "groups of five": _grouped,
}


def of_scores(rng: np.random.Generator, draw: Callable[..., Any], n: int, pilots: int) -> tuple[float, float]:
    """Shares of plans with enough cases: by the fourth moment, and by n - 1 degrees of freedom."""
    groups = np.arange(n) // GROUP if draw is _grouped else None
    units = n if groups is None else n // GROUP

    def variance(scores: Any) -> float:
        """Of one case, so that the mean's variance is this over n."""
        if draw is not _grouped:
            return float(scores.var(ddof=1))
        return float(scores.reshape(-1, GROUP).mean(axis=1).var(ddof=1) * GROUP)

    true, enough = variance(draw(rng, 1_000_000)), np.zeros(2)
    for _ in range(pilots):
        scores = draw(rng, n)
        found = variance(scores)
        limits = variance_limit(scores, groups, ASSURANCE), (units - 1) / chdtri(units - 1, ASSURANCE)
        enough += [found > 0 and found * limit >= true for limit in limits]
    return tuple(enough / pilots)


def of_shares(rng: np.random.Generator, n: int, pilots: int, *, rate: float | None, flips: float | None) -> float:
    """Share of plans with enough cases, for a width by the pass rate or a difference by the flips."""
    parts = Components(0, 0.0, None, None)

    def cases(basis: Basis) -> int:
        return basis.cases_for_width(0.1, 1, 1) if flips is None else basis.cases_to_detect(0.1, 1, 1, Level())

    def basis(share: float) -> Basis:
        return Basis("", [], parts, parts, 0.0, **{"rate" if flips is None else "flips": share}, sampled=n)

    true = rate if flips is None else flips
    assert true is not None
    needed = cases(basis(true)) if flips is None else np.ceil(cases_needed_to_flip((true - 0.1) / 2, (true + 0.1) / 2))
    seen = rng.binomial(n, true, pilots)
    by_share = {share: cases(basis(share / n).assured(ASSURANCE)) >= needed for share in set(seen.tolist())}
    return float(np.mean([by_share[share] for share in seen.tolist()]))


def main() -> None:
    """Print the table."""
    pilots = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    rng = np.random.default_rng(7)
    print("| enough cases, wanted 80 % | " + " | ".join(f"n = {n}" for n in SIZES) + " |")
    print("|---|" + "---:|" * len(SIZES))
    for name, draw in SCORES.items():
        cells = [of_scores(rng, draw, n, pilots) for n in SIZES]
        print(f"| {name} | " + " | ".join(f"{a:.1%} ({b:.1%})" for a, b in cells) + " |")
    for rate in (0.9, 0.6):
        print(
            f"| pass rate {rate} | "
            + " | ".join(f"{of_shares(rng, n, pilots, rate=rate, flips=None):.1%}" for n in SIZES)
            + " |"
        )
    for flips in (0.15, 0.3):
        print(
            f"| share of flips {flips} | "
            + " | ".join(f"{of_shares(rng, n, pilots, rate=None, flips=flips):.1%}" for n in SIZES)
            + " |"
        )


if __name__ == "__main__":
    main()
