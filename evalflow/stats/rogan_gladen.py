"""A pass rate corrected by the judge's sensitivity and specificity, where labels were chosen by class.

With p the share that the judge passes, q1 its sensitivity and q0 its specificity, the true share is

    theta = (p + q0 - 1) / (q0 + q1 - 1)

(Rogan & Gladen 1978, American Journal of Epidemiology 107:71). It needs no random draw of labels: those of passing and
of failing answers may be drawn apart, or come from data where other shares pass. Where they were drawn at random, it is
wider than the labels alone, and `prediction` is the better choice. The interval is Lang & Reiczigel's (2014, Preventive
Veterinary Medicine 113:13), as for judges in Lee et al. 2025 (arXiv:2511.21140).
"""

from __future__ import annotations

from dataclasses import dataclass

from evalflow.stats.intervals import CONFIDENCE
from evalflow.stats.power import quantile


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A pass rate, corrected. What cannot be told is None; `method` then says why.

    Attributes:
        estimate: Within 0..1.
        low, high: Its interval, within 0..1.
        std_error: Of the estimate before it was brought into 0..1.
        method: How it was made.
    """

    estimate: float | None
    low: float | None
    high: float | None
    std_error: float | None
    method: str


def rogan_gladen(
    rate: float,
    n: int,
    specificity: float,
    fails: int,
    sensitivity: float,
    passes: int,
    *,
    confidence: float = CONFIDENCE,
) -> CorrectedRate:
    """The share of answers that people would pass.

    Args:
        rate: Share that the judge passes of the answers without a label, 0..1.
        n: How many these are.
        specificity: Share of the answers failed by people that the judge fails too, 0..1.
        fails: How many people failed.
        sensitivity: Share of the answers passed by people that the judge passes too, 0..1.
        passes: How many people passed.
        confidence: Coverage.

    Returns:
        No estimate without labels of both kinds, and where the judge is no better than chance.
    """
    if not (n and fails and passes):
        missing = "answers without a label" if not n else f"labels that {'fail' if not fails else 'pass'}"
        return CorrectedRate(None, None, None, None, f"none: no {missing}")
    if specificity + sensitivity <= 1:
        return CorrectedRate(None, None, None, None, "none: the judge is no better than chance")
    z = quantile(0.5 + confidence / 2)
    size, fail, success = n + z**2, fails + 2, passes + 2
    p = (n * rate + z**2 / 2) / size
    q0, q1 = (fails * specificity + 1) / fail, (passes * sensitivity + 1) / success
    theta, slope = (p + q0 - 1) / (q0 + q1 - 1), q0 + q1 - 1
    of_fails, of_passes = q0 * (1 - q0) / fail, q1 * (1 - q1) / success
    shift = 2 * z**2 * (theta * of_passes - (1 - theta) * of_fails)
    error = (p * (1 - p) / size + (1 - theta) ** 2 * of_fails + theta**2 * of_passes) ** 0.5 / slope
    low, high = (_share(theta + shift + side * z * error) for side in (-1, 1))
    estimate = _share((rate + specificity - 1) / (specificity + sensitivity - 1))
    return CorrectedRate(estimate, low, high, error, "rogan_gladen")


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
