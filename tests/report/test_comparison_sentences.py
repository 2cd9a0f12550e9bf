"""What a comparison says, in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.report.comparison_sentences import (
    NOT_LABELLED,
    NOT_OF_THE_BOT,
    SIDES,
    change_lines,
    in_words,
    of_comparison,
    preference_in_words,
)
from evalflow.stats.arrays import Estimated
from evalflow.stats.paired import Difference
from evalflow.summary.changed import ChangedPart, ChangedValue, Part, WhatChanged
from evalflow.summary.compare import ComparisonRow
from evalflow.summary.judge_change import AgreementChange, JudgeAgreementChange
from evalflow.summary.preferences import preference_of

PAIR = ("a", "b")
TITLES = ("Old prompt", "New prompt")
UNCHANGED = WhatChanged(PAIR)


def _row(difference: float | None, low: float | None, high: float | None, p: float = 0.5) -> ComparisonRow:
    found = Difference(50, 50, 0.5, 0.5, difference, 0.1, 49, low, high, p, "newcombe_mcnemar")
    also = ("pass_rate",)
    return ComparisonRow(PAIR, "set", "exact", None, None, "mean", True, found, also, p_adjusted=p)


RISE, FALL = _row(0.08, 0.02, 0.14, 0.01), _row(-0.08, -0.14, -0.02, 0.01)
TONE = replace(FALL, metric="tone", also=(), difference=replace(FALL.difference, method="paired_t", n=40, clusters=40))


def _attributed(row: ComparisonRow, changed: WhatChanged) -> ComparisonRow:
    return replace(row, attribution=changed.attribution(row.metric, row.statistic))


@pytest.mark.parametrize(
    ("row", "others", "said"),
    [
        (RISE, [], "B is better: 8 points more answers pass exact (2 to 14)."),
        (FALL, [], "B is worse: 8 points fewer answers pass exact (2 to 14)."),
        (_row(0.03, -0.04, 0.1), [], "No clear difference: 3 points more answers pass exact (4 fewer to 10 more)."),
        (_row(-0.03, -0.1, 0.04), [], "No clear difference: 3 points fewer answers pass exact (4 more to 10 fewer)."),
        (_row(0.0, -0.04, 0.04), [], "No clear difference: as many answers pass exact in both (4 fewer to 4 more)."),
        (_row(0.01, None, None), [], "No clear difference: 1 point more answers pass exact."),
        (_row(None, None, None), [], "No clear difference: exact has no difference to show."),
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
        (replace(RISE, judged=FALL.difference), [], "B is better: exact is 8 points higher (2 to 14)."),
        (RISE, [TONE], "B is better: 8 points more answers pass exact (2 to 14). But tone is worse."),
        (
            _row(0.0, -0.04, 0.04),
            [TONE],
            "No clear difference: as many answers pass exact in both (4 fewer to 4 more). But tone is worse.",
        ),
    ],
)
def test_the_sentence_says_how_much_how_sure_and_what_speaks_against_it(
    row: ComparisonRow, others: list[ComparisonRow], said: str
) -> None:
    assert str(of_comparison([row, *others], UNCHANGED)) == said


FEW = {"labelled": 5, "uncorrected": "fewer than 15 labels"}
REASON = ", since labels correct nothing (fewer than 15 labels)"
WHOLE = replace(RISE, metric="cases", statistic="pass_rate", also=())


@pytest.mark.parametrize(
    ("row", "by"),
    [
        (RISE, ""),
        (replace(RISE, judge="j"), ", by the judge alone"),
        (replace(RISE, judge="j", **FEW), f", by the judge alone{REASON}"),
        (replace(RISE, **FEW), f", by the metric alone{REASON}"),
        (
            replace(RISE, uncorrected="no label is of b"),
            ", by the metric alone, since labels correct nothing (no label is of b)",
        ),
        (replace(RISE, judge="j", labelled=60, judged=RISE.difference), ""),
        (replace(RISE, judge="j", labelled=60), ""),
        (WHOLE, ""),
        (replace(WHOLE, labelled=60, uncorrected="labels correct means only"), ", by the metrics alone"),
    ],
)
@pytest.mark.parametrize("clear", [True, False])
def test_the_head_says_whose_difference_it_is_unless_labels_correct_it(
    row: ComparisonRow, by: str, clear: bool
) -> None:
    row = row if clear else replace(row, p_adjusted=0.5, difference=replace(row.difference, p_value=0.5, low=-0.1))
    head = "B is better" if clear else "No clear difference"
    assert of_comparison([row], UNCHANGED).first.startswith(f"{head}{by}: ")


def test_whole_cases_are_by_the_judge_of_any_metric_with_pass_and_fail() -> None:
    judged = replace(TONE, judge="j")
    said = of_comparison([WHOLE, judged, replace(judged, statistic="pass_rate")], UNCHANGED).first
    assert said.startswith("B is better, by the judge alone: 8 points more cases pass everything")
    assert of_comparison([WHOLE, judged], UNCHANGED).first.startswith("B is better: 8 points more cases pass")


@pytest.mark.parametrize(
    ("judges", "whose"),
    [
        ((None, None), ""),
        (("j", "j"), ", by the judge alone"),
        (("j", None), ", 1 of these by the judge alone"),
    ],
)
def test_several_pairs_say_how_many_differences_no_labels_correct(judges: tuple[str | None, ...], whose: str) -> None:
    here, there = (
        replace(RISE, judge=judge, pair=pair) for judge, pair in zip(judges, [PAIR, ("a", "c")], strict=True)
    )
    unclear = replace(_row(0.03, -0.04, 0.1), judge="j", pair=("b", "c"))
    assert in_words([here, there, unclear]) == f"Of 3: 2 better{whose}; 1 without a clear difference."
    assert in_words([replace(WHOLE, labelled=60)]) == "Of 1: 1 better, by the metrics alone."


def test_runs_are_called_by_their_titles() -> None:
    said = "New prompt is better than Old prompt: 8 points more answers pass exact (2 to 14)."
    assert str(of_comparison([RISE], UNCHANGED, sides=TITLES)) == said
    unclear = str(of_comparison([_row(0.03, -0.04, 0.1)], UNCHANGED, sides=TITLES))
    assert unclear.startswith("No clear difference between Old prompt and New prompt: 3 points more")


@pytest.mark.parametrize(("judge", "who"), [("j", "judge"), (None, "metric")])
def test_what_the_judge_alone_says_stands_beside_a_corrected_number(judge: str | None, who: str) -> None:
    found = of_comparison([replace(_row(-0.05, -0.12, 0.02), judged=RISE.difference, judge=judge)], UNCHANGED)
    assert found.verdict == "cannot_tell"
    assert found.first == "No clear difference: exact is 5 points lower (2 higher to 12 lower)."
    assert found.beside == f"The {who} alone says: 8 points more answers pass exact (2 to 14)."


def test_another_judge_of_the_same_answers_is_not_better_but_measured_by_people() -> None:
    changed = WhatChanged(PAIR, [ChangedPart("judge", "other", "exact")], 50, 0)
    row = _attributed(replace(RISE, judge="old → new"), changed)
    assert row.verdict == "higher"
    alone = str(of_comparison([row], changed))
    expected = "Same answers, another judge: 8 points more answers pass exact than before (2 to 14)."
    assert alone == f"{expected} {NOT_LABELLED}"
    before, after = (Estimated(value, value - 0.1, value + 0.1, 0.05, 40, "bootstrap") for value in (0.44, 0.46))
    kappa = AgreementChange("kappa", before, after, _row(0.02, -0.1, 0.14).difference)
    people = JudgeAgreementChange("set", "exact", ("old", "new"), 40, [kappa])
    said = str(of_comparison([row], changed, [people], sides=TITLES))
    agreed = "agreement with labels 0.44 before, 0.46 now (kappa, 40 labels; no clear change)"
    assert said == f"Same answers, another judge: {agreed}; 8 points more answers pass exact than before (2 to 14)."


def test_what_cannot_be_attributed_says_so() -> None:
    changed = WhatChanged(PAIR, [ChangedPart("judge", "other", "exact"), ChangedPart("prompt", "p", "exact")], 50, 3)
    said = str(of_comparison([_attributed(RISE, changed)], changed, sides=TITLES))
    differing = "the answers, the judge and the judge's prompt differ"
    assert said == (
        f"The difference cannot be attributed to one change, since {differing}: "
        "8 points more answers pass exact (2 to 14)."
    )
    both = [_attributed(RISE, changed), _attributed(TONE, changed)]
    assert str(of_comparison(both, changed)) == (
        "B is worse: tone is 8 points lower (2 to 14). But exact is not attributable to one change."
    )


def test_a_metric_whose_pass_rate_alone_has_another_threshold_is_not_unattributable_as_a_whole() -> None:
    changed = WhatChanged(PAIR, [ChangedPart("threshold", "other", "tone")], 50, 3)
    rate = replace(_row(0.03, -0.04, 0.1), metric="tone", statistic="pass_rate", also=())
    said = str(of_comparison([_attributed(row, changed) for row in (TONE, rate)], changed))
    assert said.endswith("But pass rate of tone is not attributable to one change.")


def test_a_clear_change_that_cannot_be_attributed_is_not_hidden_behind_an_unclear_one() -> None:
    changed = WhatChanged(PAIR, [ChangedPart("judge", "other", "exact")], 50, 3)
    tone = replace(_row(0.03, -0.04, 0.1), metric="tone", also=())
    said = str(of_comparison([_attributed(one, changed) for one in (RISE, tone)], changed))
    assert said == (
        "The difference cannot be attributed to one change, since the answers and the judge differ: "
        "8 points more answers pass exact (2 to 14). No clear difference in what the answers alone decide: tone."
    )


def test_a_difference_that_many_comparisons_make_unclear_says_so() -> None:
    row = replace(RISE, p_adjusted=0.3, difference=replace(RISE.difference, p_value=0.03))
    said = str(of_comparison([row, replace(row, metric="tone", also=())], UNCHANGED, family=2))
    expected = "No clear difference after adjusting for 2 comparisons: 8 points more answers pass exact (2 to 14)."
    assert said == expected


def test_other_test_cases_say_nothing_about_the_bot() -> None:
    changed = WhatChanged(PAIR, [ChangedPart("cases", "other")], 50, 0)
    said = str(of_comparison([_attributed(FALL, changed)], changed))
    assert said == f"Same answers, other test cases: 8 points fewer answers pass exact (2 to 14). {NOT_OF_THE_BOT}"


def test_of_a_long_text_the_words_that_differ_are_shown() -> None:
    long = "You grade the answer of a library's desk from 1 to 5. Be {}: a missing fee matters."
    texts = [long.format(word) for word in ("strict", "generous")]
    changed = WhatChanged(PAIR, [ChangedPart("prompt", "the prompts", "exact", [ChangedValue("desk.jinja", *texts)])])
    assert change_lines(changed) == ["the prompts: desk.jinja strict → generous"]
    spaces = ChangedValue("desk.jinja", texts[0], texts[0].replace(" ", "\n"))
    assert change_lines(WhatChanged(PAIR, [ChangedPart("prompt", "the prompts", "exact", [spaces])])) == [
        "the prompts: desk.jinja differs in spaces only"
    ]


KINDS: list[Part] = ["target", "metric", "prompt", "judge", "threshold", "cases"]
PARTS = st.builds(
    lambda kind: ChangedPart(kind, "x", "" if kind in ("target", "cases") else "exact"), st.sampled_from(KINDS)
)


@given(
    st.lists(PARTS, max_size=4),
    st.sampled_from([(None, 0), (0, 0), (50, 0), (50, 7)]),
    st.sampled_from([RISE, FALL, replace(RISE, metric="cases", statistic="pass_rate", also=())]),
    st.sampled_from([SIDES, TITLES]),
)
def test_better_and_worse_are_said_only_where_nothing_but_the_answers_may_differ(
    parts: list[ChangedPart], answers: tuple[int | None, int], row: ComparisonRow, sides: tuple[str, str]
) -> None:
    changed = WhatChanged(PAIR, parts, *answers)
    found = _attributed(row, changed)
    said = str(of_comparison([found], changed, sides=sides))
    relevant = {part.kind for part in parts} - {"target"}
    if row.statistic != "pass_rate" and not changed.same_answers:
        relevant -= {"threshold"}
    assert (found.verdict in ("better", "worse")) == (not relevant)
    assert (" is better" in said or " is worse" in said) == (not relevant)
    assert found.document(0.1)["not_worse"] is None or not relevant


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "Nobody has said yet which answer is better."),
        ({"unsure": 2}, "No preference is known yet. In 2 cases nobody could tell."),
        ({"declined": 1}, "No preference is known yet. 1 case was declined."),
        (
            {"outdated": 1, "same": 1},
            "No preference is known yet. The labels of 1 case are by older guidelines and no longer count. "
            "1 case has the same answer in both; nobody was asked about it.",
        ),
    ],
)
def test_cases_without_a_label_that_counts_say_why(counts: dict[str, int], said: str) -> None:
    assert preference_in_words(preference_of(PAIR, [], [], **counts, unfinished=["Fees"])) == said
