"""Rankings of runs: labels that are not of their common cases."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from evalflow.records import ScoreRecord
from evalflow.summary.pairing import Traits
from evalflow.summary.ranking import NOT_COMMON, common_cases, rank_by_mean


@pytest.mark.parametrize(("labelled", "why"), [(["c0", "c1"], NOT_COMMON), ([], ""), (["other"], "")])
def test_labels_of_cases_that_not_all_runs_scored_correct_nothing_and_the_ranking_says_so(
    record: Callable[..., ScoreRecord], table: Callable[..., pl.LazyFrame], labelled: list[str], why: str
):
    cases = {"a": range(12), "b": range(2, 12)}
    runs = {name: table([record(0.5, i) for i in own], None).collect().lazy() for name, own in cases.items()}
    human, undefined = pl.lit(0.5), pl.lit(value=False)
    known = pl.DataFrame({"case_id": labelled}, schema={"case_id": pl.String}).select(
        pl.lit("d").alias("dataset"),
        pl.lit("m").alias("metric"),
        "case_id",
        human=human,
        accepted=human,
        human_undefined=undefined,
    )
    [common] = common_cases(runs, {"a": known})
    [ranking] = rank_by_mean(common, Traits(bounded=True))
    assert (ranking.cases, ranking.labelled, ranking.uncorrected) == (10, 0, why)
