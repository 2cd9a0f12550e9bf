"""Loads a run's answers and scores into the database while the run's journals grow.

A score's key is derived from its cell: the answer's position in input order, and the numbers of metric and repeat. So
reading a line twice changes nothing, and a retried score replaces the failed one. The journal offsets are part of the
run's progress, which is saved in the same transaction.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.addons.studio.store import results, runs, scores
from evalflow.addons.studio.store.rows import chunks, storable
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.store.scores import Place
from evalflow.app.core.cases import answer_in_data
from evalflow.app.core.rederive import facts_of_metrics, facts_of_run, searched_text
from evalflow.app.core.saved import open_run
from evalflow.datasets import tag_levels
from evalflow.engine.folder import RunFolder
from evalflow.engine.journal import parse_answer
from evalflow.errors import Problem, UserError
from evalflow.lazy import pl
from evalflow.metrics.kinds.composite import CompositeMetricConfig
from evalflow.records import Answer, Case
from evalflow.report.results_csv import as_answered
from evalflow.summary.scan import scan_journal

if TYPE_CHECKING:
    from sqlalchemy import Connection

Row = dict[str, Any]
AT_ONCE = 10_000
"""Maximum rows in a transaction when loading an ended run, so that other writers are not blocked."""
LATEST = 8
"""The number of scores shown in the progress."""
WINDOW_S = 15.0
"""The window for the rate, in seconds."""
_BLOCK = 4 << 20
_SHOWN = ("metric", "dataset", "case_id", "target_repeat", "status", "score", "reason")
_COLUMNS = [column.name for column in scores.scores.columns if not column.primary_key]


@dataclass(slots=True)
class Block:
    """The rows read from a part of the journals.

    Attributes:
        ends: The offsets up to which scores and answers have been read, in bytes.
        standing: Rows of answers inserted only if the position has no row yet.
        statuses: Statuses of the generated answers, by position.
        calls, cost_usd: The number of its calls, and their cost; None if a price is unknown.
        latest: Its last scores, newest first.
    """

    ends: list[int] = field(default_factory=list[int])
    answers: dict[int, Row] = field(default_factory=dict[int, Row])
    standing: dict[int, Row] = field(default_factory=dict[int, Row])
    tags: list[Row] = field(default_factory=list[Row])
    scores: dict[Place, Row] = field(default_factory=dict[Place, Row])
    steps: dict[Place, Row] = field(default_factory=dict[Place, Row])
    statuses: dict[int, str] = field(default_factory=dict[int, str])
    calls: int = 0
    cost_usd: float | None = 0.0
    latest: deque[Row] = field(default_factory=lambda: deque[Row](maxlen=LATEST))

    def pay(self, calls: int, cost_usd: float | None) -> None:
        """Add calls and their cost."""
        self.calls += calls
        self.cost_usd = _sum(self.cost_usd, cost_usd)


class Intake:
    """Loads a run's journals into the database, continuing from the run's saved progress.

    After a database error, create a new Intake: this one may have read lines that were not written.

    Attributes:
        facts: Facts about the metrics that are known before the run ends.
        behind: Whether the journals held more than the last `read` took.
    """

    def __init__(self, run: StoredRun) -> None:
        folder = RunFolder(run.path)
        saved = open_run(folder)
        rules = saved.rules
        self.facts = {"metrics": facts_of_metrics(saved), "searched": searched_text(rules.settings.run)}
        self.behind = False
        self._run: int = run.id
        self._saved, self._folder, self._config = saved, folder, rules.settings.run
        self._target: str = saved.manifest.target.name
        self._journal = scan_journal(folder.journal, saved.manifest.run_id, rules.bounded)
        kinds = {name: isinstance(metric.config, CompositeMetricConfig) for name, metric in rules.metrics.items()}
        self._composites = [name for name, is_composite in kinds.items() if is_composite]
        self._metrics = {name: number for number, name in enumerate(sorted(kinds, key=lambda name: kinds[name]))}
        self._cases = saved.cases()
        self._indexes: dict[tuple[str, str], int] = {}
        self._open: dict[int, Case] = {}
        """By position, the cases read whose answer is missing or may still change."""
        self._pace: deque[tuple[float, int]] = deque()
        self._progress: Row = dict(run.progress)
        ends = self._progress.get("read")
        self._is_new = ends is None or any(_size(file) < end for file, end in zip(self._files, ends, strict=True))
        if self._is_new:  # or an older version read it without offsets, or the journal was replaced
            self._progress = {"expected": self._progress.get("expected"), "cost_usd": 0.0, "read": [0, 0]}

    @property
    def lags(self) -> bool:
        """Whether the journals have changed since they were read."""
        return self._is_new or [_size(file) for file in self._files] != list(self._progress["read"])

    @property
    def answers(self) -> int:
        """The number of expected answers for the cases read so far."""
        return len(self._indexes) * self._config.repeats.target

    @property
    def _files(self) -> tuple[Path, Path]:
        return self._folder.journal, self._folder.answers

    def read(self) -> Block:
        """Read the next lines of both journals. Scores are read first: an answer is written before its scores."""
        texts = [_lines(file, end) for file, end in zip(self._files, self._progress["read"], strict=True)]
        self.behind = max(map(len, texts)) >= _BLOCK
        ends = [end + len(text) for end, text in zip(self._progress["read"], texts, strict=True)]
        block = Block(ends)
        lines = self._journal.parse(texts[0]).iter_rows(named=True) if texts[0] else ()
        answers = [answer for line in texts[1].splitlines() if (answer := parse_answer(line))]
        for answer in answers:
            self._add_answer(block, answer)
        for line in lines:
            if line["bill"]["requests"]:
                block.pay(line["bill"]["requests"], line["cost_usd"])
            if line["member_of"] is None:  # the panel's row includes its members' scores
                position = self._add_score(block, line)
                block.latest.appendleft({**{name: line[name] for name in _SHOWN}, "position": position})
        return block

    def write(self, connection: Connection, block: Block) -> Row:
        """Write a block. Returns the progress to save with it."""
        if self._is_new:
            scores.clear(connection, self._run)
            self._is_new = False
        before = self._progress
        counts, answers = Counter[str](before.get("counts")), Counter[str](before.get("answers"))
        counts.update(row["status"] for row in block.scores.values())
        replaced = scores.statuses(connection, self._run, list(block.scores))
        counts.subtract(replaced.values())
        answers.update(block.statuses.values())
        answers["error"] -= scores.failed_answers(connection, self._run, list(block.statuses))
        self.put(connection, block, replaced)
        done, expected = counts.total(), before["expected"]
        places = [row["position"] for row in block.latest]
        asked = results.questions_at(scores.RunScores(connection, self._run), places)
        latest = [{**row, "question": asked.get(row["position"])} for row in block.latest]
        rate = self._rate(done)
        self._progress = {
            "done": done,
            "expected": expected,
            "counts": dict(+counts),
            "answers": dict(+answers),
            "rate": rate,
            "seconds_left": None if expected is None or not rate else max(expected - done, 0) / rate,
            "calls": before.get("calls", 0) + block.calls,
            "cost_usd": _sum(before["cost_usd"], block.cost_usd),
            "latest": [*latest, *before.get("latest", ())][:LATEST],
            "read": block.ends,
        }
        return self._progress

    def put(self, connection: Connection, block: Block, replaced: Collection[Place] | None = None) -> None:
        """Write the rows of a block. Existing rows are replaced, except standing answers and tags.

        Empty `steps` are written only for replaced scores, or for all if `replaced` is None.
        """
        rows = block.steps.items()
        steps = [row for place, row in rows if replaced is None or place in replaced or row["steps"] != "[]"]
        scores.put(connection, list(block.standing.values()), block.tags, [], [], is_replaced=False)
        scores.put(connection, list(block.answers.values()), [], list(block.scores.values()), steps)

    def rest(self) -> Iterator[Block]:
        """Yield the rows missing in a finished run's journals: cases without a score, and scores of composites."""
        for some in chunks(self._unanswered(), AT_ONCE):
            block = Block()
            for position, case in some:
                self._add_standing(block, position, case)
            yield block
        yield from self.composites()

    def composites(self) -> Iterator[Block]:
        """Yield the scores that are only in scores.parquet: those of composites, or all if the journal is gone."""
        if self._folder.journal.is_file() and not self._composites:
            return
        frame = self._saved.scores().filter(pl.col("member_of").is_null())
        if self._folder.journal.is_file():
            frame = frame.filter(pl.col("metric").is_in(self._composites))
        for rows in frame.collect_batches(chunk_size=AT_ONCE, maintain_order=True):
            block = Block()
            for line in rows.iter_rows(named=True):
                self._add_score(block, line)
            yield block

    def _unanswered(self) -> Iterator[tuple[int, Case]]:
        yield from list(self._open.items())
        while (case := next(self._cases, None)) is not None:
            for position in self._meet(case):
                yield position, case

    def _add_answer(self, block: Block, answer: Answer) -> None:
        position = self._position(answer.dataset, answer.case_id, answer.target_repeat)
        block.statuses[position] = answer.status
        if answer.requests and not answer.cached:
            block.pay(answer.requests, answer.cost_usd)
        case = self._open.get(position)
        if case is None:
            return
        block.answers[position] = self._answer_row(position, case, answer)
        block.tags += self._tag_rows(position, case)
        if answer.status != "error":  # a failed answer may be generated again
            del self._open[position]

    def _add_score(self, block: Block, line: Row) -> int:
        position = self._position(line["dataset"], line["case_id"], line["target_repeat"])
        case = self._open.get(position)
        if case is not None and position not in block.answers and position not in block.standing:
            self._add_standing(block, position, case)
        place = (position, self._metrics[line["metric"]] * self._config.repeats.judge + line["repeat"])
        at: Row = {"run": self._run, "position": position, "n": place[1]}
        block.scores[place] = {**at, **{name: _text(line[name]) for name in _COLUMNS}}
        block.steps[place] = {**at, "steps": _text(line["steps"] or "[]")}
        return position

    def _add_standing(self, block: Block, position: int, case: Case) -> None:
        answer = answer_in_data(self._config, case, self._target, position % self._config.repeats.target)
        block.standing[position] = self._answer_row(position, case, answer)
        block.tags += self._tag_rows(position, case)
        if answer is not None:
            self._open.pop(position, None)

    def _position(self, dataset: str, case_id: str, repeat: int) -> int:
        """The position of an answer in its run; reads cases until it is found."""
        key = (dataset, case_id)
        while key not in self._indexes:
            case = next(self._cases, None)
            if case is None:
                what = f"case {case_id!r} was scored, but the data no longer has it there"
                raise UserError(Problem(what, str(self._folder.path)))
            self._open.update(dict.fromkeys(self._meet(case), case))
        return self._indexes[key] * self._config.repeats.target + repeat

    def _meet(self, case: Case) -> range:
        repeats = self._config.repeats.target
        first = len(self._indexes) * repeats
        self._indexes[case.dataset, case.id] = len(self._indexes)
        return range(first, first + repeats)

    def _answer_row(self, position: int, case: Case, answer: Answer | None) -> Row:
        shown = as_answered(case, answer)
        answer_text = shown.answer
        if answer_text is None and shown.actual is not None:
            answer_text = (
                shown.actual if isinstance(shown.actual, str) else json.dumps(shown.actual, ensure_ascii=False)
            )
        return {
            "run": self._run,
            "position": position,
            "dataset": _text(shown.dataset),
            "case_id": _text(shown.id),
            "target": _text(self._target),
            "target_repeat": position % self._config.repeats.target,
            "tags": list(shown.tags),
            "question": _text(shown.question or ""),
            "answer": _text(answer_text),
            "reference": _text(shown.reference_text),
            "error": _text(answer.error if answer else None),
        }

    def _tag_rows(self, position: int, case: Case) -> list[Row]:
        levels = dict.fromkeys(level for tag in case.tags for level in tag_levels(tag))
        return [{"run": self._run, "tag": _text(level), "position": position} for level in levels]

    def _rate(self, done: int) -> float | None:
        now = time.monotonic()
        self._pace.append((now, done))
        while len(self._pace) > 2 and now - self._pace[1][0] > WINDOW_S:
            self._pace.popleft()
        since, before = self._pace[0]
        return (done - before) / (now - since) if now > since and done > before else None


def results_of(row: StoredRun) -> Row:
    """The columns derived from an ended run's files: facts, and the exit code if a worker saw it end."""
    folder = RunFolder(row.path)
    facts, manifest = facts_of_run(folder), folder.read_manifest()
    is_known = row.exit_code is not None and manifest.status == "done"
    return {"facts": facts, **({"exit_code": manifest.exit_code} if is_known else {})}


def save_results(connection: Connection, row: StoredRun, results: Row) -> bool:
    """Save these columns, and the scores of composites (thresholds affect these); False if the row has changed."""
    if not runs.change(connection, row.run_id, row.version, **results):
        return False
    intake = Intake(row)
    for block in intake.composites():
        intake.put(connection, block)
    return True


def _lines(file: Path, start: int) -> bytes:
    """The next complete lines of a growing file, about `_BLOCK` bytes."""
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return b""
    with opened:
        opened.seek(start)
        block = opened.read(_BLOCK)
        if len(block) == _BLOCK:
            block += opened.readline()
        return block[: block.rfind(b"\n") + 1]


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _text(value: object) -> object:
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):  # the fast path
        return value
    return storable(value)
