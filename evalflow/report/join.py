"""One pass over cases, answers and scores together, in input order and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalflow.errors import Problem, UserError
from evalflow.frozen import record
from evalflow.records import Answer, Case

if TYPE_CHECKING:
    import polars as pl

AnswerOf = Callable[[Case, str, int], Answer | None]
Score = dict[str, Any]
"""One row of `scores`, by column name."""

COLUMNS = (
    "dataset", "case_id", "target", "target_repeat", "metric", "judge", "repeat", "member_of", "status", "score",
    "threshold", "passed", "value", "reason", "steps", "error_type", "error", "path", "cost_usd", "latency_s",
)  # fmt: skip
"""What of `scores` is shown of a single case."""

_BATCH = 2000


@record()
class Row:
    """One case as one target answered it once, with all that was scored of it.

    Attributes:
        answer: None where the run holds no answer of that target for the case.
        scores: Rows of `scores` in their order, with `COLUMNS` alone; empty where no metric applied.
    """

    case: Case
    target: str
    target_repeat: int
    answer: Answer | None
    scores: tuple[Score, ...]


def rows(cases: Iterable[Case], answers: AnswerOf, scores: pl.LazyFrame) -> Iterator[Row]:
    """Every case with every target and target_repeat that the scores know.

    Args:
        cases: The cases that were evaluated, in input order.
        answers: Gives the answer to a case.
        scores: The columns of scores.parquet, in the order of `cases`.

    Yields:
        Rows in the order of `cases`, then of the targets' first appearance, then of target_repeat.

    Raises:
        UserError: Scores are left over, so these are not the cases that were scored.
    """
    pairs = _pairs(scores)
    stream = _Scores(scores.select(COLUMNS))
    for case in cases:
        yield from _rows_of(case, answers, stream.take(case), pairs)
    stream.expect_end()


def as_answered(case: Case, answer: Answer | None) -> Case:
    """The case with what this answer says in the place of what was recorded; without an answer, with none.

    A conversation is the one that was played.
    """
    if answer is None:
        return replace(case, answer=None, actual=None)
    said: dict[str, Any] = {"answer": answer.answer, "actual": answer.actual}
    if answer.generated:
        said["failure"] = None  # what went wrong when it was recorded is not what became of this answer
    said |= {name: value for name in ("contexts", "metadata") if (value := getattr(answer, name)) is not None}
    if answer.status == "answered" and answer.messages:
        said["messages"] = answer.messages
    as_recorded = all(value is getattr(case, name) for name, value in said.items())
    return case if as_recorded else replace(case, **said)


def _pairs(scores: pl.LazyFrame) -> list[tuple[str, int]]:
    frame = scores.select("target", "target_repeat").unique(maintain_order=True).collect(engine="streaming")
    return [(target, repeat) for target, repeat in frame.iter_rows()]


def _rows_of(case: Case, answers: AnswerOf, scored: list[Score], pairs: list[tuple[str, int]]) -> Iterator[Row]:
    by_pair: dict[tuple[str, int], list[Score]] = {}
    for score in scored:
        by_pair.setdefault((score["target"], score["target_repeat"]), []).append(score)
    for target, repeat in pairs:
        yield Row(case, target, repeat, answers(case, target, repeat), tuple(by_pair.get((target, repeat), ())))


class _Scores:
    """Hands out the scores of one case after the other; holds one batch at a time."""

    def __init__(self, scores: pl.LazyFrame) -> None:
        self._rows = _iterate(scores)
        self._next = next(self._rows, None)

    def take(self, case: Case) -> list[Score]:
        taken: list[Score] = []
        while self._next is not None and (self._next["dataset"], self._next["case_id"]) == (case.dataset, case.id):
            taken.append(self._next)
            self._next = next(self._rows, None)
        return taken

    def expect_end(self) -> None:
        if self._next is not None:
            raise UserError(
                Problem(
                    f"case {self._next['case_id']!r} was scored, but the data no longer has it there",
                    where=f"dataset {self._next['dataset']}",
                    hint="the reports need the very cases that were scored, in the same order; restore the data file",
                )
            )


def _iterate(scores: pl.LazyFrame) -> Iterator[Score]:
    for batch in scores.collect_batches(chunk_size=_BATCH, maintain_order=True):
        yield from batch.iter_rows(named=True)
