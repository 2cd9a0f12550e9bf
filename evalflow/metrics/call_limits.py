"""Limits on the tool calls of an agent that hold whatever was expected."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Self

from pydantic import Field, model_validator

from evalflow.config.schema import MANY, Strict, Word
from evalflow.metrics.call_matching import json_key
from evalflow.records import ToolCall
from evalflow.trajectories import call_text, listed


class CallLimits(Strict):
    """What may not be exceeded.

    Attributes:
        least: The fewest calls.
        most: The most calls.
        forbidden: Tools that may not be called.
        repeats: How often the same tool may be called with the same arguments; more is a loop.
    """

    least: int | None = Field(default=None, ge=1, le=MANY)
    most: int | None = Field(default=None, ge=0, le=MANY)
    forbidden: list[Word] | None = Field(default=None, min_length=1)
    repeats: int | None = Field(default=None, ge=1, le=MANY)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least is {self.least}, and most is {self.most}: no number of calls is allowed")
        return self

    @property
    def has_limits(self) -> bool:
        return (self.least, self.most, self.forbidden, self.repeats) != (None, None, None, None)

    def broken(self, calls: Sequence[ToolCall]) -> Iterator[str]:
        """Each broken limit in a sentence."""
        if self.most is not None and len(calls) > self.most:
            yield f"{len(calls)} calls were made, and at most {self.most} are allowed"
        if self.least is not None and len(calls) < self.least:
            yield f"{len(calls)} calls were made, and at least {self.least} are wanted"
        barred = [f"{one.name} as call {at}" for at, one in enumerate(calls, 1) if one.name in (self.forbidden or ())]
        if barred:
            yield f"forbidden tools were called: {listed(barred, len(barred))}"
        if self.repeats is not None:
            same: dict[Hashable, list[ToolCall]] = {}
            for call in calls:
                same.setdefault((call.name, json_key(call.arguments or {})), []).append(call)
            loops = [
                f"{call_text(group[0])} {len(group)} times" for group in same.values() if len(group) > self.repeats
            ]
            if loops:
                yield f"the same call more than {self.repeats} times: {listed(loops, len(loops))}"
