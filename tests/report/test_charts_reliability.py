"""The picture of how far a stated confidence can be believed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evalflow.report.charts import reliabilities
from evalflow.summary.rows import SummaryRow
from tests.summary_rows import summary_row

KEY = {"dataset": "d", "target": "t", "metric": "m", "judge": None}


def one(n: int, confidence: float | None, accuracy: float | None) -> dict[str, Any]:
    return {"low": 0.0, "high": 0.1, "n": n, "confidence": confidence, "accuracy": accuracy}


def diagram(*bins: dict[str, Any], **detail: Any) -> dict[str, Any]:
    return {**KEY, "tag": None, "statistic": "ece", "bins": list(bins), **detail}


def row(**fields: Any) -> SummaryRow:
    return summary_row(**{**KEY, "statistic": "ece", "value": 0.15, "n_error": 1, **fields})


@pytest.mark.parametrize(
    ("accuracy", "low", "claim"),
    [
        (0.5, 0.05, "overconfident on average"),
        (0.75, 0.05, "off"),
        (1.0, 0.05, "too modest on average"),
        (0.5, 0.0, "not shown to be off"),
        (1.0, None, "not shown to be off"),
    ],
)
def test_it_says_in_words_whether_too_much_is_claimed(accuracy: float, low: float | None, claim: str) -> None:
    bins = (one(2, 0.9, accuracy), one(0, None, None), one(6, 0.7, accuracy))
    ends = {"ci_low": low, "ci_high": None if low is None else 0.4}
    (picture,) = reliabilities([diagram(*bins, by_chance=0.1)], [row(**ends)])
    within = "" if low is None else f" ({low:.3f} to 0.400)"
    assert picture.title == "Calibration of m"
    assert picture.sentence.startswith("Over 8 cases the mean confidence is 75 % and ")
    assert f"are right: {claim} (calibration error 0.150{within}; chance alone makes about 0.100)." in picture.sentence
    assert "2 state no confidence. 1 not scored" in picture.sentence


def test_every_bin_that_holds_a_case_is_a_dot_with_its_count() -> None:
    (picture,) = reliabilities([diagram(one(1200, 0.95, 0.8), one(0, None, None), one(3, 0.5, 1.0))], [row()])
    assert {"1,200", "3"} <= set(re.findall(r"<text[^>]*>([^<]*)</text>", picture.svg))


def test_two_targets_have_a_picture_each_and_tags_none() -> None:
    bins = [one(1, 0.5, 1.0)]
    details = [diagram(*bins), diagram(*bins, target="other"), diagram(*bins, tag="x"), {**KEY, "tag": None}]
    assert [picture.title for picture in reliabilities(details, [row()])] == [
        "Calibration of m · t",
        "Calibration of m · other",
    ]
    assert reliabilities([diagram(one(0, None, None))], [row()]) == []
