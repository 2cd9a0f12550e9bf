"""The progress and the scores of a run under way."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.app.core.cases import answer_in_data
from evalflow.app.core.rederive import facts_of_metrics
from evalflow.app.core.saved import SavedRun, open_run
from evalflow.app.worker.load import answer_row, score_row, step_rows, tag_rows
from evalflow.records import Answer, Case
from evalflow.run.folder import RunFolder
from evalflow.run.journal import answer_from_row
from evalflow.store import scores

if TYPE_CHECKING:
    from sqlalchemy import Connection


Line = Mapping[str, Any]
Cell = tuple[str, str | None, int, str | None]
"""What tells the scores of an answer apart: metric, judge, repeat, member_of."""


@dataclass(slots=True)
class _Answered:
    """What came of one answer."""

    case: Case | None
    pair: tuple[str, int]
    said: Answer | None = None
    scores: list[Line] = field(default_factory=list[Line])


class LiveScores:
    """Takes in lines of a run's journals, and writes them down. To take one in again changes nothing.

    Args:
        run: The run's row.
        folder: Its files; run.json must be among them.

    Raises:
        UserError: They are of another version, or what the run was made from is gone.
    """

    def __init__(self, run: int, folder: RunFolder) -> None:
        saved = open_run(folder)
        self._run, self._config = run, saved.rules.settings.run
        self._repeats = self._config.repeats.target
        self._places = _Places(saved, self._repeats)
        self._waiting: dict[int, _Answered] = {}
        self.facts = {"metrics": facts_of_metrics(saved)}

    def take(self, scores: Sequence[Line], answers: Sequence[Line]) -> None:
        """Take lines in, to be written; of what the data does not hold, none is taken.

        Raises:
            UserError: The data cannot be read.
        """
        for line in answers:
            found = self._find(line)
            if found is not None:
                found.said = answer_from_row(dict(line))
        for line in scores:
            if line["member_of"] is not None:
                continue  # the row of its panel tells what it said
            found = self._find(line)
            if found is not None:
                found.scores.append(line)

    def position(self, line: Line) -> int | None:
        """Where the answer of a line that was taken in stands; None where the data does not hold it."""
        place = self._places.get(line["dataset"], line["case_id"])
        return None if place is None else self._position(place[0], line["target_repeat"])

    def write(self, connection: Connection) -> None:
        """Write down what was taken in; `wrote` says that this has come to stay."""
        positions = sorted(self._waiting)
        if not positions:
            return
        there = {row["position"]: row for row in scores.answers_at(connection, self._run, positions)}
        known: defaultdict[int, dict[Cell, Line]] = defaultdict(dict)
        for row in scores.scores_at(connection, self._run, positions):
            known[row["position"]][_cell(row)] = row
        rows = _Rows()
        for position, found in self._waiting.items():
            self._add_answer(rows, position, found, there.get(position))
            self._add_scores(rows, position, found.scores, known[position])
        scores.delete_at(connection, self._run, rows.answers_out, rows.scores_out)
        scores.put(connection, rows.answered, rows.tagged, rows.scored, rows.steps)

    def wrote(self) -> None:
        """Let go of what was written."""
        for found in self._waiting.values():
            if found.case is not None and self._is_settled(found, found.case):
                self._places.settle(found.case, found.pair[1])
        self._waiting.clear()

    def _is_settled(self, found: _Answered, case: Case) -> bool:
        """Whether no other answer will come in its place."""
        if found.said is not None:
            return found.said.status != "error"
        return answer_in_data(self._config, case, *found.pair) is not None

    def _find(self, line: Line) -> _Answered | None:
        place = self._places.get(line["dataset"], line["case_id"])
        if place is None:
            return None
        index, case = place
        pair = (line["target"], line["target_repeat"])
        return self._waiting.setdefault(self._position(index, pair[1]), _Answered(case, pair))

    def _position(self, index: int, repeat: int) -> int:
        return index * self._repeats + repeat

    def _add_answer(self, rows: _Rows, position: int, found: _Answered, there: Line | None) -> None:
        """Unless it is there already: a failed one gives way to what was said when it was asked again."""
        case, said = found.case, found.said
        if case is None or (there is not None and (said is None or there["answer"] is not None)):
            return
        if there is not None:
            rows.answers_out.append(position)
        else:
            rows.tagged += tag_rows(self._run, position, case)
        said = said or answer_in_data(self._config, case, *found.pair)
        rows.answered.append(answer_row(self._run, position, case, said, found.pair))

    def _add_scores(self, rows: _Rows, position: int, lines: Sequence[Line], known: Mapping[Cell, Line]) -> None:
        """Unless they are there already: a failed one gives way to what came when it was asked for again."""
        numbers = {cell: row["n"] for cell, row in known.items()}
        following = max(numbers.values(), default=-1) + 1
        for cell, line in {_cell(line): line for line in lines}.items():
            if cell not in numbers:
                n, following = following, following + 1
            elif known[cell]["status"] == "error":
                n = numbers[cell]
                rows.scores_out.append((position, n))
            else:
                continue
            rows.scored.append(score_row(self._run, position, n, line))
            rows.steps += step_rows(self._run, position, n, line)


@dataclass(slots=True)
class _Rows:
    """What is to be written, and what is in its place."""

    answered: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tagged: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    scored: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answers_out: list[int] = field(default_factory=list[int])
    scores_out: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


class _Places:
    """Where cases stand in the data, which is read as far as is asked for; a case is kept until its answers are there.

    Args:
        saved: The run.
        repeats: Answers to a case.
    """

    def __init__(self, saved: SavedRun, repeats: int) -> None:
        self._cases: Iterator[Case] = saved.cases()
        self._repeats = repeats
        self._at: dict[tuple[str, str], tuple[int, Case | None]] = {}
        self._settled: defaultdict[tuple[str, str], set[int]] = defaultdict(set)

    def get(self, dataset: str, case_id: str) -> tuple[int, Case | None] | None:
        """Its number in input order and, until its answers are there, the case; None where there is none."""
        key = (dataset, case_id)
        while key not in self._at:
            case = next(self._cases, None)
            if case is None:
                return None
            self._at[case.dataset, case.id] = (len(self._at), case)
        return self._at[key]

    def settle(self, case: Case, repeat: int) -> None:
        """One of its answers is there."""
        key = (case.dataset, case.id)
        self._settled[key].add(repeat)
        if len(self._settled[key]) == self._repeats:
            del self._settled[key]
            self._at[key] = (self._at[key][0], None)


def _cell(row: Line) -> Cell:
    return row["metric"], row["judge"], row["repeat"], row["member_of"]


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
