"""How soon a run has as many calls in flight as its endpoint bears, and what that costs in refused calls.

    python bench/ramp.py [CASES]

CASES (200) are judged with the default concurrency, and again in the same folder with other answers, so that only the
endpoint is known from before, and once with 64 calls in flight from the start. The endpoint takes 1.5 s and bears all,
or refuses (429) what is more than 40 or 12 at once, or works on 8 at once while others wait.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from _lab import evalflow, folder, machine, measured, print_table, write_cases

from evalflow.testing import Endpoint, Request, status

LATENCY_S = 1.5
DEFAULTS = ("judge.concurrency.start=64", "judge.concurrency.max=64")  # as it is without being told


class Judge:
    """An endpoint with limits: what is more than `most` at once is refused, what is more than `room` waits."""

    def __init__(self, most: int = 10_000, room: int = 10_000) -> None:
        self._most = most
        self._room = asyncio.Semaphore(room)
        self._held = 0
        self.most = self.refused = 0
        self.first_s: float | None = None
        self.last_s: float | None = None

    @property
    def took_s(self) -> float:
        return (self.last_s or 0.0) - (self.first_s or 0.0)

    async def __call__(self, _: Request) -> Any:
        self.first_s = self.first_s or time.perf_counter()
        if self._held >= self._most:
            self.refused += 1
            return status(429, retry_after=0)
        self._held += 1
        self.most = max(self.most, self._held)
        try:
            async with self._room:
                await asyncio.sleep(LATENCY_S)
        finally:
            self._held -= 1
            self.last_s = time.perf_counter()
        return {"reason": "It is clear.", "score": 4}


ENDPOINTS: dict[str, dict[str, int]] = {
    "bears all": {},
    "refuses more than 40": {"most": 40},
    "refuses more than 12": {"most": 12},
    "works on 8 at once": {"room": 8},
}


def main() -> int:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{machine()}; {count} cases, {LATENCY_S:g} s a call\n")
    rows: list[tuple[object, ...]] = []
    with folder() as work:
        cases = write_cases(work / "cases.jsonl", count)
        for name, limits in ENDPOINTS.items():
            for kinds, dropped in ((("default", "again"), DEFAULTS), (("64 from the start",), ())):
                judge, place = Judge(**limits), work / f"{len(rows)}"
                place.mkdir()
                with Endpoint(judge) as endpoint:
                    command = [part for part in evalflow(endpoint.url, cases, 64) if part not in dropped]
                    for kind in kinds:
                        judge.first_s = judge.last_s = None
                        judge.refused = judge.most = 0
                        measured([*command, "cache.mode=refresh"], place)
                        rows.append((name, kind, f"{judge.took_s:.1f}", judge.refused, judge.most))
    print_table(("the endpoint", "", "s, first call to last reply", "refused", "most in flight"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
