"""Variance components of a mean score (cases, generator, judge), pass@k and pass^k."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evalflow.lazy import np
from evalflow.stats.arrays import ArrayLike, Floats, cluster_sums
from evalflow.stats.intervals import mean_error
from evalflow.stats.inverse import chi_square_quantile


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components of one score (Miller 2024, arXiv:2411.00640, section 3, with noise in two parts).

    `case_spread` is the variance of the cases' true means, including cluster effects; `generator_noise` that of an
    answer about its case's mean, and `judge_noise` that of a judgement about its answer's mean. A noise is None if
    nothing was repeated, and is then part of the preceding component.
    """

    cases: int
    case_spread: float
    generator_noise: float | None
    judge_noise: float | None

    def variance(self, answers: float = 1, judgements: float = 1) -> float:
        """Variance of a case's score with this many answers and judgements per answer; infinity is allowed."""
        return self.case_spread + self.noise(answers, judgements)

    def scaled(self, factor: float) -> Components:
        """The components times a factor."""
        generator, judge = (part and part * factor for part in (self.generator_noise, self.judge_noise))
        return Components(self.cases, self.case_spread * factor, generator, judge)

    def noise(self, answers: float = 1, judgements: float = 1) -> float:
        """The part of `variance` that repeats reduce."""
        return (self.generator_noise or 0.0) / answers + (self.judge_noise or 0.0) / (answers * judgements)

    def std_error(self, cases: float, answers: float = 1, judgements: float = 1) -> float:
        """Standard error of the mean over so many cases, answers per case and judgements per answer."""
        return math.sqrt(self.variance(answers, judgements) / cases)


@dataclass(frozen=True, slots=True)
class Repeated:
    """Moments of each case's repeats; every field is an array with one entry per case, NaN where unknown.

    `mean` is over the case's answers, each the mean of its judgements; `answer_variance` is their sample variance,
    `per_judgement` the mean of 1 / judgements, and `judge_variance` the mean sample variance of an answer's judgements.
    """

    mean: Floats
    answers: Floats
    answer_variance: Floats
    per_judgement: Floats
    judge_variance: Floats


def components(cases: Repeated, clusters: ArrayLike | None = None) -> Components | None:
    """Variance components by the method of moments; a negative component becomes 0.

    Cases may differ in the number of answers and judgements: each case's own noise is subtracted. With clusters,
    `case_spread` makes `std_error` cluster-robust (CR2), for clusters of these sizes. None for fewer than two cases or
    clusters.
    """
    n = cases.mean.size
    error, _ = mean_error(cases.mean, clusters)
    if np.isnan(error):
        return None
    between = n * error**2
    judge = _mean(cases.judge_variance)
    own = (judge or 0.0) * cases.per_judgement
    generator = _mean(cases.answer_variance - own)
    noise = float((((generator or 0.0) + own) / cases.answers).mean())
    return Components(n, max(0.0, between - noise), None if generator is None else max(0.0, generator), judge)


def variance_limit(values: ArrayLike, clusters: ArrayLike | None, chance: float) -> float:
    """Factor from a sample's variance to its upper limit; the true variance is below it with probability `chance`.

    It is df / chi-square quantile (Browne 1995, Statistics in Medicine 14:1933) with `variance_df`. Infinite for fewer
    than two cases or clusters, and if nothing varies.
    """
    df = variance_df(values, clusters)
    return df / chi_square_quantile(df, 1 - chance) if df else math.inf


def variance_df(values: ArrayLike, clusters: ArrayLike | None) -> float:
    """The degrees of freedom of a sample's variance, also for scores that are not normal; clusters count as one each.

    They give the variance of the sample variance, mu4 / n - sigma^4 (n - 3) / (n (n - 1)), and are at most n - 1; 0
    for fewer than two cases or clusters, and if nothing varies.
    """
    x = np.asarray(values, dtype=np.float64)
    squares = cluster_sums(x - x.mean(), clusters) ** 2
    n, level = squares.size, float(squares.mean())
    if n < 2 or not level:
        return 0.0
    return min(n - 1, 2 / (float(squares.var(ddof=1)) / (n * level**2) + 2 / (n * (n - 1))))


def pass_at_k(passes: ArrayLike, answers: ArrayLike, k: int) -> Floats:
    """Probability that at least one of k answers passes, per case: 1 - C(n - c, k) / C(n, k), which is unbiased.

    Chen et al. 2021, arXiv:2107.03374, equation 1; NaN for fewer than k answers.
    """
    n, c = np.asarray(answers, dtype=np.float64), np.asarray(passes, dtype=np.float64)
    return 1 - _share_of_draws(n - c, n, k)


def pass_all_k(passes: ArrayLike, answers: ArrayLike, k: int) -> Floats:
    """Probability that all of k answers pass, per case: pass^k = C(c, k) / C(n, k), which is unbiased.

    Yao et al. 2024, arXiv:2406.12045, section 4. Arguments as in `pass_at_k`.
    """
    return _share_of_draws(np.asarray(passes, dtype=np.float64), np.asarray(answers, dtype=np.float64), k)


def _share_of_draws(marked: Floats, n: Floats, k: int) -> Floats:
    """C(marked, k) / C(n, k): the share of draws of k out of n that are all marked."""
    share = np.ones(np.broadcast(marked, n).shape)
    for i in range(k):
        with np.errstate(divide="ignore", invalid="ignore"):
            share = share * np.clip(marked - i, 0, None) / (n - i)
    return np.where(n >= k, share, np.nan)


def _mean(values: Floats) -> float | None:
    """The mean without NaN; None if nothing is left."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
