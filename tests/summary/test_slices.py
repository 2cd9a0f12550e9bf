"""The repeats of each case against the same table as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalflow.summary.slices import case_clusters, find_units, own_cells, repeats_of, values_of
from tests.repeats import repeated

SHAPE = (4, 3, 2)
TABLES = st.lists(st.sampled_from([0.0, 0.25, 1.0, None]), min_size=24, max_size=24)
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def _cases(cells: pl.LazyFrame) -> pl.DataFrame:
    return repeats_of(values_of(cells, find_units(cells), repeats=True)).sort("case_id")


@QUICK
@given(TABLES)
def test_moments_of_repeats_are_those_of_the_array(record, table, scores: list[float | None]):
    places = list(np.ndindex(SHAPE))
    records = [
        record(s, case, target_repeat=answer, repeat=repeat, status="undefined" if s is None else "scored")
        for (case, answer, repeat), s in zip(places, scores, strict=True)
    ]
    cases = _cases(own_cells(table(records, 0.5)))
    array = np.array(scores, dtype=np.float64).reshape(SHAPE)
    known = ~np.isnan(array)
    assert cases["judgements"].to_list() == known.sum(axis=(1, 2)).tolist()
    assert cases["verdicts"].to_list() == known.sum(axis=(1, 2)).tolist()
    assert cases["share"].to_list() == pytest.approx(known.mean(axis=(1, 2)))
    scored = cases.filter(pl.col("judgements") > 0)
    expected: Any = repeated(array)
    for name in ("mean", "answers", "answer_variance", "per_judgement", "judge_variance"):
        assert scored[name].cast(pl.Float64).to_numpy() == pytest.approx(getattr(expected, name), nan_ok=True)
    flat = array.reshape(4, -1)[known.any(axis=(1, 2))]
    assert scored["score"].to_list() == pytest.approx(np.nanmean(flat, axis=1))
    assert scored["passed"].to_list() == pytest.approx(
        np.where(np.isnan(flat), 0, flat >= 0.5).sum(axis=1) / scored["judgements"].to_numpy()
    )


def test_a_case_without_a_group_is_a_cluster_of_its_own(record, table):
    groups = ["a", None, "b", "a", None]
    cells = own_cells(table([record(1.0, case, group=group) for case, group in enumerate(groups)]))
    cases = _cases(cells)
    a, alone, b, same, other = np.asarray(case_clusters(cases)).tolist()
    assert a == same
    assert len({a, b, alone, other}) == 4
    assert case_clusters(cases.filter(pl.col("cluster").is_null())) is None
