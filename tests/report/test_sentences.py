"""What heads a run: one sentence for one question, wherever it is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evalflow.report.sentences import label_lines, of_run
from evalflow.summary.rows import SummaryRow
from tests.summary_rows import summary_row


def row(metric: str, *, value: float | None = 0.5, passing: float | None = None, **others: Any) -> SummaryRow:
    ends = {"ci_low": 0.4, "ci_high": 0.6, "pass_rate_low": 0.1, "pass_rate_high": 0.9}
    return summary_row(metric=metric, value=value, pass_rate=passing, **ends, **others)


CORRECTED = {
    "n_labels": 60,
    "raw_value": 0.6,
    "raw_low": 0.55,
    "raw_high": 0.65,
    "raw_method": "t",
    "raw_pass_rate": 0.75,
    "raw_pass_rate_low": 0.7,
    "raw_pass_rate_high": 0.8,
}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("tone", passing=0.69)], "69 % of answers pass (10 to 90 %)"),
        ([row("tone", judge="j")], "tone: 0.50 on average (0.40 to 0.60), by the judge alone"),
        ([row("topic", statistic="macro_f1", value=0.8)], "topic: 0.80 macro f1 (0.40 to 0.60)"),
        ([row("tone", judge="j", **CORRECTED)], "tone: 0.50 on average (0.40 to 0.60), corrected by 60 labels"),
        (
            [row("tone", judge="j", n_labels=9, uncorrected="fewer than 15 labels")],
            "tone: 0.50 on average (0.40 to 0.60), by the judge alone, since labels correct nothing: fewer than 15 "
            "labels",
        ),
        (
            [row("tone", value=0.7), row("fee", passing=0.4)],
            "40 % of answers pass fee (10 to 90 %). tone 0.70 on average",
        ),
        (
            [
                row("fee", passing=0.69, judge="j", **CORRECTED),
                row("tone", passing=0.4),
                row("cases", statistic="pass_rate", passing=0.3, n_scored=300, n_error=4),
            ],
            "30 % of 300 cases pass everything (10 to 90 %), by the judge alone; 4 cases are open because of errors. "
            "fee 69 % (corrected by 60 labels), tone 40 %",
        ),
        ([row("tone", value=None, n_scored=0)], "tone: nothing could be scored"),
    ],
)
def test_a_run_is_headed_by_the_number_that_holds_and_by_whose_it_is(rows: list[SummaryRow], said: str):
    assert [str(one) for one in of_run([*rows, row("tag", tag="x")])] == [said]


def test_a_metric_with_a_gate_leads_and_each_dataset_has_its_sentence():
    rows = [row(metric, dataset=name, passing=0.5) for name in ("a", "b") for metric in ("tone", "fee")]
    assert [str(one).partition(" pass")[0] for one in of_run(rows)] == ["a: 50 % of answers", "b: 50 % of answers"]
    assert all(" pass fee (" in str(one) for one in of_run(rows, {"fee"}))
    assert of_run([]) == []


def test_labels_are_told_beside_the_table():
    hardly = row("fit", n_labels=40, uncorrected="the labelled answers are hardly a random sample")
    rows = [row("tone", judge="j", passing=0.5, **CORRECTED), row("fee"), hardly]
    rows.append(replace(hardly, metric="form"))
    rows.append(row("style", **{**CORRECTED, "n_missing_labels": 7, "raw_pass_rate": None}))
    assert list(label_lines(rows)) == [
        "tone: corrected by 60 labels; the judge alone 0.600 (0.550 to 0.650), pass 75 %",
        "fit: 40 labels, which correct nothing: the labelled answers are hardly a random sample",
        "form: 40 labels, which correct nothing",
        "style: corrected by 60 labels (7 more missing); the metric alone 0.600 (0.550 to 0.650)",
    ]
    assert list(label_lines([hardly], of_run([hardly]))) == ["fit: 40 labels, which correct nothing"]


def test_titles_that_several_metrics_have_are_followed_by_their_names() -> None:
    rows = [
        row("cases", passing=0.3, statistic="pass_rate"),
        row("a", passing=0.5),
        row("b", passing=0.7),
        row("c", passing=0.9),
    ]
    [said] = of_run(rows, (), lambda name: "Right" if name in ("a", "b") else name)
    assert "Right (a) 50 %, Right (b) 70 %, c 90 %" in str(said)
