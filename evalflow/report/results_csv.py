"""results.csv, miscategorised.csv and cases.jsonl, written row by row."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, TextIO

from evalflow.datasets import short_row
from evalflow.errors import Problem, UserError
from evalflow.lazy import pl
from evalflow.paths import FORMULA, safe_text
from evalflow.records import Answer, Case
from evalflow.summary.journal import json_line

AnswerOf = Callable[[Case, str, int], Answer | None]
CaseKey = tuple[str, str]  # a case's dataset and id
Score = dict[str, Any]  # one row of `scores`, by column name

CELL = ("dataset", "case_id", "target", "target_repeat", "metric", "judge", "repeat")
"""The columns that identify a score."""
RESULT = ("status", "score", "threshold", "passed")
"""The score, or the state of a missing one, and whether it passed."""
FAULT = ("error_type", "error")
"""Why a score is in state error."""
COLUMNS = (*CELL, "member_of", *RESULT, "value", "reason", "steps", *FAULT, "path", "cost_usd", "latency_s")
"""The columns of `scores` that are shown for a single case."""

ABOUT_ANSWER = ("finish_reason", "thoughts", "full_answer", "extracted")
"""Facts about an answer, besides its text."""
_BATCH = 2000
MISCATEGORISED_COLUMNS = (*CELL[:5], "question", "expected", "actual", "confidence", "tags")


@dataclass(frozen=True, slots=True)
class AnsweredCase:
    """One answer of a target to a case (None if the run has none), with its scores.

    `scores` has rows of `scores` in their order, with some of their columns; empty if no metric applied.
    """

    case: Case
    target: str
    target_repeat: int
    answer: Answer | None
    scores: tuple[Score, ...]

    @property
    def answer_text(self) -> str | None:
        """The answer's text, else the agent's actions as JSON; None without either."""
        if self.answer is None:
            return None
        output = self.answer.actual if self.answer.answer is None else self.answer.answer
        return None if output is None else json_or_text(output)


def rows(
    cases: Iterable[Case], answers: AnswerOf, scores: pl.LazyFrame, columns: Sequence[str] = COLUMNS
) -> Iterator[AnsweredCase]:
    """Every case with every target and target_repeat in the scores, in this order, with these columns of its scores.

    UserError if some scores have no case: then these are not the cases that were scored.
    """
    pairs: list[tuple[str, int]] = list(
        scores.select("target", "target_repeat").unique(maintain_order=True).collect(engine="streaming").iter_rows()
    )
    by_case = groupby(iterate_rows(scores.select(columns)), key=itemgetter("dataset", "case_id"))
    key, group = next(by_case, (None, iter(())))
    for case in cases:
        by_pair: dict[tuple[str, int], list[Score]] = {}
        if key == (case.dataset, case.id):
            for score in group:
                by_pair.setdefault((score["target"], score["target_repeat"]), []).append(score)
            key, group = next(by_case, (None, iter(())))
        for target, repeat in pairs:
            own = tuple(by_pair.get((target, repeat), ()))
            yield AnsweredCase(case, target, repeat, answers(case, target, repeat), own)
    if key is not None:
        what = f"case {key[1]!r} was scored, but is no longer at its place in the data"
        hint = "the reports need the same cases in the same order as the run; restore the data file"
        raise UserError(Problem(what, f"dataset {key[0]}", hint))


def of_cases(scores: pl.LazyFrame, wanted: Collection[CaseKey]) -> pl.LazyFrame:
    """The rows of some cases, in their order."""
    keys = pl.LazyFrame([*wanted], schema={"dataset": pl.String, "case_id": pl.String}, orient="row")
    return scores.join(keys, on=["dataset", "case_id"], how="semi", maintain_order="left")


def as_answered(case: Case, answer: Answer | None) -> Case:
    """The case with this answer instead of its recorded one, and with the messages of a played conversation."""
    if answer is None:
        return replace(case, answer=None, actual=None)
    changes: dict[str, object] = {"answer": answer.answer, "actual": answer.actual}
    if answer.generated:
        changes["failure"] = None  # a recorded failure does not concern the new answer
    if answer.contexts is not None:
        changes["contexts"] = answer.contexts
    if answer.metadata is not None:
        changes["metadata"] = answer.metadata
    if answer.status == "answered" and answer.messages:
        changes["messages"] = answer.messages
    for name, value in changes.items():
        if value is not getattr(case, name):
            return replace(case, **changes)
    return case


def iterate_rows(scores: pl.LazyFrame) -> Iterator[Score]:
    """The rows by column name, in bounded memory."""
    for batch in scores.collect_batches(chunk_size=_BATCH, maintain_order=True):
        yield from batch.iter_rows(named=True)


FIXED = ("dataset", "case_id", "target", "target_repeat", "tags", "question", "answer", "finish_reason")
"""The columns of results.csv beside those of scores; without question and answer in `write_large_results`."""
DIGITS = 4
"""Decimals of a score."""

_Key = tuple[str, str | None, int]


class ResultsWriter:
    """Writes results.csv: one row per case, target and target_repeat.

    Per metric there are three columns: `<metric>` (the score, empty unless scored), `<metric>_passed` and
    `<metric>_reason`; `@<judge>` and `#<repeat>` follow only if a run has several. The reason of a score that is
    not `scored` begins with its state. Members of a panel are left out; scores.parquet has them. `write_large_results`
    writes the table of a run with too many cases to list.

    Text that a spreadsheet would run as a formula (it begins with = + - @, a tab or a carriage return) gets a leading
    apostrophe, so that an untrusted answer cannot run anything. Numbers are unchanged.
    """

    def __init__(self, file: TextIO, scores: pl.LazyFrame) -> None:
        self._series = columns_of_scores(scores)
        self._writer = csv.writer(file)
        self._writer.writerow([*FIXED, *(safe_text(column) for columns in self._series.values() for column in columns)])

    def write(self, row: AnsweredCase) -> None:
        case = row.case
        cells: list[object] = [case.dataset, case.id, row.target, row.target_repeat]
        cells += ["; ".join(case.tags), case.question or case.scenario or "", row.answer_text or ""]
        cells.append((row.answer and row.answer.finish_reason) or "")
        own = by_column(row)
        for key in self._series:
            cells += _cells(own.get(key))
        self._writer.writerow([safe_text(one) if isinstance(one, str) and one[:1] in FORMULA else one for one in cells])


def by_column(row: AnsweredCase) -> dict[_Key, Score]:
    """The scores of an answer by the keys of `columns_of_scores`; without those of a panel's members."""
    own = (score for score in row.scores if score["member_of"] is None)
    return {(score["metric"], score["judge"], score["repeat"]): score for score in own}


