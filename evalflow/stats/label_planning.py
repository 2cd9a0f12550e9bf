"""How many labels a corrected interval of a wanted width needs.

By the rule of `prediction`: with n of M judged answers labelled and N = M - n not,

    variance = lambda^2 Var(F) / N + (Var(Y) - 2 lambda Cov(Y, F) + lambda^2 Var(F)) / n

where lambda is 1 below CROSSFIT_LABELS labels and then Cov(Y, F) / ((1 + n / N) Var(F)), within 0..1 (arXiv:2311.01453,
section 6). No number of labels makes the interval narrower than that of all M answers labelled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.stats.intervals import CONFIDENCE
from evalflow.stats.prediction import CROSSFIT_LABELS, MIN_LABELS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

# More labels than these nobody gives; the search ends there.
MOST_LABELS = 1_000_000


@dataclass(frozen=True, slots=True)
class Spread:
    """How people's labels and a judge's scores vary together.

    Attributes:
        labels: Variance of people's labels of an answer, at least 0.
        judged: Variance of the judge's scores.
        shared: Their covariance.
        design_effect: By what answers of one group are worth less than answers of their own.
    """

    labels: float
    judged: float
    shared: float
    design_effect: float = 1.0

    def width(self, n: ArrayLike, answers: float = math.inf, confidence: float = CONFIDENCE) -> Floats:
        """How wide the corrected interval will be.

        Args:
            n: Labels, MIN_LABELS or more and less than `answers`; one or many.
            answers: That the judge scores, those with a label among them; may be infinite.
            confidence: Coverage.
        """
        import numpy as np
        from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]

        labels = np.asarray(n, dtype=np.float64)
        rest = np.full(labels.shape, answers) - labels
        lambda_ = np.ones(labels.shape)
        if self.judged > 0:
            tuned = np.clip(self.shared / ((1 + labels / rest) * self.judged), 0, 1)
            lambda_ = np.where(labels < CROSSFIT_LABELS, 1.0, tuned)
        residual = self.labels - 2 * lambda_ * self.shared + lambda_**2 * self.judged
        variance = (lambda_**2 * self.judged / rest + residual / labels) * self.design_effect
        quantile = stdtrit(labels - 1, 0.5 + confidence / 2)
        width: Floats = 2 * quantile * np.sqrt(variance)
        return width

    def labels_for(self, width: float, answers: float = math.inf, confidence: float = CONFIDENCE) -> int | None:
        """The fewest labels whose corrected interval is no wider than `width`.

        Args:
            width: Wanted, from the low to the high end, more than 0.
            answers: That the judge scores, those with a label among them; may be infinite.
            confidence: Coverage.

        Returns:
            None where even labels of all but two of the answers leave it wider.
        """
        import numpy as np

        most = min(answers - 2, MOST_LABELS)
        start, step = MIN_LABELS, 1_000
        while start <= most:
            n = np.arange(start, min(start + step, most + 1))
            enough = np.flatnonzero(self.width(n, answers, confidence) <= width)
            if enough.size:
                return int(n[enough[0]])
            start, step = start + step, 2 * step
        return None


def observed(labels: ArrayLike, judged: ArrayLike) -> Spread | None:
    """The spread of labelled answers; None for fewer than two.

    Args:
        labels: People's, one for each answer.
        judged: The judge's.
    """
    import numpy as np

    y, f = np.asarray(labels, dtype=np.float64), np.asarray(judged, dtype=np.float64)
    if y.size < 2:
        return None
    found = np.cov(np.stack([y, f]), ddof=1)
    return Spread(float(found[0, 0]), float(found[1, 1]), float(found[0, 1]))


def alike(labels: float, correlation: float, design_effect: float = 1.0) -> Spread:
    """The spread where the judge's scores vary as much as people's labels do.

    Args:
        labels: Variance of people's labels.
        correlation: Of the two.
        design_effect: As of `Spread`.
    """
    return Spread(labels, labels, correlation * labels, design_effect)
