"""Pictures of a calibration."""

import polars as pl
import pytest

from evalflow.report.calibration_findings import reliability_bins
from evalflow.summary.agreement import label_frame
from evalflow.summary.calibration import calibrate_scores
from evalflow.summary.pairing import Traits

N = 100
ANSWER = {"dataset": "d", "target": "t", "target_repeat": 0, "metric": "m"}


def bins(size, likes, n=N):
    """The bins of graded scores, where so many answers in a row are a group, and what a person says of each group."""
    scored = {**ANSWER, "judge": "j", "member_of": None, "status": "scored", "passed": None, "threshold": None}
    scores = [
        {
            **scored,
            "case_id": f"c{i:03}",
            "score": i / N,
            "group": f"g{i // size}",
            "tags": [],
            "value": "",
            "reason": "",
        }
        for i in range(n)
    ]
    said = [
        {**ANSWER, "case_id": f"c{i:03}", "by": "ana", "human": likes(i // size), "value": "", "weight": 1.0}
        for i in range(n)
    ]
    schema = {"member_of": pl.String, "passed": pl.Boolean, "threshold": pl.Float64, "tags": pl.List(pl.String)}
    table = pl.DataFrame(scores, schema_overrides=schema).lazy()
    [row] = calibrate_scores(table, label_frame(said), {"m": Traits(bounded=True)})
    return reliability_bins(row)


def test_answers_in_five_groups_by_score():
    found = bins(1, lambda group: float(group % 2))
    assert [one["n"] for one in found] == [20] * 5
    assert [one["judge"] for one in found] == pytest.approx([0.095, 0.295, 0.495, 0.695, 0.895])
    assert all(one["human"] == 0.5 and one["low"] < 0.5 < one["high"] for one in found)


def test_no_group_is_empty():
    assert [one["n"] for one in bins(1, lambda group: float(group % 2), n=4)] == [1] * 4


def test_answers_of_one_group_are_no_more_certain_than_it():
    widths = [bins(size, lambda group: float(group % 2))[2] for size in (1, 5)]
    alone, grouped = (one["high"] - one["low"] for one in widths)
    assert grouped > 1.5 * alone


def test_what_has_no_interval_has_no_line():
    assert {(one["low"], one["high"]) for one in bins(20, lambda _: 1.0)} == {(None, None)}
