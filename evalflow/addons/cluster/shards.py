"""Deals a run's cases to its actors, and deals a lost actor's cases again until the guilty case is found."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from evalflow.records import Answer, Case

LOSSES = 3
"""After this many lost actors the cases of a shard are tried one by one."""


@dataclass(slots=True)
class CaseWork:
    """A case to score, with its existing results.

    Attributes:
        number: Its position in the run, by which driver and actors identify it.
        finished: Digests of its cells that have a score.
        failed: Those of them with the score 0, where metrics stop.
        answers: Its answers of this run.
        reused: Its answers of other runs of the same sweep.
        begun: Whether any actor, perhaps a lost one, has begun it.
    """

    number: int
    case: Case
    finished: set[int] = field(default_factory=set[int])
    failed: set[int] = field(default_factory=set[int])
    answers: list[Answer] = field(default_factory=list[Answer])
    reused: list[Answer] = field(default_factory=list[Answer])
    begun: bool = False


@dataclass(slots=True, eq=False)
class _Shard:
    cases: dict[int, CaseWork]
    losses: int = 0


class Shards:
    """The cases of a run in parts of `size`, each dealt to one actor at a time.

    When an actor is lost, the case that ended it is unknown, so all its shards are suspect. A suspect shard is given
    to an actor that has no other. A shard that was lost three times is tried case by case.
    """

    def __init__(self, cases: Iterable[CaseWork], size: int) -> None:
        self._fresh: Iterator[CaseWork] = iter(cases)
        self._size = size
        self._held: dict[str, dict[int, _Shard]] = {}
        self._suspects: deque[_Shard] = deque()
        self._alone: str | None = None  # the actor that takes suspect shards while others have fresh cases
        self._exhausted = False

    @property
    def under_way(self) -> int:
        """Cases that are dealt but not done."""
        return sum(map(len, self._held.values()))

    @property
    def over(self) -> bool:
        """Whether nothing is left to deal and nothing is in progress."""
        return self._exhausted and not self._suspects and not self.under_way

    def deal(self, actor: str, room: int) -> list[CaseWork]:
        """The next cases for an actor with room for `room` more; none if it has enough or must finish some first."""
        held = self._held.setdefault(actor, {})
        if any(shard.losses for shard in held.values()):
            return []
        if self._suspects and not held:
            return self._give(held, self._suspects.popleft())
        if self._suspects and self._alone is None:
            self._alone = actor
        if actor == self._alone and self._suspects:
            return []
        if actor == self._alone:
            self._alone = None
        dealt: list[CaseWork] = []
        while len(held) < room and (shard := self._next()):
            dealt += self._give(held, shard)
        return dealt

    def get(self, actor: str, number: int) -> CaseWork:
        return self._held[actor][number].cases[number]

    def done(self, actor: str, number: int) -> None:
        """Remove a case from an actor: it is done, or will not be begun."""
        del self._held[actor].pop(number).cases[number]

    def left(self, actor: str) -> list[CaseWork]:
        """An actor's unfinished cases."""
        return [shard.cases[number] for number, shard in self._held.get(actor, {}).items()]

    def lost(self, actor: str) -> CaseWork | None:
        """Take back a lost actor's cases, which are dealt again.

        Returns the guilty case if the actor had only that one, on its last attempt.
        """
        if self._alone == actor:
            self._alone = None
        shards = dict.fromkeys(self._held.pop(actor, {}).values())
        for shard in shards:
            shard.losses += 1
            if shard.losses < LOSSES:
                self._suspects.append(shard)
            elif len(shard.cases) > 1:
                self._suspects += [_Shard({number: case}, LOSSES) for number, case in shard.cases.items()]
            elif len(shards) == 1:
                return next(iter(shard.cases.values()))
            else:
                self._suspects.append(shard)
        return None

    def stop(self) -> None:
        """Deal nothing more."""
        self._fresh, self._exhausted = iter(()), True
        self._suspects.clear()

    def _next(self) -> _Shard | None:
        cases = {case.number: case for case in islice(self._fresh, self._size)}
        if len(cases) < self._size:
            self._exhausted = True
        return _Shard(cases) if cases else None

    def _give(self, held: dict[int, _Shard], shard: _Shard) -> list[CaseWork]:
        held |= dict.fromkeys(shard.cases, shard)
        return list(shard.cases.values())
