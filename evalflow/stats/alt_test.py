"""The alternative annotator test: whether a judge may take a person's place (Calderon et al. 2025, arXiv:2501.10970).

Each person is left out in turn, and the judge and that person are both compared with the others. For each answer d is
1 if the person is at least as near to the others as the judge, minus 1 if the judge is at least as near as the person.
The judge can replace the person if the mean of d is below epsilon, by a one-sided t test, adjusted over people after
Benjamini & Yekutieli. The judge passes if it can replace half of the people or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalflow.lazy import np
from evalflow.stats.paired import adjust

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from evalflow.stats.arrays import Floats


EPSILON = 0.2
"""Cost advantage of the judge: 0.2 for experts, 0.15 for trained people, 0.1 for a crowd (section 3 of the paper)."""
MIN_PEOPLE = 3
MIN_ANSWERS = 30
_LEVEL = 0.05

Nearness = Literal["accuracy", "neg_rmse"]
"""accuracy: share of the others who give the same label; neg_rmse: minus the root mean squared distance to them."""


@dataclass(frozen=True, slots=True)
class AltTest:
    """The result of the test.

    Attributes:
        passes: Whether the judge can replace half of the people or more; None if there is no test.
        winning_rate: Share of the people whom it can replace.
        advantage: Share of the answers on which the judge is at least as near to the others as the person; mean over
            people.
        p_values, advantages: By person, NaN for one who shares no answers with others; p-values not adjusted.
        method: Text after a colon is a caveat, or the reason why there is no test.
    """

    passes: bool | None
    winning_rate: float | None
    advantage: float | None
    p_values: Floats
    advantages: Floats
    method: str


def alt_test(people: ArrayLike, judge: ArrayLike, nearness: Nearness = "accuracy", epsilon: float = EPSILON) -> AltTest:
    """Test whether a judge can replace a person.

    Args:
        people: Shape (people, answers), NaN for a missing label; classes by their number.
        judge: The judge's value of each answer.
        nearness: accuracy for classes, neg_rmse for values whose distance counts.
        epsilon: Tolerated advantage of a person, 0..1.
    """
    table, own = np.asarray(people, dtype=np.float64), np.asarray(judge, dtype=np.float64)
    nothing = np.full(len(table), np.nan)
    if len(table) < MIN_PEOPLE:
        return AltTest(None, None, None, nothing, nothing, f"none: fewer than {MIN_PEOPLE} people")
    p_values, advantages, sizes = nothing.copy(), nothing.copy(), np.zeros(len(table))
    for person in range(len(table)):
        others = np.delete(table, person, axis=0)
        shared = ~np.isnan(table[person]) & ~np.isnan(others).all(axis=0)
        sizes[person] = shared.sum()
        if shared.sum() < 2:
            continue
        theirs = _near(table[person, shared], others[:, shared], nearness)
        judges = _near(own[shared], others[:, shared], nearness)
        advantages[person] = (judges >= theirs).mean()
        p_values[person] = _below((theirs >= judges).astype(np.float64) - (judges >= theirs), epsilon)
    tested = ~np.isnan(p_values)
    if tested.sum() < MIN_PEOPLE:
        return AltTest(None, None, None, p_values, advantages, f"none: fewer than {MIN_PEOPLE} people share answers")
    rate = float((adjust(p_values, "by")[tested] < _LEVEL).mean())
    few = f": fewer than {MIN_ANSWERS} answers of a person" if sizes[tested].min() < MIN_ANSWERS else ""
    return AltTest(rate >= 0.5, rate, float(advantages[tested].mean()), p_values, advantages, f"alt_test_by{few}")


def _near(values: Floats, others: Floats, nearness: Nearness) -> Floats:
    """How near each value is to the others' of the same answer."""
    if nearness == "accuracy":
        return np.where(np.isnan(others), 0, others == values).sum(axis=0) / (~np.isnan(others)).sum(axis=0)
    return -np.sqrt(np.nanmean((others - values) ** 2, axis=0))


def _below(d: Floats, epsilon: float) -> float:
    """One-sided p-value of a mean of at least epsilon."""
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs]

    error = float(d.std(ddof=1)) / np.sqrt(d.size)
    if not error > 0:
        return float(d.mean() >= epsilon)
    return float(stdtr(d.size - 1, (d.mean() - epsilon) / error))
