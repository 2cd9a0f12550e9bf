"""How far a run is, from what it appends to its journals."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from evalflow.run.folder import RunFolder

WINDOW_S = 15.0
"""What `lately` means for the rate."""
LATEST = 8
AT_ONCE = 5_000
"""Lines that are read before they are written down."""
_SHOWN = ("metric", "dataset", "case_id", "target_repeat", "status", "score", "reason")
_ASKED = ("dataset", "case_id", "target", "target_repeat")
_CELL = (*_ASKED, "metric", "judge", "repeat")
_BLOCK = 4 << 20


class Tail:
    """The complete lines of a growing file, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def lines(self) -> Iterator[bytes]:
        """Those that came since the last call."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._at)
            rest = b""
            while block := file.read(_BLOCK):
                *whole, rest = (rest + block).split(b"\n")
                for line in whole:
                    self._at += len(line) + 1
                    yield line


class Follower:
    """Counts what a run has finished, from the beginning, an earlier part of it included.

    Args:
        folder: The run's.
        expected: How many scores it will have; None where that is not known.

    Attributes:
        behind: Whether there is more to be read at once.
    """

    def __init__(self, folder: Path, expected: int | None) -> None:
        files = RunFolder(folder)
        self._scores, self._answers = Tail(files.journal), Tail(files.answers)
        self._expected = expected
        self._counts: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()
        self._failed: set[tuple[Any, ...]] = set()
        self._failed_answers: set[tuple[Any, ...]] = set()
        self._cost: float | None = 0.0
        self._latest: deque[dict[str, Any]] = deque(maxlen=LATEST)
        self._pace: deque[tuple[float, int]] = deque()
        self.behind = False

    def read(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Read on, and count: lines of scores and of answers, at most `AT_ONCE` of each.

        Scores are read first, since an answer is written before the scores of it.
        """
        lines = [list(islice(tail.lines(), AT_ONCE)) for tail in (self._scores, self._answers)]
        scores = [row for line in lines[0] if (row := _whole(line, (*_CELL, *_SHOWN, "member_of", "bill")))]
        answers = [row for line in lines[1] if (row := _whole(line, (*_ASKED, "status", "requests", "cached")))]
        for row in scores:
            self._score(row)
        for row in answers:
            self._answer(row)
        self.behind = max(map(len, lines)) == AT_ONCE
        return scores, answers

    def progress(self) -> dict[str, Any]:
        """How far it is, as it is kept with a run."""
        done = sum(self._counts.values())
        rate = self._rate(done)
        left = None if self._expected is None or not rate else max(self._expected - done, 0) / rate
        return {
            "done": done,
            "expected": self._expected,
            "counts": dict(self._counts),
            "answers": dict(self._answered),
            "rate": rate,
            "seconds_left": left,
            "cost_usd": self._cost,
            "latest": list(self._latest),
        }

    def _score(self, row: Mapping[str, Any]) -> None:
        if row["bill"]["requests"]:
            self._pay(row["cost_usd"])
        if row["member_of"] is not None:
            return  # its panel's row is the score
        cell = tuple(row[key] for key in _CELL)
        _count(self._counts, self._failed, cell, row["status"])
        self._latest.appendleft({key: row[key] for key in _SHOWN})

    def _answer(self, row: Mapping[str, Any]) -> None:
        asked = tuple(row[key] for key in _ASKED)
        _count(self._answered, self._failed_answers, asked, row["status"])
        if row["requests"] and not row["cached"]:
            self._pay(row["cost_usd"])

    def _pay(self, cost_usd: float | None) -> None:
        self._cost = None if self._cost is None or cost_usd is None else self._cost + cost_usd

    def _rate(self, done: int) -> float | None:
        now = time.monotonic()
        self._pace.append((now, done))
        while len(self._pace) > 2 and now - self._pace[1][0] > WINDOW_S:
            self._pace.popleft()
        since, before = self._pace[0]
        return (done - before) / (now - since) if now > since and done > before else None


def _whole(line: bytes, keys: Iterable[str]) -> dict[str, Any] | None:
    """The object of a line; None where it is damaged, which the run itself tells at its end."""
    from pydantic_core import from_json

    try:
        row: Any = from_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and row.keys() >= set(keys) else None  # pyright: ignore


def _count(counts: Counter[str], failed: set[tuple[Any, ...]], key: tuple[Any, ...], status: str) -> None:
    """Count one; what failed before and is there again was asked again, and its last line holds."""
    if key in failed:
        failed.discard(key)
        counts["error"] -= 1
    counts[status] += 1
    if status == "error":
        failed.add(key)
