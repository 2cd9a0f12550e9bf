"""Score ranges: what an answer is like whose grade lies in a part of the scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pydantic import field_validator

from evalflow.config.schema import Strict, Word


class Band(Strict):
    """What to expect of an answer within a range of grades.

    Attributes:
        score_range: Lowest and highest grade, both inclusive; equal where a single grade is described.
        expected_outcome: What such an answer is like.
    """

    score_range: tuple[int, int]
    expected_outcome: Word

    @field_validator("score_range")
    @classmethod
    def _ordered(cls, score_range: tuple[int, int]) -> tuple[int, int]:
        low, high = score_range
        if low > high:
            raise ValueError(f"the lowest grade comes first, but {low} is above {high}")
        return score_range

    def __str__(self) -> str:
        low, high = self.score_range
        return f"{low}..{high} ({self.expected_outcome})"


def band_fault(bands: Sequence[Band], low: int, high: int) -> str | None:
    """What is wrong with ranges on a scale from `low` to `high`: one beyond it, or two that overlap; None if nothing.

    Gaps are allowed: grades between two ranges are what lies between their descriptions.
    """
    ordered = sorted(bands, key=lambda band: band.score_range)
    for band in ordered:
        if band.score_range[0] < low or band.score_range[1] > high:
            return f"the score range {band} is not within the scale {low}..{high}"
    for left, right in pairwise(ordered):
        if right.score_range[0] <= left.score_range[1]:
            return f"the score ranges {left} and {right} overlap"
    return None
