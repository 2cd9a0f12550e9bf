"""The scores of a run that is under way, put into the tables as they come.

They stand where they will stand at the end, but for their number among the scores of their answer, which is that of
their arrival. At the end all of it is written once more, from the run's own tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalflow.app.results.derive import standing_answer
from evalflow.app.results.saved import Saved, load
from evalflow.app.worker.load import facts_of_metrics
from evalflow.app.worker.table_rows import answer_row, score_row, step_rows, tag_rows
from evalflow.records import Answer, Case
from evalflow.run.answers import answer_from_row
from evalflow.run.folder import RunFolder

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
        saved = load(folder)
        self._run, self._config = run, saved.recipe.settings.run
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
        from evalflow.store import growing, results

        positions = sorted(self._waiting)
        if not positions:
            return
        there = {row["position"]: row for row in growing.answers_at(connection, self._run, positions)}
        known: defaultdict[int, dict[Cell, Line]] = defaultdict(dict)
        for row in growing.scores_at(connection, self._run, positions):
            known[row["position"]][_cell(row)] = row
        rows = _Rows()
        for position, found in self._waiting.items():
            self._add_answer(rows, position, found, there.get(position))
            self._add_scores(rows, position, found.scores, known[position])
        growing.take_out(connection, self._run, rows.answers_out, rows.scores_out)
        results.put(connection, rows.answered, rows.tagged, rows.scored, rows.steps)

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
        return standing_answer(self._config, case, *found.pair) is not None

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
        said = said or standing_answer(self._config, case, *found.pair)
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

    def __init__(self, saved: Saved, repeats: int) -> None:
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
