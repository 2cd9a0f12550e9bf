"""How well a judge's scores separate the answers that people pass from those that they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalflow.stats.agreement import Agreement, from_influence, undefined
from evalflow.stats.intervals import CONFIDENCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


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
