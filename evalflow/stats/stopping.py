"""Results of a run that was stopped by its looks: intervals that remain valid, and means without bias.

A run that stops once it is decided stops more often while chance exaggerates the effect: its plain mean is biased away
from the limit, and intervals for a fixed number of cases are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

from evalflow.lazy import np
from evalflow.stats.arrays import CONFIDENCE, ArrayLike, Bools, Floats, Interval, Ints, no_interval
from evalflow.stats.intervals import Moments, intervals, mean_error, moments, stacked
from evalflow.stats.looks import bet_grid, betting_method, obrien_fleming, root_below, units_of

_PATHS = 400
_STEPS = 5
_SEED = 11
_EDGE = 1e-9
_ACCURACY = 1e-6


def stopped_interval(
    values: ArrayLike, clusters: ArrayLike | None = None, *, level: float = CONFIDENCE, largest: int | None = None
) -> Interval:
    """A confidence sequence of the mean of scores in 0..1 at their present number, whatever their order.

    As `anytime_interval`, but without the intersection with earlier intervals, so that it is also valid for metrics
    other than the one that was looked at. Each end errs with a probability of at most (1 - level) / 2, whenever the run
    stopped.
    """
    x = np.asarray(values, dtype=np.float64)
    if not x.size:
        return no_interval("no scores")
    sums, sizes = units_of(x, clusters)
    bound = max(float(sizes.max()), largest or 0.0)
    needed = math.log(2 / (1 - level))
    low = _lower_end(sums, sizes, bound, needed)
    high = 1 - _lower_end(sizes - sums, sizes, bound, needed)
    error = mean_error(x, clusters)[0]
    method = betting_method(x, sizes, bound, given=largest is not None)
    return Interval(low, high, None if math.isnan(error) else error, method)


def _lower_end(sums: Floats, sizes: Floats, largest: float, needed: float) -> float:
    parts, counts = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    at, shares = bet_grid()

    def reached(limit: float) -> bool:
        inside = min(max(limit, _EDGE), 1 - _EDGE)
        logs = np.log1p((parts[0] / inside - parts[1])[:, None] * (at / largest))
        capital = counts @ logs
        most = float(capital.max())
        return most + math.log(float(np.exp(capital - most) @ shares)) >= needed

    return root_below(reached, 0.0, 1.0, _ACCURACY)


Rule = Callable[["Floats", "Floats"], tuple["Floats", "Floats"]]
"""Maps sums and sizes of units, one row per simulated run, to the sum and size at which each run stops."""


def by_bets(limit: float, *, largest: float = 1.0, level: float = CONFIDENCE) -> Rule:
    """Return the rule of `LimitTest`: a run stops once its mean is shown to lie above or below the limit."""
    inside, (at, shares) = min(max(limit, _EDGE), 1 - _EDGE), bet_grid()
    at = at / largest

    def stop(sums: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        runs, units = sums.shape
        if largest == 1 and (sizes == 1).all() and ((sums == 0) | (sums == 1)).all():
            return _stop_of_passes(sums, *_decisive_passes(inside, units, level))
        totals, counts = np.zeros(runs), np.zeros(runs)
        open_runs: Ints = np.arange(runs, dtype=np.int64)
        capital = np.ones((2, runs, at.size))
        for unit in range(units):
            total, size = sums[open_runs, unit], sizes[open_runs, unit]
            totals[open_runs] += total
            counts[open_runs] += size
            capital[0] *= 1 + (total / inside - size)[:, None] * at
            capital[1] *= 1 + ((size - total) / (1 - inside) - size)[:, None] * at
            left: Bools = (capital @ shares).max(axis=0) < 2 / (1 - level)
            if not left.all():
                open_runs, capital = open_runs[left], capital[:, left]
            if not open_runs.size:
                break
        return totals, counts

    return stop


@lru_cache(maxsize=16)  # `adjusted_mean` asks for the same rule in each of its steps
def _decisive_passes(limit: float, cases: int, level: float) -> tuple[Ints, Ints]:
    """For each number of cases, the passes up to which a run stops below the limit, and those from which it does above.

    Capital depends only on the number of passes: bets on a mean above gain by each, bets on one below lose.
    """
    at, shares = bet_grid()
    needed = math.log(2 / (1 - level))

    def reached(gain: Floats, loss: Floats, gains: int, losses: int) -> bool:
        logs = gains * gain + losses * loss
        most = float(logs.max())
        return most + math.log(float(np.exp(logs - most) @ shares)) >= needed

    above = np.log1p((1 / limit - 1) * at), np.log1p(-at)
    below = np.log1p((1 / (1 - limit) - 1) * at), np.log1p(-at)
    passes, fails = 0, 0  # the fewest that decide
    low, high = np.empty(cases, dtype=np.int64), np.empty(cases, dtype=np.int64)
    for n in range(1, cases + 1):
        while passes <= n and not reached(*above, passes, n - passes):
            passes += 1
        while fails <= n and not reached(*below, fails, n - fails):
            fails += 1
        low[n - 1], high[n - 1] = n - fails, passes
    return low, high


def _stop_of_passes(passed: Floats, low: Ints, high: Ints) -> tuple[Floats, Floats]:
    """The passes and cases at which runs stop: rows of passes and fails."""
    totals = passed.cumsum(axis=1)
    out = (totals <= low) | (totals >= high)
    out[:, -1] = True
    ends = out.argmax(axis=1)
    return totals[np.arange(ends.size), ends], ends + 1.0


def by_plan(limit: float, cases: int, looks: int, *, level: float = CONFIDENCE) -> Rule:
    """Return the rule of planned looks: a run stops at the first whose `planned_interval` excludes the limit."""

    def stop(sums: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        totals, counts = sums.cumsum(axis=1), sizes.cumsum(axis=1)
        ends = np.full(sums.shape[0], sums.shape[1] - 1)
        decided = np.zeros(sums.shape[0], dtype=bool)
        for look in range(1, looks):
            upper = NormalDist().cdf(obrien_fleming(looks, level) * math.sqrt(looks / look))
            place = min(int(np.searchsorted(counts.mean(axis=0), cases * look / looks)), sums.shape[1] - 1)
            still = np.flatnonzero(~decided)
            if not still.size:
                break
            rows = [_moments(sums[row, : place + 1], sizes[row, : place + 1]) for row in still]
            row_intervals = intervals(stacked(rows), bounded=True, upper=upper)
            out = (row_intervals.low > limit) | (row_intervals.high < limit)
            ends[still[out]], decided[still[out]] = place, True
        at: Ints = np.arange(sums.shape[0], dtype=np.int64)
        return totals[at, ends], counts[at, ends]

    return stop


def _moments(sums: Floats, sizes: Floats) -> Moments:
    if (sizes == 1).all():
        return moments(sums, bounded=True)
    counts = sizes.astype(np.int64)
    return moments(np.repeat(sums / sizes, counts), np.repeat(np.arange(counts.size), counts), bounded=True)


def adjusted_mean(values: ArrayLike, clusters: ArrayLike | None, cases: int, stop: Rule) -> float:
    """A stopped run's mean without the bias of stopping: the true mean at which stopped runs average the observed one.

    Whitehead 1986 (Biometrika 73:573), with runs of up to `cases` cases simulated from the observed scores: to move the
    mean, some scores are replaced by 1 or by 0. The simulation error is about 0.01.
    """
    x = np.asarray(values, dtype=np.float64)
    sums, sizes = units_of(x, clusters)
    seen = float(sums.sum() / sizes.sum())
    units = max(sums.size, math.ceil(cases / sizes.mean()))
    rng = np.random.default_rng(_SEED)
    places, moves = rng.integers(0, sums.size, (_PATHS, units)), rng.random((_PATHS, units))
    resampled, counts = sums[places], sizes[places]
    mean = seen
    for _ in range(_STEPS):
        end = 1.0 if mean >= seen else 0.0
        share = (mean - seen) / (end - seen) if end != seen else 0.0
        totals, stopped = stop(np.where(moves < share, end * counts, resampled), counts)
        mean = min(max(mean + seen - float((totals / stopped).mean()), 0.0), 1.0)
    return mean
