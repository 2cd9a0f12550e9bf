"""Whether a difference stays within a margin: not inferior, or equivalent."""

from __future__ import annotations

from dataclasses import dataclass

ALPHA = 0.025


@dataclass(frozen=True, slots=True)
class WithinMargin:
    """A difference held against a margin.

    Attributes:
        bound: Lower one-sided bound of the difference at level 1 - alpha.
        p_not_inferior: That the difference is no lower than -margin.
        p_equivalent: That it lies between -margin and margin (two one-sided tests, Schuirmann 1987).
    """

    bound: float
    p_not_inferior: float
    p_equivalent: float
    alpha: float

    @property
    def not_inferior(self) -> bool:
        """Whether the difference is shown to be above -margin."""
        return self.p_not_inferior < self.alpha


def within_margin(difference: float, std_error: float, df: float, margin: float, alpha: float = ALPHA) -> WithinMargin:
    """Test a difference, positive where B is better, against a margin.

    Args:
        difference: B minus A, turned so that more is better.
        std_error: Of the difference, above 0.
        df: Its degrees of freedom.
        margin: How much worse is still acceptable, above 0.
        alpha: One-sided level; 0.025 goes with a 95 % interval.
    """
    from scipy.special import stdtr, stdtrit  # pyright: ignore[reportMissingTypeStubs]

    bound = difference - float(stdtrit(df, 1 - alpha)) * std_error
    lower = float(stdtr(df, -(difference + margin) / std_error))
    upper = float(stdtr(df, (difference - margin) / std_error))
    return WithinMargin(bound, lower, max(lower, upper), alpha)
