"""The plan that is fixed before a run's first request: the sample of cases, and prepared.json."""

from __future__ import annotations

import heapq
import json
import pickle
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, islice
from tempfile import TemporaryFile

from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.lazy import np
from evalflow.paths import write_atomically
from evalflow.records import Case
from evalflow.values.jsonvalues import JsonObject, as_map, as_number, is_object

KEPT_CASES = 10_000  # at most this many cases are kept in memory: even an empty case takes a kilobyte
Place = tuple[int, int]


class PreparedFile:
    """Implements Prepared in a run's folder."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.prepared
        self._entries = self._read()

    def get(self, key: str) -> JsonObject | None:
        return self._entries.get(key)

    def put(self, key: str, entry: JsonObject) -> None:
        """Store an entry; it is in the file when this returns."""
        self._entries[key] = dict(entry)
        write_atomically(self._path, json.dumps(self._entries, indent=2, ensure_ascii=False) + "\n")

    def entries(self) -> Iterator[JsonObject]:
        yield from self._entries.values()

    def bills(self) -> Iterator[tuple[float | None, JsonObject]]:
        """The cost of each entry in US dollars (None if unknown), and its bill."""
        for entry in self._entries.values():
            yield as_number(entry["cost_usd"]), as_map(entry["bill"])

    def _read(self) -> dict[str, dict[str, object]]:
        if not self._path.exists():
            return {}
        try:
            content: object = json.loads(self._path.read_text(encoding="utf-8"))
        except ValueError as error:
            what = f"it is no longer JSON: {error}"
            raise UserError(Problem(what, str(self._path), "put it back as it was, or start a new run")) from None
        rows = content if is_object(content) else {}
        entries = {
            key: entry for key, entry in rows.items() if is_object(entry) and {"bill", "cost_usd"} <= entry.keys()
        }
        if not is_object(content) or len(entries) < len(content):
            what = "it is not a map of entries with their bills"
            raise UserError(Problem(what, str(self._path), "put it back as it was"))
        return entries


def case_digest(case: Case, seed: int = 0) -> int:
    """A 64-bit digest of a case's dataset and id; different seeds give unrelated digests."""
    return _digest(f"{case.dataset}\0{case.id}", seed)


def _digest(text: str, seed: int) -> int:
    salt = seed.to_bytes(16, "little", signed=True)
    return int.from_bytes(blake2b(text.encode(), digest_size=8, salt=salt).digest(), "big")


class Draw:
    """A random sample of cases per dataset that needs one pass and stores only the sampled cases.

    Every case gets a pseudo-random number from the seed and its id; those with the smallest numbers are sampled. So the
    sample does not depend on the order of the data, and a larger sample with the same seed contains the smaller one.
    """

    def __init__(self, size: int | None, seed: int) -> None:
        self._size = size
        self._seed = seed
        self._tickets: defaultdict[str, list[int]] = defaultdict(list)

    def offer(self, case: Case) -> None:
        if self._size is None:
            return
        ticket = -case_digest(case, self._seed)
        kept = self._tickets[case.dataset]
        if len(kept) < self._size:
            heapq.heappush(kept, ticket)
        else:
            heapq.heappushpop(kept, ticket)

    def pick(self, cases: Iterable[Case]) -> Iterator[Case]:
        if self._size is None:
            yield from cases
            return
        chosen = {-ticket for tickets in self._tickets.values() for ticket in tickets}
        yield from (case for case in cases if case_digest(case, self._seed) in chosen)


def place(case: Case, seed: int) -> Place:
    """The place of a case in the random order of a seed. Cases of one group of a dataset follow each other."""
    digest = case_digest(case, seed)
    return (digest if case.group is None else _digest(f"{case.dataset}\0\0{case.group}", seed)), digest


def shuffled(cases: Iterable[Case], seed: int) -> Iterator[Case]:
    """The cases in the random order of a seed: their first n are a random sample, whatever n is.

    Up to `KEPT_CASES` are sorted in memory. More wait in a temporary file, and 24 bytes of each are in memory.
    """
    cases = iter(cases)
    head = list(islice(cases, KEPT_CASES))
    if len(head) < KEPT_CASES:
        yield from sorted(head, key=lambda case: place(case, seed))
        return
    firsts, seconds, offsets = array("Q"), array("Q"), array("Q")
    with TemporaryFile() as file:
        for case in chain(head, cases):
            first, second = place(case, seed)
            firsts.append(first)
            seconds.append(second)
            offsets.append(file.tell())
            pickle.dump(case, file, pickle.HIGHEST_PROTOCOL)
        del head
        order: list[int] = np.lexsort((seconds, firsts)).tolist()
        for number in order:
            file.seek(offsets[number])
            yield pickle.load(file)  # noqa: S301 - written above, to a file that has no name