class CasesWriter:
    """Writes cases.jsonl: every case once, as evaluated, with its first answer. It loads again as a dataset."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._last: tuple[str, str] | None = None

    def write(self, row: AnsweredCase) -> None:
        """Append the case, unless it is the same as in the previous row."""
        key = (row.case.dataset, row.case.id)
        if key != self._last:
            self._last = key
            about = {name: getattr(row.answer, name, None) for name in ABOUT_ANSWER}
            kept = {name: value for name, value in about.items() if value is not None}
            case = short_row(as_answered(row.case, row.answer))
            case |= {name: value for name, value in kept.items() if name not in case}
            if case.get("reference", "") is None:  # at the end, where `SavedRun.case_texts` finds it without parsing
                case["reference"] = case.pop("reference")
            self._file.write(f"{json_line(case).decode()}\n")


def columns_of_scores(scores: pl.LazyFrame) -> Mapping[_Key, tuple[str, str, str]]:
    """The columns of a run's scores in a table of its cases: by metric, judge and repeat, those of `ResultsWriter`."""
    frame = (
        scores.filter(pl.col("member_of").is_null())
        .select("metric", "judge", "repeat")
        .unique(maintain_order=True)
        .collect(engine="streaming")
    )
    keys: list[_Key] = list(frame.iter_rows())
    judges = {judge for _, judge, _ in keys if judge is not None}
    several = {repeat for _, _, repeat in keys} != {0}
    order = {metric: i for i, metric in reversed(list(enumerate(metric for metric, _, _ in keys)))}
    keys.sort(key=lambda key: order[key[0]])
    columns: dict[_Key, tuple[str, str, str]] = {}
    for metric, judge, repeat in keys:
        label = f"metric {metric}" if metric in FIXED else metric
        suffix = (f"@{judge}" if judge and len(judges) > 1 else "") + (f"#{repeat}" if several else "")
        columns[metric, judge, repeat] = f"{label}{suffix}", f"{label}_passed{suffix}", f"{label}_reason{suffix}"
    return columns


def score_cells(score: Score | None) -> tuple[float | None, bool | None, str | None]:
    """The score, whether it passed, and the reason. Without a score the reason begins with the state."""
    if score is None:
        return None, None, None
    if score["status"] == "scored":
        return score["score"], score["passed"], score["reason"]
    why = score["error"] or score["reason"]
    return None, score["passed"], f"{score['status']}: {why}" if why else score["status"]


def rounded_score(score: float | None) -> float | None:
    """The score as in results.csv, by Python's rule, of the exact binary value."""
    return None if score is None else round(score, DIGITS)


def _cells(score: Score | None) -> list[object]:
    value, passed, reason = score_cells(score)
    number = rounded_score(value)
    return ["" if number is None else number, "" if passed is None else str(passed).lower(), reason or ""]


def json_or_text(value: object) -> str:
    """A text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class MiscategorisedWriter:
    """Writes miscategorised.csv: a row for every answer whose class is not the expected one, in input order.

    `confidence` is empty if there is none. Text that a spreadsheet would run as a formula is escaped as in results.csv.
    """

    def __init__(self, file: TextIO, metrics: Collection[str]) -> None:
        self._metrics = frozenset(metrics)
        self._writer = csv.writer(file)
        self._writer.writerow(MISCATEGORISED_COLUMNS)

    def write(self, row: AnsweredCase) -> None:
        """Append the row if its class is wrong."""
        for score in row.scores:
            if score["metric"] in self._metrics and score["status"] == "scored" and score["score"] == 0:
                self._writer.writerow(_miscategorised_cells(row, score))


def _miscategorised_cells(row: AnsweredCase, score: Score) -> list[object]:
    classes = json.loads(score["value"])
    confidence = classes.get("confidence")
    labels = (classes["truth"], classes["prediction"])
    return [
        *map(safe_text, (row.case.dataset, row.case.id, row.target)),
        row.target_repeat,
        *map(safe_text, (score["metric"], row.case.question or "")),
        *(safe_text(label) if isinstance(label, str) else json.dumps(label) for label in labels),
        "" if confidence is None else confidence,
        safe_text("; ".join(row.case.tags)),
    ]
