"""Intervals and decisions that remain valid if the data are looked at more than once.

An interval of `intervals` is valid for one look. Anyone who looks after every case, and stops once the interval
excludes a limit, errs far more often than the interval claims. Two methods allow more looks; over all of them, an end
errs with

    anytime    at most 2.5 %: betting, however often and whenever one looks
    planned    about 2.5 %: O'Brien-Fleming, at a number of equally spaced looks that is fixed before the first

**Betting** (Waudby-Smith & Ramdas 2024, JRSS B 86:1, arXiv:2010.09686). To show that a mean lies above a limit m, a
capital of 1 is bet on each case. A bet u in 0..1 multiplies it by 1 - u + u x / m for a score x in 0..1: if the mean is
m or less, no bet gains on average, and the probability that the capital ever reaches 1 / a is at most a (Ville 1939).
The capital is spread evenly over all bets before the first case. For passes and failures that is the beta mixture,
uniform over the rates above m (Robbins 1970; Howard et al. 2021, Annals of Statistics 49:1055). The same bets are valid
for any scores in 0..1, so it does not matter whether the scores so far happen to be ones and zeros. To show that the
mean lies below m, the same is done with 1 - x and 1 - m.

**Clusters** get a single bet each: for a cluster of S scores with the sum T the factor is 1 + u (T / m - S) / L, where
L is the largest size, fixed beforehand. The limits are then those of the mean over cases, sum T / sum S, even if large
clusters score differently from small ones; cluster means would estimate something else. For the same reason a bet must
not depend on the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import Literal

from evalflow.lazy import np
from evalflow.stats.arrays import CONFIDENCE, ArrayLike, Floats, Interval, cluster_codes, cluster_sums, no_interval
from evalflow.stats.intervals import UNEVEN, interval, mean_error

Side = Literal["above", "below"]
# Bets are equally spaced on the logit scale, so that one of them suits any effect; a finer grid gains nothing.
_SMALLEST, _LARGEST, _STEP = -8.0, 5.0, 0.25
# Number of units whose capital is computed at once. In between, negligible capital is dropped: subnormals are slow.
_CHUNK = 256
_LOST = 1e-250
# Accuracy of an interval's ends, which are rounded outwards.
_ACCURACY = 1e-6
# Limits of 0 and 1 are moved inside by this much.
_EDGE = 1e-9
# Below this tail probability there is no interval: that of the first of many planned looks is practically 0.
_TAIL = 1e-12


class LimitTest:
    """Tests after every case whether a mean lies above or below a limit in 0..1; `verdict` is None until it is decided.

    A verdict is final, and wrong with a probability of at most (1 - level) / 2, however often the caller looks.
    `largest` is the maximum cluster size, fixed beforehand; 1 without clusters. `only` tests one side only.
    """

    def __init__(
        self, limit: float, *, level: float = CONFIDENCE, largest: float = 1.0, only: Side | None = None
    ) -> None:
        self._sides: tuple[Side, ...] = ("above", "below") if only is None else (only,)
        self._needed, self._largest = 2 / (1 - level), largest
        limit = _inside(limit)
        bets, self._shares = bet_grid()
        bets = bets / largest
        # The factor of a bet's capital is linear in a cluster's sum and size: first row above the limit, second below.
        self._by_total = np.array([bets / limit, -bets / (1 - limit)])
        self._by_size = np.array([-bets, bets * limit / (1 - limit)])
        self._of_a_case = 1 + self._by_size
        self._capital = np.ones_like(self._by_size)
        self._peak = 1.0
        self.verdict: Side | None = None

    @property
    def p_value(self) -> float:
        """The two-sided p-value that the mean is the limit, valid at every look: 2 / the largest capital so far."""
        return min(1.0, 2 / self._peak)

    def add(self, total: float, size: float = 1.0) -> None:
        """Add a case's score, or the sum and size of a whole cluster, in the order of drawing."""
        if not (0 <= total <= size <= self._largest):
            raise ValueError(
                f"{size:g} scores of 0..1 cannot sum to {total:g}, or exceed the largest size of {self._largest:g}"
            )
        if self.verdict is not None:
            return
        factors = self._by_total * total
        factors += self._of_a_case if size == 1 else 1 + self._by_size * size
        self._capital *= factors
        above, below = self._capital.dot(self._shares).tolist()
        capital: dict[Side, float] = {"above": above, "below": below}
        side = max(self._sides, key=capital.__getitem__)
        self._peak = max(self._peak, capital[side])
        if self._peak >= self._needed:
            self.verdict = side


