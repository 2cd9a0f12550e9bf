"""Cost against quality."""

import re

from evalflow.report.sweep import cost_pictures
from tests.summary_rows import summary_row


def row(run, value):
    return summary_row(run=run, target=run, judge="j", value=value, ci_low=value - 0.1, ci_high=value + 0.1, n_error=1)


def test_runs_with_a_known_cost_are_drawn_and_the_others_counted():
    rows = [row("small", 0.5), row("large", 0.7), row("unknown", 0.6)]
    [picture] = cost_pictures(rows, {"small": 0.5, "large": 4.0, "unknown": None})
    assert picture.title == "Cost against m"
    assert {"small", "large"} <= set(re.findall(r"<text[^>]*>([^<]*)</text>", picture.svg))
    assert "unknown" not in picture.svg
    assert picture.sentence.endswith(
        "1 without a known cost is not shown. 2 not scored (0 undefined, 2 error, 0 skipped)."
    )


def test_one_cost_is_no_picture():
    rows = [row("small", 0.5), row("large", 0.7)]
    assert cost_pictures(rows, {"small": 0.5, "large": None}) == []
    assert cost_pictures(rows, {"small": 0.0, "large": 0.0}) == []
