"""What the calls of a score took, in full, so that a run that goes on knows what it has done and paid already."""

from __future__ import annotations

from evalflow.frozen import record


@record()
class Bill:
    """The calls that were made for one score, and those that were not since their replies were remembered.

    Attributes:
        requests, reasks: Answered requests, and how many of them sent an invalid reply back.
        input_tokens, output_tokens: Of those requests, as far as they are known.
        remembered, saved_usd: Calls that were not made, and what they would have cost; None where unknown.
        paid: Short digests of the calls that were paid for and are remembered; see `calls.once.short`.
    """

    requests: int = 0
    reasks: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    remembered: int = 0
    saved_usd: float | None = 0.0
    paid: tuple[int, ...] = ()


NOTHING = Bill()
