"""How long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass

from evalflow.calls.faults import Fault


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Capped exponential backoff with jitter, and the patience with an endpoint that never answered yet.

    Attributes:
        attempts: Tries in all.
        base_s, cap_s: The first wait and the longest; each wait is drawn from its upper half.
        retry_after_cap_s: The longest wait that an endpoint may ask for.
        connect_attempts, connect_patience_s: Tries, and seconds, for a connection to an endpoint that never answered.
        silence_s: Seconds without any answer after which an endpoint that never answered is probed.
        probe_s: Seconds that the probe waits.
    """

    attempts: int = 6
    base_s: float = 0.5
    cap_s: float = 8.0
    retry_after_cap_s: float = 60.0
    connect_attempts: int = 4
    connect_patience_s: float = 8.0
    silence_s: float = 8.0
    probe_s: float = 7.0

    def delay(self, attempt: int, fault: Fault) -> float:
        """Seconds to wait after the given try (the first is 1)."""
        backoff = min(self.cap_s, self.base_s * 2 ** min(attempt - 1, 30))
        wait = backoff * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, protects nothing
        asked = min(fault.retry_after_s or 0.0, self.retry_after_cap_s)
        return max(wait, asked)