def anytime_interval(
    values: ArrayLike, clusters: ArrayLike | None = None, *, level: float = CONFIDENCE, largest: int | None = None
) -> Interval:
    """A confidence sequence of the mean of scores in 0..1, at their present number.

    It is the intersection of the intervals after each score so far, so it never widens as scores are added. The order
    of `values` must be random; clusters count in the order of their last scores, even if the last is incomplete. Each
    end errs with a probability of at most (1 - level) / 2, over all numbers of scores together. `largest` is the
    largest possible cluster size, fixed beforehand; by default the largest in the data. ValueError for a score outside
    0..1, or a larger cluster.
    """
    x = np.asarray(values, dtype=np.float64)
    if not x.size:
        return no_interval("no scores")
    if not ((x >= 0) & (x <= 1)).all():
        raise ValueError("a score is outside 0..1")
    sums, sizes = units_of(x, clusters)
    most = float(sizes.max())
    if largest is not None and most > largest:
        raise ValueError(f"a cluster has {most:.0f} scores, more than the largest of {largest}")
    bound = largest or most
    low = _lower_end(sums, sizes, bound, 2 / (1 - level))
    high = 1 - _lower_end(sizes - sums, sizes, bound, 2 / (1 - level))
    if low > high:
        return no_interval("early and late scores contradict each other, so their order is not random")
    method = betting_method(x, sizes, bound, given=largest is not None)
    error = mean_error(x, clusters)[0]
    return Interval(low, high, None if math.isnan(error) else error, method)


def betting_method(values: Floats, sizes: Floats, largest: float, *, given: bool) -> str:
    """The method's name for scores in clusters of these sizes; `given`: the largest size was fixed beforehand."""
    if largest <= 1:
        return "beta_mixture" if np.isin(values, (0.0, 1.0)).all() else "betting"
    cautions = [] if given else ["size of the largest cluster from the data"]
    cautions += [UNEVEN] if largest > 2 * sizes.mean() else []
    return ": ".join(["cluster_betting", ", ".join(cautions)] if cautions else ["cluster_betting"])


def planned_interval(
    values: ArrayLike, clusters: ArrayLike | None, *, look: int, looks: int, level: float = CONFIDENCE
) -> Interval:
    """The repeated confidence interval of a mean at one of several planned looks, by O'Brien-Fleming bounds.

    This is the interval of `intervals` with the normal or t quantile of the bound's tail (O'Brien & Fleming 1979,
    Biometrics 35:549; Jennison & Turnbull 2000, chapters 3.8 and 9). It is very wide at early looks, and at the last
    little wider than for a single look. Looks are equally spaced, counted from 1, and their number is fixed before the
    first; each end errs with about (1 - level) / 2 over all of them. ValueError if `look` is outside.
    """
    if not 1 <= look <= looks:
        raise ValueError(f"look {look} is not in 1..{looks}")
    bound = obrien_fleming(looks, level) * math.sqrt(looks / look)
    tail = max(NormalDist().cdf(-bound), _TAIL)
    ci = interval(values, clusters, bounded=True, upper=1 - tail)
    if ci.low is None:
        return ci
    caution = ci.method.partition(":")[2]
    caution = "" if "rule of three" in caution else caution
    return Interval(ci.low, ci.high, ci.std_error, f"obrien_fleming:{caution}" if caution else "obrien_fleming")


