"""Where the noise of a mean comes from: the cases, the generator, the judge; and how often k answers pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.stats.intervals import cr1
from evalflow.stats.paired import cluster_sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components of one score (Miller 2024, arXiv:2411.00640, section 3, with the noise in two parts).

    Attributes:
        cases: Cases.
        case_spread: Variance of the cases' true means, with what the cases of one cluster share.
        generator_noise: Variance of one answer about its case's mean; None where no case was answered twice.
        judge_noise: Variance of one judgement about its answer's mean; None where no answer was judged twice. What
            cannot be told apart is in the component above it.
    """

    cases: int
    case_spread: float
    generator_noise: float | None
    judge_noise: float | None

    def variance(self, answers: float = 1, judgements: float = 1) -> float:
        """Variance of a case's score, the mean of so many answers with so many judgements each; infinite allowed."""
        return self.case_spread + self.noise(answers, judgements)

    def noise(self, answers: float = 1, judgements: float = 1) -> float:
        """The part of `variance` that repeats take away."""
        return (self.generator_noise or 0.0) / answers + (self.judge_noise or 0.0) / (answers * judgements)

    def std_error(self, cases: float, answers: float = 1, judgements: float = 1) -> float:
        """Standard error of the mean of so many cases, answers to each and judgements of each answer."""
        return math.sqrt(self.variance(answers, judgements) / cases)


@dataclass(frozen=True, slots=True)
class Repeated:
    """What the repeats of each case come to. Every field is an array with one entry per case.

    Attributes:
        mean: Of the case's answers, each the mean of its judgements.
        answers: How many.
        answer_variance: Sample variance of the answers; NaN for a single one.
        per_judgement: Mean over the answers of 1 / judgements.
        judge_variance: Mean over the answers of the sample variance of their judgements; NaN where each has one.
    """

    mean: Floats
    answers: Floats
    answer_variance: Floats
    per_judgement: Floats
    judge_variance: Floats


def repeated(scores: ArrayLike) -> Repeated:
    """The repeats of a table.

    Args:
        scores: Shape (cases, answers, judgements), or (cases, repeats) for one kind of noise, which then counts as the
            generator's; NaN where a score is missing. Cases without any are left out.
    """
    import numpy as np

    table = np.asarray(scores, dtype=np.float64)
    table = table[:, :, None] if table.ndim == 2 else table
    table = table[~np.isnan(table).all(axis=(1, 2))]
    judgements = (~np.isnan(table)).sum(axis=2)
    answered = judgements > 0
    answers = answered.sum(axis=1)
    answer = np.nansum(table, axis=2) / np.where(answered, judgements, 1)
    mean = np.where(answered, answer, 0).sum(axis=1) / answers
    squares = (np.where(answered, answer - mean[:, None], 0) ** 2).sum(axis=1)
    twice = judgements > 1
    within = np.nansum((table - answer[:, :, None]) ** 2, axis=2) / np.where(twice, judgements - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Repeated(
            mean,
            answers.astype(np.float64),
            np.where(answers > 1, squares / (answers - 1), np.nan),
            np.where(answered, 1 / judgements, 0).sum(axis=1) / answers,
            np.where(twice, within, 0).sum(axis=1) / twice.sum(axis=1),
        )


def components(cases: Repeated, clusters: ArrayLike | None = None) -> Components | None:
    """Variance components by the method of moments; a negative component is taken as 0.

    Cases may have been answered and judged unequally often: each case's own noise is what is taken off.

    Args:
        cases: Their repeats.
        clusters: The cluster of each case. The spread is then such that `std_error` is cluster-robust (CR1), for
            clusters of these sizes.

    Returns:
        None for fewer than two cases, or clusters.
    """
    import numpy as np

    n = cases.mean.size
    sums = cluster_sums(cases.mean - cases.mean.mean(), clusters) if n else np.zeros(0)
    if sums.size < 2:
        return None
    between = n * float(cr1(n, sums.size, float((sums**2).sum()))) ** 2
    judge = _mean(cases.judge_variance)
    own = (judge or 0.0) * cases.per_judgement
    generator = _mean(cases.answer_variance - own)
    noise = float((((generator or 0.0) + own) / cases.answers).mean())
    return Components(n, max(0.0, between - noise), None if generator is None else max(0.0, generator), judge)


def pass_at_k(passes: ArrayLike, answers: ArrayLike, k: int) -> Floats:
    """Chance that at least one of k answers passes, per case: 1 - C(n - c, k) / C(n, k), which is unbiased.

    Chen et al. 2021, arXiv:2107.03374, equation 1.

    Args:
        passes: Answers that passed, c.
        answers: Answers in all, n; NaN is given where they are fewer than k.
        k: Answers drawn.
    """
    import numpy as np

    n, c = np.asarray(answers, dtype=np.float64), np.asarray(passes, dtype=np.float64)
    return 1 - _share_of_draws(n - c, n, k)


def pass_all_k(passes: ArrayLike, answers: ArrayLike, k: int) -> Floats:
    """Chance that all of k answers pass, per case: pass^k = C(c, k) / C(n, k), which is unbiased.

    Yao et al. 2024, arXiv:2406.12045, section 4. Arguments as of `pass_at_k`.
    """
    import numpy as np

    return _share_of_draws(np.asarray(passes, dtype=np.float64), np.asarray(answers, dtype=np.float64), k)


def _share_of_draws(marked: Floats, n: Floats, k: int) -> Floats:
    """C(marked, k) / C(n, k): the share of draws of k out of n that are all marked."""
    import numpy as np

    share = np.ones(np.broadcast(marked, n).shape)
    for i in range(k):
        with np.errstate(divide="ignore", invalid="ignore"):
            share = share * np.clip(marked - i, 0, None) / (n - i)
    return np.where(n >= k, share, np.nan)


def _mean(values: Floats) -> float | None:
    """The mean of those that are numbers; None without any."""
    import numpy as np

    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
