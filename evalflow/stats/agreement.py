"""How far two raters agree on the same answers: share, Cohen's kappa and the rate of each class, with intervals.

Standard errors are those of the delta method, which for kappa is Fleiss, Cohen & Everitt 1969 (Psychological Bulletin
72:323): the mean square of each answer's influence. Where answers come in clusters, influences are summed by cluster
first (CR1), and t with G - 1 takes the normal's place.

Labels drawn with unequal chances are weighted by 1 / chance, so that agreement is that on all answers. A stratum
without a disagreement seen adds the variance of a smoothed rate (`unseen_variance`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evalflow.stats.intervals import CONFIDENCE, FEW_CASES, FEW_CLUSTERS, cr1, interval, t_interval, wilson
from evalflow.stats.labelled import constant, human_interval, sample, unseen_variance
from evalflow.stats.paired import cluster_sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


Distance = Literal["plain", "linear", "quadratic"]
"""What a disagreement weighs: all the same, or by how far apart the two values are, or by its square."""
# A standard error below this is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Agreement:
    """A measure of agreement.

    Attributes:
        value: None where it is undefined.
        low, high, std_error: Of its interval; None where there is none.
        n: Answers that it rests on.
        method: How the interval was made; what follows a colon qualifies it, or says why there is none.
    """

    value: float | None
    low: float | None
    high: float | None
    std_error: float | None
    n: int
    method: str


def undefined(n: int, why: str, value: float | None = None) -> Agreement:
    """A measure without an interval, or without a value as well."""
    return Agreement(value, None, None, None, n, f"none: {why}")


def accuracy(
    human: ArrayLike,
    judge: ArrayLike,
    clusters: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Agreement:
    """Share of the answers to which both give the same value.

    Args:
        human: One class per answer, as numbers or texts.
        judge: The judge's, of the same kind.
        clusters: The cluster of each answer; None where each stands alone.
        weights: How many answers each stands for; None where all were as likely to be labelled.
        confidence: Coverage.
    """
    import numpy as np

    same = (np.asarray(human) == np.asarray(judge)).astype(np.float64)
    return _share(same, clusters, weights, "no answers", confidence)


def class_rates(
    human: ArrayLike,
    judge: ArrayLike,
    clusters: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> dict[Any, Agreement]:
    """For each class, the share of the answers that people put there which the judge puts there too (its recall).

    Of pass and fail these are sensitivity and specificity. Arguments as of `accuracy`.

    Returns:
        By class, in order, those included that the judge alone gives: they are undefined.
    """
    import numpy as np

    people, found = np.asarray(human), np.asarray(judge)
    names, shares = (None if side is None else np.asarray(side) for side in (clusters, weights))
    rates: dict[Any, Agreement] = {}
    for one in np.unique(np.concatenate([people, found])):
        there = people == one
        same = (found[there] == one).astype(np.float64)
        own, stands_for = (None if side is None else side[there] for side in (names, shares))
        rates[one.item()] = _share(same, own, stands_for, "no answer has this label", confidence)
    return rates


def cohen_kappa(
    human: ArrayLike,
    judge: ArrayLike,
    distance: Distance = "plain",
    clusters: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Agreement:
    """Agreement beyond what two raters with these habits would have by chance: 1 - observed / expected disagreement.

    Cohen 1960 (Educational and Psychological Measurement 20:37), and 1968 with weights. Where the two never disagree
    there is nothing to tell an error from; the interval is then Wilson's of the share of agreement, with the gravest
    disagreements there could be.

    Args:
        human: One class per answer; numbers where distances count.
        judge: The judge's, of the same kind.
        distance: What a disagreement weighs. Distances are those of the values, and not of their ranks, so that a value
            that nobody gave counts.
        clusters: The cluster of each answer; None where each stands alone.
        weights: How many answers each stands for; None where all were as likely to be labelled.
        confidence: Coverage.

    Returns:
        Undefined for fewer than two answers, and where both give all answers one and the same class.
    """
    import numpy as np

    x, y = _numbers(human, judge, distance)
    n = x.size
    if n < 2:
        return undefined(n, "fewer than 2 answers")
    if constant(np.concatenate([x, y])):
        return undefined(n, "one class only")
    apart, count = _apart(x, y, distance), counts_of(weights, n)
    by_chance, by_chance_judge = _expected(x, y, count, distance), _expected(y, x, count, distance)
    observed, expected = float(apart @ count) / n, float(by_chance @ count) / n
    value = 1 - observed / expected
    gravest = float(_apart(np.array(max(x.max(), y.max())), np.array(min(x.min(), y.min())), distance))
    if not apart.any():
        sums = cluster_sums(count / n, clusters)
        trials = 1 / float((sums**2).sum()) if weights is not None else sums.size
        low, _ = wilson(trials, trials, confidence)
        worst = 1 - (1 - float(low)) * gravest / expected
        return Agreement(value, max(-1.0, worst), 1.0, None, n, f"wilson{'' if sums.size == n else '_clusters'}")
    influence = (observed / expected * (by_chance + by_chance_judge - 2 * expected) - (apart - observed)) / expected
    units = np.arange(n) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    unseen = unseen_variance(apart, None if weights is None else count / n, units, gravest / expected)
    return from_influence(value, influence * count, clusters, confidence, unseen)


def counts_of(weights: ArrayLike | None, n: int) -> Floats:
    """Weights that sum to n; ones where there are none."""
    import numpy as np

    found = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    return found if weights is None else found * (n / found.sum())


def from_influence(
    value: float,
    influence: Floats,
    clusters: ArrayLike | None,
    confidence: float = CONFIDENCE,
    unseen: float = 0.0,
) -> Agreement:
    """A measure with the interval that the answers' influences on it give, within -1..1.

    Args:
        value: The measure.
        influence: What each answer adds to it, times n; their mean is 0.
        clusters: The cluster of each answer; None where each stands alone.
        confidence: Coverage.
        unseen: Variance that the answers do not show.
    """
    import numpy as np

    n = influence.size
    sums = cluster_sums(influence, clusters)
    groups, squares = sums.size, float((sums**2).sum())
    if groups < 2:
        return undefined(n, "one cluster", value)
    clustered = groups < n
    error = float(cr1(n, groups, squares)) if clustered else float(np.sqrt(squares)) / n
    error = float(np.sqrt(error**2 + unseen))
    low, high = t_interval(value, error, groups - 1 if clustered else np.inf, confidence)
    if error < _ROUNDING:
        return undefined(n, "clusters do not differ" if clustered else "answers do not differ", value)
    bounds = max(-1.0, float(low)), min(1.0, float(high))
    return Agreement(value, *bounds, error, n, noted("delta", n, groups))


def noted(name: str, n: int, groups: int) -> str:
    """A method's name for so many answers in so many clusters, and what a reader should know of it."""
    if groups < n:
        return f"{name}_cr1_t: fewer than {FEW_CLUSTERS} clusters" if groups < FEW_CLUSTERS else f"{name}_cr1_t"
    return f"{name}: fewer than {FEW_CASES} answers" if n < FEW_CASES else name


