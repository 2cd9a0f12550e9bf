"""Item analysis of cases over several systems: difficulty, discrimination, and whether the answer key is suspect.

Discrimination is the correlation, over the systems, of a case's scores with the systems' mean scores on all other cases
(item-rest correlation; Lord & Novick 1968, ch. 15), with Fisher's interval. A case on which better systems score worse
may have a wrong key. Its one-sided p-value is that of Student's t, but at least the smallest possible of a permutation
test: one divided by the number of distinct orders of these scores. So few systems never look like proof. The p-values
are adjusted for the number of cases (Benjamini & Hochberg 1995).

**A short set** of cases preserves the systems' mean scores. Cases are drawn at equal distances from a list ordered by
tag, then by mean score (systematic sampling, Cochran 1977, ch. 8). Among many such draws, the one is chosen whose means
differ least from those of all cases (balanced sampling, Deville & Tille 2004, Biometrika 91:893). The loss is
cross-validated: systems are divided into folds, cases are chosen without a fold's systems, and the means of these on
the chosen cases are compared with those on all cases. Random sets of the same size are measured in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evalflow.lazy import np
from evalflow.stats.arrays import ROUNDING, UPPER, ArrayLike, Floats, Ints, cluster_codes
from evalflow.stats.paired import adjust
from evalflow.stats.quantiles import normal_quantile, quantile, student_tail

FEWEST_SYSTEMS = 5
"""With fewer systems discrimination is undefined: in one of 20 cases four points correlate by chance with 0.95."""


@dataclass(frozen=True, slots=True)
class Items:
    """One entry per case: its mean score and standard deviation over the systems; 0 if it does not separate them.

    `discrimination` with its interval, and `p_adjusted`, are NaN for fewer than `FEWEST_SYSTEMS`, and for a case
    without spread. A small `p_adjusted` shows that better systems score worse.
    """

    mean: Floats
    spread: Floats
    discrimination: Floats
    low: Floats
    high: Floats
    p_adjusted: Floats


def items(scores: ArrayLike) -> Items:
    """The item statistics of scores of shape (cases, systems), with higher as better."""
    table = np.asarray(scores, dtype=np.float64)
    cases, systems = table.shape
    mean, spread = table.mean(axis=1), table.std(axis=1, ddof=1)
    spread = np.where(spread <= ROUNDING * np.maximum(1.0, np.abs(table).max(axis=1)), 0.0, spread)
    if systems < FEWEST_SYSTEMS or cases < 2:
        none = np.full(cases, np.nan)
        return Items(mean, spread, none, none, none, none)
    rest = (table.sum(axis=0) - table) / (cases - 1)
    own, other = (part - part.mean(axis=1, keepdims=True) for part in (table, rest))
    size = np.sqrt((own**2).sum(axis=1) * (other**2).sum(axis=1))
    known = (spread > 0) & (size > ROUNDING)
    r = np.full(cases, np.nan)
    r[known] = np.clip((own * other).sum(axis=1)[known] / size[known], -1, 1)
    with np.errstate(divide="ignore"):
        half = normal_quantile(UPPER) / np.sqrt(systems - 3)
        low, high = np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)
        below = student_tail(systems - 2, r * np.sqrt((systems - 2) / (1 - r**2)))
    p = np.where(known, np.maximum(below, _least_p(table)), np.nan)
    return Items(mean, spread, r, low, high, adjust(p, "bh"))


def _least_p(table: Floats) -> Floats:
    """One divided by the number of distinct orders of each case's scores."""
    systems = table.shape[1]
    log_factorials: Floats = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, systems + 1, dtype=np.float64)))])
    ordered = np.sort(table, axis=1)
    starts = np.ones(table.shape, dtype=bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    runs = np.cumsum(starts.ravel()) - 1
    sizes = np.bincount(runs)
    of_case = np.nonzero(starts.ravel())[0] // systems
    ties = np.bincount(of_case, log_factorials[sizes], table.shape[0])
    return np.exp(ties - log_factorials[systems])


FEWEST_TO_MEASURE = 4  # with fewer systems too few are left to choose by and to measure with
_DRAWS = 200
_FOLDS = 5
_REPEATS = 5
_RANDOM = 200


@dataclass(frozen=True, slots=True)
class Loss:
    """How much a short set of cases loses, on systems that were not used to choose it."""

    # Mean distance of a system's mean from its mean on all cases; the same for a random set of equal size.
    error: float
    random_error: float
    # Share of the pairs with a held-out system that keep their order; NaN if all systems have the same mean.
    order: float
    random_order: float
    # Difference between the error of a random set and this error, with its 95 % interval over the systems.
    gain: float
    low: float
    high: float


def choose(scores: ArrayLike, n: int, strata: ArrayLike | None = None, *, seed: int = 0) -> Ints:
    """Return the sorted indices of n cases that preserve the means of these scores, of shape (cases, systems).

    `strata` names the stratum of each case, such as its tag; each gets its share of the n. ValueError without n cases.
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
    """The loss of `choose` with these scores, by cross-validation over at least `FEWEST_TO_MEASURE` systems."""
    table = np.asarray(scores, dtype=np.float64)
    cases, systems = table.shape
    if systems < FEWEST_TO_MEASURE:
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
    """Share of the pairs with a held-out system that keep their order, without pairs tied on all cases."""
    j, k = np.nonzero(aside[:, None] & (np.arange(full.size)[:, None] != np.arange(full.size)))
    apart = np.abs(full[j] - full[k]) > ROUNDING
    j, k = j[apart], k[apart]
    if not j.size:
        return math.nan
    return float((np.sign(means[:, j] - means[:, k]) == np.sign(full[j] - full[k])).mean())
