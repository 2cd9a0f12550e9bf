"""A comparison in a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalflow.report.verdict import verdict_in_words
from evalflow.stats.paired import Difference
from evalflow.summary.compare import ComparisonRow


def _row(difference: float | None, low: float | None, high: float | None, p: float = 0.5) -> ComparisonRow:
    found = Difference(50, 50, 0.5, 0.5, difference, 0.1, 49, low, high, p, "newcombe_mcnemar")
    also = ("pass_rate",)
    return ComparisonRow(("a", "b"), "set", "exact", None, None, "mean", True, found, also, p_adjusted=p)


RISE, FALL = _row(0.08, 0.02, 0.14, 0.01), _row(-0.08, -0.14, -0.02, 0.01)
TONE = replace(FALL, metric="tone", also=(), found=replace(FALL.found, method="paired_t"))


@pytest.mark.parametrize(
    ("row", "others", "said"),
    [
        (RISE, [], "B is better: 8 points more answers pass exact (2 to 14)."),
        (FALL, [], "B is worse: 8 points fewer answers pass exact (2 to 14)."),
        (_row(0.03, -0.04, 0.1), [], "No clear difference: 3 points more answers pass exact (4 fewer to 10 more)."),
        (_row(-0.03, -0.1, 0.04), [], "No clear difference: 3 points fewer answers pass exact (4 more to 10 fewer)."),
        (_row(0.0, -0.04, 0.04), [], "No difference: as many answers pass exact in both (4 fewer to 4 more)."),
        (_row(0.01, None, None), [], "No clear difference: 1 point more answers pass exact."),
        (_row(None, None, None), [], "No difference: exact has no difference to show."),
        (TONE, [], "B is worse: tone is 8 points lower (2 to 14)."),
        (
            replace(TONE, higher_is_better=False),
            [],
            "B is better: tone is 8 points lower (2 to 14), lower is better.",
        ),
        (
            replace(RISE, bounded=False, metric="steps", also=()),
            [],
            "B is better: steps is 0.080 higher (0.020 to 0.140).",
        ),
        (replace(RISE, judged=FALL.found), [], "B is better: exact is 8 points higher (2 to 14)."),
        (RISE, [TONE], "B is better: 8 points more answers pass exact (2 to 14). But tone is worse."),
        (
            _row(0.0, -0.04, 0.04),
            [TONE],
            "No difference: as many answers pass exact in both (4 fewer to 4 more). But tone is worse.",
        ),
    ],
)
def test_the_verdict_says_how_much_how_sure_and_what_speaks_against_it(
    row: ComparisonRow, others: list[ComparisonRow], said: str
) -> None:
    assert verdict_in_words(row, others) == said
