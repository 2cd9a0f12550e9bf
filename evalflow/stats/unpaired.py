"""The difference of two runs on different cases, B minus A."""

from __future__ import annotations

from collections.abc import Sequence

from evalflow.lazy import np
from evalflow.stats.arrays import Array, ArrayLike, Floats, cluster_sums, no_interval
from evalflow.stats.bootstrap import few_resampled, small_sample_note
from evalflow.stats.classification import Of, Ratio
from evalflow.stats.intervals import UNEVEN, cr2, mean_error, t_interval, wilson
from evalflow.stats.paired import Difference, t_test
from evalflow.stats.paired_figures import PairedClusters, resampled_difference, undefined
from evalflow.stats.rare import NO_RARE_CHANGES, rare_changes_of_two, rare_interval
from evalflow.stats.skewness import mean_skewness, unreliable, unseen_outliers

# Probabilities that differ by less than this share are equal up to rounding.
_TIE = 1e-7


def unpaired_difference(
    a: ArrayLike,
    b: ArrayLike,
    clusters_a: ArrayLike | None = None,
    clusters_b: ArrayLike | None = None,
    *,
    bounded: bool = False,
) -> Difference:
    """Compare the scores of two samples of cases; `n` counts the cases of both.

    Clusters are None if all cases are independent and none is in both runs; cluster names are common to both sides. If
    scores lie in 0..1 (`bounded`), the interval allows for rare large changes (`rare_interval`).
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n = x.size + y.size
    if not x.size or not y.size:
        return Difference(n, n, method="none: a run without a scored case")
    alone = clusters_a is None or clusters_b is None
    names = [np.arange(x.size), np.arange(x.size, n)] if alone else [np.asarray(clusters_a), np.asarray(clusters_b)]
    error, df, fewest, groups = _spread(x, y, names)
    value_a, value_b = float(x.mean()), float(y.mean())
    difference = value_b - value_a
    sizes, rare = f": {x.size:,} against {y.size:,} cases", NO_RARE_CHANGES
    binary = bool(np.isin(x, (0.0, 1.0)).all() and np.isin(y, (0.0, 1.0)).all())
    units, has_ends = "cases" if groups == n else "clusters", bounded or binary or error is None
    if groups == n and binary:
        passed, totals = (int(x.sum()), int(y.sum())), (x.size, y.size)
        low, high = newcombe_unpaired(*passed, *totals)
        p, method = fisher(*passed, *totals), f"newcombe_fisher{sizes}"
    elif error is None or df is None:
        why = "all scores of a run equal" if fewest > 1 else f"one {'case' if groups == n else 'cluster'} in a run"
        return Difference(n, groups, value_a, value_b, difference, method=f"none: {why}")
    elif not has_ends and (why := unreliable(_skewness(x, y, names), fewest, f"{units} in a run")):
        return Difference(n, groups, value_a, value_b, difference, method=f"none: {why}")
    else:
        low, high = (float(end) for end in t_interval(difference, error, df))
        if bounded:
            rare = rare_changes_of_two(x, y, clusters_a, clusters_b)
            low, high = rare_interval(difference, error, df, rare)
        p, kind = t_test(difference, error, df), "_rare" if bounded else ""
        method = f"welch_t{kind}{sizes}"
        if groups < n:
            caveat = small_sample_note(fewest, clustered=True)
            caveat = caveat and f"{caveat} in one"
            caveat = caveat or (UNEVEN if df < (fewest - 1) / 2 else "")
            method = f"unpaired_cr2_t{kind}{sizes}{', ' if caveat else ''}{caveat}"
        if not has_ends and (missing := unseen_outliers(fewest, units)):
            method = f"{method}, {missing}"
    return Difference(n, groups, value_a, value_b, difference, error, df, low, high, p, method, rare=rare)


def newcombe_unpaired(k_a: int, k_b: int, n_a: int, n_b: int) -> tuple[float, float]:
    """Interval of the share that passes in B minus that in A, of independent samples.

    Newcombe 1998 (Statistics in Medicine 17:873), method 10: Wilson's bounds, joined by their squares.
    """
    low, high = wilson([k_a, k_b], [n_a, n_b])
    p_a, p_b = k_a / n_a, k_b / n_b
    down = ((p_b - low[1]) ** 2 + (high[0] - p_a) ** 2) ** 0.5
    up = ((high[1] - p_b) ** 2 + (p_a - low[0]) ** 2) ** 0.5
    return float(p_b - p_a - down), float(p_b - p_a + up)


def fisher(k_a: int, k_b: int, n_a: int, n_b: int) -> float:
    """Two-sided p-value of Fisher's exact test that both samples pass as often; its error rate never exceeds the level.

    Returns the total probability, given the margins, of all tables no likelier than this one (Fisher 1935).
    """
    passed = k_a + k_b
    least, most = max(0, passed - n_b), min(passed, n_a)
    # The hypergeometric probabilities, up to a factor, from the ratio of each to its predecessor.
    k = np.arange(least, most, dtype=np.float64)
    steps = np.log((passed - k) / (k + 1) * (n_a - k) / (n_b - passed + k + 1))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs - logs.max())
    observed = chances[k_a - least]
    return min(1.0, float(chances[chances <= observed * (1 + _TIE)].sum() / chances.sum()))


def _skewness(x: Floats, y: Floats, names: Sequence[Array]) -> float:
    """Skewness of the difference of means, from the parts of cases or clusters in it."""
    parts = np.concatenate([-(x - x.mean()) / x.size, (y - y.mean()) / y.size])
    return mean_skewness(cluster_sums(parts, np.concatenate(names)))


def _spread(x: Floats, y: Floats, names: Sequence[Array]) -> tuple[float | None, float | None, int, int]:
    """Standard error and degrees of freedom of the difference, the smaller run's clusters, and all clusters.

    Independent samples get Welch's test: the sum of the runs' variances, with Satterthwaite's degrees of freedom. If
    some clusters are in both runs, the smaller of the runs' degrees of freedom is used instead, which is conservative.
    """
    clusters, codes = np.unique(np.concatenate(names), return_inverse=True)
    sides = (x, codes[: x.size]), (y, codes[x.size :])
    counts = [np.unique(side).size for side in names]
    fewest, groups = min(counts), int(clusters.size)
    if fewest < 2:
        return None, None, fewest, groups
    parts = [mean_error(values, own) for values, own in sides]
    if groups < sum(counts):
        shares = np.concatenate([-(x - x.mean()) / x.size, (y - y.mean()) / y.size])
        total = float((np.bincount(codes, weights=shares) ** 2).sum()) * fewest / (fewest - 1)
        df = min(df for _, df in parts)
    else:
        total = sum(error**2 for error, _ in parts)
        df = total**2 / sum(error**4 / df for error, df in parts) if total else 0.0
    return (total**0.5, df, fewest, groups) if total > 0 else (None, None, fewest, groups)


def unpaired_figure_difference(figure: Of | Ratio, clusters: PairedClusters, sizes: tuple[int, int]) -> Difference:
    """Compare a figure of two samples; `n` counts the cases of both; for a proportion, those in its denominator."""
    of = figure.of if isinstance(figure, Ratio) else figure
    n, groups = clusters.cases, clusters.clusters
    value_a, value_b = clusters.values(of)
    if np.isnan(value_a) or np.isnan(value_b):
        return undefined(clusters, value_a, value_b)
    if isinstance(figure, Ratio) and figure.jaccard is None and _independent(clusters):
        return unpaired_difference(*(_trials(figure, clusters.weights @ side) for side in (clusters.a, clusters.b)))
    difference = value_b - value_a
    fewest = min(int(clusters.weights[side.any(axis=1)].sum()) for side in (clusters.a, clusters.b))
    freedom = 0.0
    if fewest == 1:
        interval = no_interval(f"one {'case' if groups == n else 'cluster'} in a run")
    else:
        freedom = (
            float(fewest - 1) if groups == n else min(_freedom(side, clusters) for side in (clusters.a, clusters.b))
        )
        method = _method(sizes, fewest, alone=groups == n, uneven=freedom < (fewest - 1) / 2)
        interval = resampled_difference(of, clusters, method, max(2, round(freedom) + 1))
    error, df, p = interval.std_error, None, None
    if error is not None:
        df = freedom
        p = t_test(difference, error, df)
    return Difference(
        n, groups, value_a, value_b, difference, error, df, interval.low, interval.high, p, interval.method
    )


def _independent(clusters: PairedClusters) -> bool:
    """Whether every cluster is a single record of a single run."""
    both = np.concatenate([clusters.a, clusters.b], axis=1)
    return bool((both.max(axis=1) == 1).all() and (both.sum(axis=1) == 1).all())


def _trials(ratio: Ratio, totals: Floats) -> Floats:
    """The records of a proportion's denominator: 1 for those also in its numerator, else 0."""
    above, below = round(float(totals @ ratio.above)), round(float(totals @ ratio.below))
    return np.repeat([1.0, 0.0], [above, below - above])


def _freedom(side: Floats, clusters: PairedClusters) -> float:
    """Degrees of freedom of one run's clusters, as in `cr2`: their number less one, or fewer if sizes differ."""
    sizes = np.repeat(side.sum(axis=1), clusters.weights)
    sizes = sizes[sizes > 0]
    return cr2(np.zeros(sizes.size), sizes)[1]


def _method(sizes: tuple[int, int], fewest: int, *, alone: bool, uneven: bool) -> str:
    note = few_resampled(fewest, "cases" if alone else "clusters")
    note = f", {note} in one" if note else f", {UNEVEN}" if uneven else ""
    name = "" if alone else "cluster_"
    return f"unpaired_{name}bootstrap_t: {sizes[0]:,} against {sizes[1]:,} cases{note}"
