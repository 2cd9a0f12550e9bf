"""Ranks of several systems with joint confidence, from pairs of which one system is shown to be better.

All pairs of systems are compared at once, so that with a probability of 95 % none of the claims "j is better than k" is
false. A system's rank then lies between 1 plus the number of systems shown to be better, and the number of systems
minus those shown to be worse; all these intervals hold together (Mogstad, Romano, Shaikh & Wilhelm 2024, Review of
Economic Studies 91:476). The critical value is that of the largest studentised difference, in steps (Romano & Wolf
2005, JASA 100:94): after the first claims, only the remaining pairs have to be covered.

Differences are jointly Student's t with the cluster-robust (CR2) covariance of the means and the clusters' degrees of
freedom: the limit of a multiplier bootstrap with normal weights, without its cost per case. For clustered cases a
difference must also exceed the critical value under random signs of whole clusters, lest a few large ones decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from evalflow.lazy import np
from evalflow.stats.arrays import CONFIDENCE, ROUNDING, ArrayLike, Bools, Floats, Ints, cluster_codes, cluster_sums
from evalflow.stats.intervals import cr2
from evalflow.stats.skewness import mean_skewness, unreliable

DRAWS = 10_000
_CHUNK = 4_000_000


@dataclass(frozen=True, slots=True)
class Ranks:
    """Each system's rank, 1 is best, with joint bounds; and for each pair, whether the first is shown to be better."""

    rank: Ints
    low: Ints
    high: Ints
    better: Bools


def mean_covariance(
    scores: ArrayLike, clusters: ArrayLike | None = None
) -> tuple[Floats, Floats, float, Floats | None]:
    """Means of systems over the same cases, their covariance and its degrees of freedom, and the parts of clusters.

    The variance of each difference is CR2's, as in a comparison of two runs. Each difference also counts half a case
    (or average cluster) won and half a case lost, each by a usual margin. Agresti & Min 2005 (Statistics in Medicine
    24:729) do so for pairs of proportions. Otherwise a few cases that happen to differ in one direction look like
    proof. `scores` have the shape (cases, systems). Covariance and degrees of freedom are NaN for fewer than two
    clusters. The parts have the shape (clusters, systems) and add up to the means; they are None without clusters.
    """
    table = np.asarray(scores, dtype=np.float64)
    n, systems = table.shape
    codes: Ints = np.arange(n, dtype=np.int64) if clusters is None else cluster_codes(clusters)
    means = table.mean(axis=0)
    residuals = np.column_stack([cluster_sums(column, codes) for column in (table - means).T])
    sizes = cluster_sums(np.ones(n), codes)
    if sizes.size < 2:
        return means, np.full((systems, systems), np.nan), np.nan, None
    df = cr2(residuals[:, 0], sizes)[1]
    weighted = residuals / np.sqrt(1 - sizes / n)[:, None] / n
    covariance = weighted.T @ weighted
    parts = np.column_stack([cluster_sums(column, codes) for column in table.T]) / n
    return means, covariance + np.eye(systems) * _usual_square(parts) / 2, df, parts if sizes.size < n else None


def _usual_square(parts: Floats) -> float:
    """Mean square of the differences between systems, over the clusters with a difference."""
    squares, differing = 0.0, 0
    for j in range(1, parts.shape[1]):
        apart = parts[:, :j] - parts[:, [j]]
        squares += float((apart**2).sum())
        differing += int(np.count_nonzero(np.abs(apart) > ROUNDING))
    return squares / differing if differing else 0.0


def rank_intervals(
    values: ArrayLike,
    covariance: ArrayLike,
    df: float,
    parts: Floats | None = None,
    *,
    seed: int = 0,
    unsure: Bools | None = None,
) -> Ranks:
    """Ranks of estimates, higher is better, with joint intervals; if the covariance is unknown, these span all ranks.

    `parts` of clusters, of shape (clusters, systems), add up to the values; None: without the test by random signs.
    `unsure` pairs (`unsure_pairs`) are never told apart.
    """
    estimates, spread = np.asarray(values, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    systems = estimates.size
    better = np.zeros((systems, systems), dtype=bool)
    tie = ROUNDING * max(1.0, float(np.abs(estimates).max()))
    rank = (estimates[None, :] > estimates[:, None] + tie).sum(axis=1) + 1
    if not np.isnan(spread).any() and systems > 1:
        better = _shown(estimates, spread, df, parts, seed, unsure)
    return Ranks(rank, 1 + better.sum(axis=0), systems - better.sum(axis=1), better)


def unsure_pairs(influences: Floats) -> Bools:
    """Pairs of systems for whose difference t cannot be trusted, as their scores have no fixed ends.

    `influences`, of shape (clusters, systems), are the centred parts of each case or cluster in the means.
    """
    units, systems = influences.shape
    unsure = np.zeros((systems, systems), dtype=bool)
    for j in range(systems):
        for k in range(j):
            why = unreliable(mean_skewness(influences[:, j] - influences[:, k]), units)
            unsure[j, k] = unsure[k, j] = bool(why)
    return unsure


def _shown(
    values: Floats, covariance: Floats, df: float, parts: Floats | None, seed: int, unsure: Bools | None
) -> Bools:
    """For each ordered pair, whether the first is shown to be better, with a joint error of at most 5 %."""
    variance = np.diag(covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2 * covariance, 0))
    known = error > ROUNDING * max(1.0, float(np.abs(values).max()))
    if unsure is not None:
        known &= ~unsure
    apart = values[:, None] - values[None, :]
    rng = np.random.default_rng(seed)
    t_draws = rng.multivariate_normal(np.zeros(values.size), covariance, DRAWS, method="eigh", check_valid="ignore")
    t_draws /= np.sqrt(rng.chisquare(df, (DRAWS, 1)) / df)
    tests = [(t_draws, np.where(known, error, np.inf))]
    if parts is not None:
        # Random signs leave this scale unchanged, which makes the test exact for symmetric differences.
        square = parts.T @ parts
        size = np.sqrt(np.maximum(np.diag(square)[:, None] + np.diag(square)[None, :] - 2 * square, 0))
        tests.append((_random_signs(parts, rng), np.where(size > ROUNDING, size, np.inf)))
    shown = np.zeros_like(known)
    while (open_pairs := known & ~shown).any():
        significant = open_pairs.copy()
        for noise, scale in tests:
            significant &= apart / scale > _critical(noise, open_pairs, scale)
        if not significant.any():
            break
        shown |= significant
    return shown


def _critical(noise: Floats, pairs: Bools, scale: Floats) -> float:
    """The quantile of the largest studentised difference among some ordered pairs."""
    largest = np.full(len(noise), -np.inf)
    for j in np.flatnonzero(pairs.any(axis=1)):
        rivals = pairs[j]
        np.maximum(largest, ((noise[:, [j]] - noise[:, rivals]) / scale[j, rivals]).max(axis=1), out=largest)
    return float(np.quantile(largest, CONFIDENCE))


def _random_signs(parts: Floats, rng: np.random.Generator) -> Floats:
    """Sums of the clusters' parts with random signs, shape (DRAWS, systems)."""
    step = max(1, _CHUNK // len(parts))
    sizes = [min(step, DRAWS - start) for start in range(0, DRAWS, step)]
    return np.concatenate([(2.0 * rng.integers(0, 2, (size, len(parts))) - 1) @ parts for size in sizes])
