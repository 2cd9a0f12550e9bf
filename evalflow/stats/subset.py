"""A small set of cases that keeps the scores of several systems, and what it loses, measured on systems left aside.

Cases are drawn at equal distances from a list ordered by tag, then by mean score (systematic sampling, Cochran 1977,
ch. 8). Of many such draws the one is taken whose means differ least from those of all cases (balanced sampling,
Deville & Tille 2004, Biometrika 91:893).

What is chosen on some systems is measured on others: systems are dealt into folds, cases chosen without the systems of
a fold, and these compared with all. Random sets of the same size are measured in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.lazy import np
from evalflow.stats.arrays import ROUNDING, UPPER, cluster_codes
from evalflow.stats.quantiles import quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from evalflow.stats.arrays import Floats, Ints


FEWEST_SYSTEMS = 4  # with fewer systems too little is left to choose by, and to measure with
_DRAWS = 200
_FOLDS = 5
_REPEATS = 5
_RANDOM = 200


@dataclass(frozen=True, slots=True)
class Loss:
    """What a short set of cases loses, on systems that had no part in choosing it.

    Attributes:
        error, random_error: Mean distance of a system's mean from that on all cases; of a random set of the same size.
        order, random_order: Share of the pairs of systems, one of them left aside, that stand in the same order;
            NaN if all systems have the same mean.
        gain, low, high: How much smaller the error is than a random set's, with its 95 % interval over the systems.
    """

    error: float
    random_error: float
    order: float
    random_order: float
    gain: float
    low: float
    high: float

    @property
    def is_better(self) -> bool:
        """Whether the set is shown to be better than a random one."""
        return self.low > 0


def choose(scores: ArrayLike, n: int, strata: ArrayLike | None = None, *, seed: int = 0) -> Ints:
    """The places of n cases, in order, that keep the means of these scores of shape (cases, systems).

    `strata` has a name for each case, such as its tag; each has its share of the cases. ValueError without n cases.
    """
    table = np.asarray(scores, dtype=np.float64)
    cases = table.shape[0]
    if not 1 <= n <= cases:
        raise ValueError(f"{n} of {cases} cases")
    names = np.zeros(cases, dtype=np.int64)
    if strata is not None:
        names = cluster_codes(strata)
    rng = np.random.default_rng(seed)
    full, hard = table.mean(axis=0), table.mean(axis=1)
    best, least = np.arange(n), math.inf
    keys: list[Floats] = [rng.random(cases), hard, names.astype(np.float64)]
    order = np.lexsort(keys)
    for _ in range(_DRAWS):
        places: Ints = order[((np.arange(n) + rng.random(n)) * cases / n).astype(np.int64)]
        if (distance := float(((table[places].mean(axis=0) - full) ** 2).sum())) < least:
            best, least = places, distance
    return np.sort(best)


def measured_loss(scores: ArrayLike, n: int, strata: ArrayLike | None = None, *, seed: int = 0) -> Loss:
    """What `choose` loses with these scores, by cross-validation over at least `FEWEST_SYSTEMS` systems."""
    table = np.asarray(scores, dtype=np.float64)
    cases, systems = table.shape
    if systems < FEWEST_SYSTEMS:
        raise ValueError(f"{systems} systems")
    rng = np.random.default_rng(seed)
    full = table.mean(axis=0)
    by_chance = np.stack([table[rng.choice(cases, n, replace=False)].mean(axis=0) for _ in range(_RANDOM)])
    chosen_error, random_error = np.zeros((2, systems))
    orders: list[tuple[float, float]] = []
    for repeat in range(_REPEATS):
        dealt: Ints = np.arange(systems, dtype=np.int64) % min(systems, _FOLDS)
        fold: Ints = rng.permutation(dealt)
        for aside in (fold == number for number in range(fold.max() + 1)):
            places = choose(table[:, ~aside], n, strata, seed=seed + 1 + repeat)
            means = table[places].mean(axis=0)
            chosen_error[aside] += np.abs(means - full)[aside] / _REPEATS
            random_error[aside] += np.abs(by_chance - full).mean(axis=0)[aside] / _REPEATS
            orders.append((_same_order(means[None], full, aside), _same_order(by_chance, full, aside)))
    gains = random_error - chosen_error
    half = quantile(UPPER, systems - 1) * float(gains.std(ddof=1)) / math.sqrt(systems)
    order, random_order = np.mean(orders, axis=0).tolist()
    gain = float(gains.mean())
    return Loss(
        float(chosen_error.mean()), float(random_error.mean()), order, random_order, gain, gain - half, gain + half
    )


def _same_order(means: Floats, full: Floats, aside: Floats) -> float:
    """Share of the pairs of a system aside with any other that keep their order, without those that tie in full."""
    j, k = np.nonzero(aside[:, None] & (np.arange(full.size)[:, None] != np.arange(full.size)))
    apart = np.abs(full[j] - full[k]) > ROUNDING
    j, k = j[apart], k[apart]
    if not j.size:
        return math.nan
    return float((np.sign(means[:, j] - means[:, k]) == np.sign(full[j] - full[k])).mean())