def _share(
    same: Floats, clusters: ArrayLike | None, weights: ArrayLike | None, without: str, confidence: float
) -> Agreement:
    if not same.size:
        return undefined(0, without)
    if weights is None:
        found = interval(same, clusters, confidence=confidence)
    else:
        found = human_interval(sample(same, same, [], clusters=clusters, weights=weights), True, confidence)
    value = float(same @ counts_of(weights, same.size)) / same.size
    return Agreement(value, found.low, found.high, found.std_error, same.size, found.method)


def _numbers(human: ArrayLike, judge: ArrayLike, distance: Distance) -> tuple[Floats, Floats]:
    """Values where their distances count; numbers of the classes where they do not."""
    import numpy as np

    x, y = np.asarray(human), np.asarray(judge)
    if distance == "plain":
        codes = np.unique(np.concatenate([x, y]), return_inverse=True)[1]
        x, y = codes[: x.size], codes[x.size :]
    return x.astype(np.float64), y.astype(np.float64)


def _apart(x: Floats, y: Floats, distance: Distance) -> Floats:
    import numpy as np

    if distance == "plain":
        return (x != y).astype(np.float64)
    return np.abs(x - y) if distance == "linear" else (x - y) ** 2


def _expected(x: Floats, others: Floats, count: Floats, distance: Distance) -> Floats:
    """How far each of x is from one of the others, on average: without a table of all classes by all classes."""
    import numpy as np

    n = others.size
    if distance == "quadratic":
        centre = float(others @ count) / n
        return (x - centre) ** 2 + float((others - centre) ** 2 @ count) / n
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    below, sums = (np.concatenate([[0.0], np.cumsum(side)]) for side in (count[order], (others * count)[order]))
    above = np.searchsorted(ordered, x, side="right")
    if distance == "plain":
        return 1 - (below[above] - below[np.searchsorted(ordered, x, side="left")]) / n
    return (x * (2 * below[above] - n) + sums[-1] - 2 * sums[above]) / n


def auroc(
    human: ArrayLike, judge: ArrayLike, clusters: ArrayLike | None = None, *, confidence: float = CONFIDENCE
) -> Agreement:
    """Chance that an answer that people pass has a higher score than one that they fail; ties count half.

    The area under the ROC curve, with the standard error of DeLong, DeLong & Clarke-Pearson 1988 (Biometrics 44:837):
    that of each answer's share of the other kind that it beats.

    Args:
        human: 1 or True where people pass the answer, else 0.
        judge: The judge's scores.
        clusters: The cluster of each answer; None where each stands alone.
        confidence: Coverage.

    Returns:
        Undefined where people pass all, or none.
    """
    import numpy as np

    passed, scores = np.asarray(human).astype(np.bool_), np.asarray(judge, dtype=np.float64)
    passes, fails = np.sort(scores[passed]), np.sort(scores[~passed])
    n, counts = scores.size, (passes.size, fails.size)
    if not all(counts):
        return undefined(n, f"all labels {'pass' if passes.size else 'fail'}" if n else "no answers")
    others = np.where(passed, _below(scores, fails) / fails.size, 1 - _below(scores, passes) / passes.size)
    value = float(others[passed].mean())
    if value in (0.0, 1.0):
        return undefined(n, f"no {'fail is above a pass' if value else 'pass is above a fail'}", value)
    influence = (others - value) * n / np.where(passed, *counts)
    found = from_influence(value, influence, clusters, confidence)
    low = None if found.low is None else max(0.0, found.low)
    return Agreement(value, low, found.high, found.std_error, n, found.method)


def _below(values: Floats, ordered: Floats) -> Floats:
    """How many are below each value, ties counting half."""
    import numpy as np

    return (np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")) / 2
