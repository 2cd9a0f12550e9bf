"""The answers of a finished run beside their cases and scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from evalflow.app.results.derive import standing_answer
from evalflow.app.results.saved import Saved
from evalflow.records import Answer, Case
from evalflow.report.join import Row, rows
from evalflow.run.answers import AnswerBook

if TYPE_CHECKING:
    import polars as pl

_CELL = ("dataset", "case_id", "target", "target_repeat")


def without_unanswered(saved: Saved, scores: pl.LazyFrame) -> pl.LazyFrame:
    """The scores without those in error because the target gave no answer, of which nobody can say anything.

    Args:
        saved: The run.
        scores: Rows of its scores.parquet.
    """
    import polars as pl

    failed = scores.filter(pl.col("status") == "error")
    cases = failed.select("dataset", "case_id").unique().collect()
    found = [
        (row.case.dataset, row.case.id, row.target, row.target_repeat)
        for row in (answered_rows(saved, failed, set(cases.iter_rows())) if cases.height else ())
        if row.answer is None or row.answer.status == "error"
    ]
    schema = {name: scores.collect_schema()[name] for name in _CELL}
    return scores.join(pl.LazyFrame(found, schema=schema, orient="row"), on=_CELL, how="anti", maintain_order="left")


def answered_rows(saved: Saved, scores: pl.LazyFrame, wanted: Collection[tuple[str, str]]) -> Iterator[Row]:
    """Each wanted case as every target answered it, with its scores, in input order.

    Args:
        saved: The run.
        scores: Rows of its scores.parquet; those of other cases are passed over.
        wanted: dataset and id of the cases.
    """
    import polars as pl

    keys = pl.DataFrame(list(wanted), schema={"dataset": pl.String, "case_id": pl.String}, orient="row")
    chosen = scores.join(keys.lazy(), on=["dataset", "case_id"], how="semi", maintain_order="left")
    run = saved.recipe.settings.run
    cases = (case for case in saved.cases() if (case.dataset, case.id) in wanted)
    with AnswerBook() as book:
        book.add(saved.folder.answers, run.dataset)

        def answer_of(case: Case, target: str, repeat: int) -> Answer | None:
            known = book.get(case.dataset, case.id, target, repeat)
            return known or standing_answer(run, case, target, repeat)

        yield from (row for row in rows(cases, answer_of, chosen) if row.scores)
