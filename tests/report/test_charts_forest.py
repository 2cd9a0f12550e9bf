"""Means tag by tag."""

import re
from dataclasses import replace

from evalflow.report.charts import forests
from tests.summary_rows import summary_row


def row(tag, value, n, **fields):
    known = {"judge": "j", "tag": tag, "value": value, "ci_low": value - 0.1, "ci_high": value + 0.1, "n_scored": n}
    return summary_row(**{**known, **fields})


def labels(svg):
    return [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg) if "(" in text]


def test_tags_stand_below_all_cases_the_lowest_last():
    rows = [row(None, 0.6, 30, n_error=2), row("A", 0.3, 10), row("B", 0.65, 20), row("A > C", 0.55, 5)]
    [picture] = forests(
        [*rows, row(None, 0.9, 30, statistic="f1"), replace(row("B", 0.5, 0, metric="other"), value=None)]
    )
    assert labels(picture.svg) == ["all cases (30)", "B (20)", "A &gt; C (5)", "A (10)"]
    assert picture.title == "m by tag"
    assert picture.sentence == (
        "Each dot is the mean over the scored cases with a tag (how many, in brackets), with its 95 % interval. "
        "The dashed line is the mean of all cases, 0.600: only A excludes it. "
        "2 not scored (0 undefined, 2 error, 0 skipped)."
    )


def test_a_tag_without_an_interval_is_a_dot():
    [picture] = forests([row(None, 0.6, 30), row("A", 0.3, 1, ci_low=None, ci_high=None), row("B", 0.65, 20)])
    assert ": every interval includes it. 1 has no interval. All cases" in picture.sentence


def test_many_tags_and_few():
    assert forests([row(None, 0.6, 30), row("A", 0.3, 10)]) == []
    many = [row(f"t{i}", 0.1, i) for i in range(40)]
    [picture] = forests([row(None, 0.6, 30), *many])
    assert "30 intervals exclude it. Shown are the 30 tags with the most scores, of 40." in picture.sentence
    assert len(labels(picture.svg)) == 31


def test_judges_have_pictures_of_their_own():
    rows = [row(tag, 0.5, 10, judge=judge) for judge in ("j", "k") for tag in (None, "A", "B")]
    assert [picture.title for picture in forests(rows)] == ["m · j by tag", "m · k by tag"]