@cache
def obrien_fleming(looks: int, level: float = CONFIDENCE) -> float:
    """The normal quantile at the last of several equally spaced looks; at look k it is sqrt(looks / k) times this.

    It solves P(S_k >= bound sqrt(looks) for some k) = (1 - level) / 2 for sums S_k of k standard normal variables, by
    recursive integration (Armitage, McPherson & Rowe 1969; Jennison & Turnbull 2000, chapter 19). Agrees with two-sided
    tables to three decimals: 2.040 for five looks at 0.95.
    """
    tail = (1 - level) / 2
    single = NormalDist().inv_cdf(1 - tail)
    reach = 9 * math.sqrt(looks)
    grid = np.polynomial.legendre.leggauss(40 + 4 * math.ceil(reach))
    return root_below(
        lambda bound: _crossing(bound * math.sqrt(looks), looks, reach, *grid) > tail, single, 2 * single, 1e-8
    )


def _crossing(bound: float, looks: int, reach: float, nodes: Floats, weights: Floats) -> float:
    """The chance that a sum of standard normal variables is above `bound` at one of the looks.

    `nodes` and `weights`, on -1..1, are for the integrals from -reach; the probability below that is negligible.
    """
    half = (bound + reach) / 2
    sums = half * (nodes + 1) - reach
    step = np.exp(-((sums[:, None] - sums) ** 2) / 2) / math.sqrt(2 * math.pi) * half * weights
    density = np.exp(-(sums**2) / 2) / math.sqrt(2 * math.pi)
    for _ in range(looks - 1):
        density = step @ density
    return 1 - half * float(weights @ density)


def root_below(is_below: Callable[[float], bool], low: float, high: float, accuracy: float) -> float:
    """The last point from `low` on that is below the root, within `accuracy`."""
    while high - low > accuracy:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low


def _lower_end(sums: Floats, sizes: Floats, largest: float, needed: float) -> float:
    """The largest limit that the mean has been shown to exceed at some look; capital decreases in the limit."""
    return root_below(lambda limit: _reaches(needed, sums, sizes, largest, limit), 0.0, 1.0, _ACCURACY)


def _reaches(needed: float, sums: Floats, sizes: Floats, largest: float, limit: float) -> bool:
    """Whether capital bet on a mean above the limit reaches `needed` after any of the units."""
    bets, shares = bet_grid()
    gains, bets = sums / _inside(limit) - sizes, bets / largest
    capital = np.ones(bets.size)
    with np.errstate(over="ignore", under="ignore"):
        for start in range(0, gains.size, _CHUNK):
            factors = 1 + gains[start : start + _CHUNK, None] * bets
            factors[0] *= capital
            path = np.cumprod(factors, axis=0)
            if (path @ shares).max() >= needed:
                return True
            capital = np.where(path[-1] < _LOST, 0.0, path[-1])
    return False


def _inside(limit: float) -> float:
    return min(max(limit, _EDGE), 1 - _EDGE)


def units_of(values: Floats, clusters: ArrayLike | None) -> tuple[Floats, Floats]:
    """Return the sum and size of each unit to bet on, case or cluster, in the order of completion."""
    if clusters is None:
        return values, np.ones(values.size)
    codes = cluster_codes(clusters)
    last = np.empty(codes.max() + 1, dtype=np.int64)
    last[codes] = np.arange(codes.size)
    order = np.argsort(last)
    return cluster_sums(values, codes)[order], cluster_sums(np.ones(codes.size), codes)[order]


@cache
def bet_grid() -> tuple[Floats, Floats]:
    """Return the bets and each one's share of the capital: a discretised uniform distribution on 0..1."""
    at = np.arange(_SMALLEST, _LARGEST, _STEP)
    ends = 1 / (1 + np.exp(-at[1:]))
    shares = np.diff(ends, prepend=0.0, append=1.0)
    return 1 / (1 + np.exp(-(at + _STEP / 2))), shares
