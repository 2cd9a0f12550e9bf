"""Drawing cases at random, in one pass and in bounded memory."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from evalflow.records import Case


def case_digest(case: Case, seed: int = 0) -> int:
    """64 bits that stand for a case's dataset and id; with another seed, unrelated ones."""
    text = f"{case.dataset}\0{case.id}".encode()
    return int.from_bytes(blake2b(text, digest_size=8, salt=seed.to_bytes(16, "little", signed=True)).digest(), "big")


class Draw:
    """A random draw of cases that needs one pass and remembers only what is drawn.

    Every case gets a pseudo-random number from the seed and its id; the smallest are drawn. So the draw is the same
    whatever the order of the data, and a larger draw with the same seed holds the smaller one. Each dataset is drawn
    from on its own, so that none goes without.

    Args:
        size: How many to draw of each dataset; None draws all.
        seed: Decides the draw.
    """

    def __init__(self, size: int | None, seed: int) -> None:
        self._size = size
        self._seed = seed
        self._drawn: defaultdict[str, list[int]] = defaultdict(list)

    def offer(self, case: Case) -> None:
        """Show a case to the draw."""
        if self._size is None:
            return
        ticket = -case_digest(case, self._seed)
        drawn = self._drawn[case.dataset]
        if len(drawn) < self._size:
            heapq.heappush(drawn, ticket)
        else:
            heapq.heappushpop(drawn, ticket)

    def pick(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Those of the cases that were drawn, in input order."""
        if self._size is None:
            yield from cases
            return
        drawn = {-ticket for tickets in self._drawn.values() for ticket in tickets}
        yield from (case for case in cases if case_digest(case, self._seed) in drawn)
