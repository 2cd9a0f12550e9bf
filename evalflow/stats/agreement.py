"""Agreement of two raters on the same answers: accuracy, Cohen's kappa, class rates and AUROC, with intervals.

Standard errors use the delta method (for kappa Fleiss, Cohen & Everitt 1969, Psychological Bulletin 72:323): the mean
square of each answer's influence. For clustered answers influences are summed by cluster first (`cr2`), and t replaces
the normal distribution.

Labels drawn with unequal probabilities are weighted by 1 / probability, which estimates the agreement on all answers.
A stratum without an observed disagreement adds the variance of a smoothed rate (`unseen_variance`).
"""

from __future__ import annotations

from typing import Any, Literal

from evalflow.lazy import np
from evalflow.stats.arrays import ROUNDING, ArrayLike, Estimated, Floats, cluster_sums, constant, undefined
from evalflow.stats.bootstrap import small_sample_note
from evalflow.stats.intervals import cr2, mean_estimate, t_interval, wilson
from evalflow.stats.labelled import human_interval, sample, unseen_variance

Distance = Literal["plain", "quadratic"]
"""Weight of a disagreement: always 1, or the square of the distance of the two values."""


def accuracy(
    human: ArrayLike, judge: ArrayLike, clusters: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Estimated:
    """Share of answers to which both raters give the same value."""
    same = (np.asarray(human) == np.asarray(judge)).astype(np.float64)
    return _share(same, clusters, weights, "no answers")


def class_rates(
    human: ArrayLike, judge: ArrayLike, clusters: ArrayLike | None = None, weights: ArrayLike | None = None
) -> dict[Any, Estimated]:
    """Recall of each class, in order: the share of people's answers in it that the judge puts there too.

    For pass and fail these are sensitivity and specificity. A class that only the judge gives is undefined.
    """
    people, predicted = np.asarray(human), np.asarray(judge)
    names, shares = (None if side is None else np.asarray(side) for side in (clusters, weights))
    rates: dict[Any, Estimated] = {}
    for one in np.unique(np.concatenate([people, predicted])):
        there = people == one
        same = (predicted[there] == one).astype(np.float64)
        own, stands_for = (None if side is None else side[there] for side in (names, shares))
        rates[one.item()] = _share(same, own, stands_for, "no answer has this label")
    return rates


def cohen_kappa(
    human: ArrayLike,
    judge: ArrayLike,
    distance: Distance = "plain",
    clusters: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Estimated:
    """Agreement beyond chance, given each rater's class frequencies: 1 - observed / expected disagreement.

    Cohen 1960 (Educational and Psychological Measurement 20:37), and 1968 with weights. If the two never disagree,
    there is no standard error; the interval is then Wilson's for the share of agreement, assuming the largest
    disagreements possible. Distances are between values, not ranks, so unused values in between count. Undefined for
    fewer than two answers, and if both raters give all answers the same class.
    """
    x, y = _numbers(human, judge, distance)
    n = x.size
    if n < 2:
        return undefined(n, "fewer than 2 answers")
    if constant(np.concatenate([x, y])):
        return undefined(n, "one class only")
    distances, count = _distance(x, y, distance), normalised_weights(weights, n)
    chance, chance_judge = _expected(x, y, count, distance), _expected(y, x, count, distance)
    observed, expected = float(distances @ count) / n, float(chance @ count) / n
    value = 1 - observed / expected
    largest = float(_distance(np.array(max(x.max(), y.max())), np.array(min(x.min(), y.min())), distance))
    if not distances.any():
        sums = cluster_sums(count / n, clusters)
        trials = 1 / float((sums**2).sum()) if weights is not None else sums.size
        low, _ = wilson(trials, trials)
        lowest = 1 - (1 - float(low)) * largest / expected
        return Estimated(value, max(-1.0, lowest), 1.0, None, n, f"wilson{'' if sums.size == n else '_clusters'}")
    influence = (observed / expected * (chance + chance_judge - 2 * expected) - (distances - observed)) / expected
    units = np.arange(n) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    unseen = unseen_variance(distances, None if weights is None else count / n, units, largest / expected)
    return from_influence(value, influence * count, clusters, unseen)


def normalised_weights(weights: ArrayLike | None, n: int) -> Floats:
    """Weights that sum to n; ones for None."""
    if weights is None:
        return np.ones(n)
    raw = np.asarray(weights, dtype=np.float64)
    return raw * (n / raw.sum())


def from_influence(value: float, influence: Floats, clusters: ArrayLike | None, unseen: float = 0.0) -> Estimated:
    """A measure in -1..1 with its interval, from each answer's influence (times n, mean 0) and an extra variance."""
    n = influence.size
    sums, sizes = cluster_sums(influence, clusters), cluster_sums(np.ones(n), clusters)
    groups = sums.size
    if groups < 2:
        return undefined(n, "one cluster", value)
    clustered = groups < n
    error, df = cr2(sums, sizes) if clustered else (float(np.sqrt((sums**2).sum())) / n, np.inf)
    error = float(np.sqrt(error**2 + unseen))
    low, high = t_interval(value, error, df)
    if error < ROUNDING:
        return undefined(n, "clusters do not differ" if clustered else "answers do not differ", value)
    bounds = max(-1.0, float(low)), min(1.0, float(high))
    return Estimated(value, *bounds, error, n, delta_method("delta", n, groups))


def delta_method(name: str, n: int, groups: int) -> str:
    """Method name of a delta-method interval over n answers, with a caveat if there are few clusters (`groups`)."""
    note = small_sample_note(groups, clustered=groups < n, what="answers")
    return name + ("_cr2_t" if groups < n else "") + (f": {note}" if note else "")


def _share(same: Floats, clusters: ArrayLike | None, weights: ArrayLike | None, without: str) -> Estimated:
    if not same.size:
        return undefined(0, without)
    if weights is None:
        return mean_estimate(same, clusters, bounded=True)
    interval = human_interval(sample(same, same, [], clusters=clusters, weights=weights), True)
    value = float(same @ normalised_weights(weights, same.size)) / same.size
    return Estimated(value, interval.low, interval.high, interval.std_error, same.size, interval.method)


def _numbers(human: ArrayLike, judge: ArrayLike, distance: Distance) -> tuple[Floats, Floats]:
    """The values themselves if distances between them count, else the numbers of their classes."""
    x, y = np.asarray(human), np.asarray(judge)
    if distance == "plain":
        codes = np.unique(np.concatenate([x, y]), return_inverse=True)[1]
        x, y = codes[: x.size], codes[x.size :]
    return x.astype(np.float64), y.astype(np.float64)


def _distance(x: Floats, y: Floats, distance: Distance) -> Floats:
    return (x != y).astype(np.float64) if distance == "plain" else (x - y) ** 2


def _expected(x: Floats, others: Floats, count: Floats, distance: Distance) -> Floats:
    """Mean distance of each value of `x` from the others, without a table of all pairs."""
    n = others.size
    if distance == "quadratic":
        centre = float(others @ count) / n
        return (x - centre) ** 2 + float((others - centre) ** 2 @ count) / n
    order = np.argsort(others, kind="stable")
    ordered, below = others[order], np.concatenate([[0.0], np.cumsum(count[order])])
    left, right = (np.searchsorted(ordered, x, side=side) for side in ("left", "right"))
    return 1 - (below[right] - below[left]) / n


def auroc(human: ArrayLike, judge: ArrayLike, clusters: ArrayLike | None = None) -> Estimated:
    """Probability that an answer passed by people (1) has a higher score than an answer failed by people (0).

    Equal scores count half, as midranks do in the Mann-Whitney statistic (Mann & Whitney 1947, Ann. Math. Stat. 18:50;
    Bamber 1975, J. Math. Psychol. 12:387); an answer that people are tied on (0.5) counts half on each side. The
    standard error is that of DeLong, DeLong & Clarke-Pearson 1988 (Biometrics 44:837). Undefined if people pass all
    answers or none.
    """
    passes, scores = np.asarray(human, dtype=np.float64), np.asarray(judge, dtype=np.float64)
    fails, n = 1 - passes, scores.size
    sums = passes.sum(), fails.sum()
    if not all(sums):
        return undefined(n, f"all labels {'pass' if sums[0] else 'fail'}" if n else "no answers")
    below, above = _below(scores, fails) / sums[1], 1 - _below(scores, passes) / sums[0]
    value = float(passes @ below / sums[0])
    if value in (0.0, 1.0):
        return undefined(n, f"no {'fail is above a pass' if value else 'pass is above a fail'}", value)
    influence = n * (passes * (below - value) / sums[0] + fails * (above - value) / sums[1])
    estimate = from_influence(value, influence, clusters)
    low = None if estimate.low is None else max(0.0, estimate.low)
    return Estimated(value, low, estimate.high, estimate.std_error, n, estimate.method)


def _below(scores: Floats, weights: Floats) -> Floats:
    """The weight of the answers with a lower score than each answer; equal scores count half."""
    order = np.argsort(scores, kind="stable")
    ordered, sums = scores[order], np.concatenate([[0.0], np.cumsum(weights[order])])
    first, end = np.searchsorted(ordered, scores, side="left"), np.searchsorted(ordered, scores, side="right")
    return (sums[first] + sums[end]) / 2
