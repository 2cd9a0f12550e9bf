"""What all calls of one run share, whoever makes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from evalflow.calls.budget import Budget
from evalflow.calls.limiter import Limiters
from evalflow.calls.once import Once


@dataclass(frozen=True, slots=True)
class CallSession:
    """Shared by the judges and targets of a run, so that what holds for the run holds over all of them.

    Attributes:
        limiters: How many calls each endpoint bears.
        once: What is remembered, and what is being asked; None asks every time.
        budget: What the run may spend; None sets no limit.
    """

    limiters: Limiters = field(default_factory=Limiters)
    once: Once | None = None
    budget: Budget | None = None

    def close(self) -> None:
        """Write what is to be remembered, and close its file. A later call opens it again."""
        if self.once is not None:
            self.once.close()
