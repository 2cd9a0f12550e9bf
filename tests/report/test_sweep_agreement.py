import pytest

from evalflow.report.sweep import JudgePair, agreement


def cells(judge, scores, **fields):
    return [
        {"case_id": f"case-{i}", "judge": judge, "score": s, "passed": None if s is None else s >= 0.5, **fields}
        | ({"status": "error"} if s is None else {})
        for i, s in enumerate(scores)
    ]


def test_agreement_and_rank_correlation_on_common_cells(make_scores):
    runs = [
        make_scores(cells("b", [0.1, 0.2, 0.9, 0.8, None])),
        make_scores(cells("a", [0.1, 0.6, 0.7, 0.9, 0.3, 0.5])),
    ]
    assert agreement(runs) == [JudgePair("faithfulness", "a", "b", n=4, agreement=0.75, correlation=0.8)]


def test_three_judges_are_three_pairs(make_scores):
    runs = [make_scores(cells(judge, [0.1, 0.5, 0.9])) for judge in ("a", "b", "c")]
    found = agreement(runs)
    assert [(pair.judge_a, pair.judge_b) for pair in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair.correlation for pair in found] == pytest.approx([1, 1, 1])


def test_a_judge_that_never_varies_and_few_cells_have_no_correlation(make_scores):
    [constant] = agreement([make_scores(cells("a", [0.5, 0.5, 0.5])), make_scores(cells("b", [0.1, 0.5, 0.9]))])
    assert constant.correlation is None
    [few] = agreement([make_scores(cells("a", [0.1, 0.5])), make_scores(cells("b", [0.1, 0.5]))])
    assert (few.n, few.correlation) == (2, None)


def test_without_pass_or_fail_there_is_no_agreement(make_scores):
    runs = [make_scores(cells(judge, [0.1, 0.5, 0.9], passed=None)) for judge in ("a", "b")]
    assert [pair.agreement for pair in agreement(runs)] == [None]


def test_the_same_cell_of_the_same_judge_counts_once(make_scores):
    runs = [
        make_scores(cells("a", [0.1, 0.5, 0.9])),
        make_scores(cells("a", [0.1, 0.5, 0.9])),
        make_scores(cells("b", [0.1, 0.5, 0.9])),
    ]
    assert [pair.n for pair in agreement(runs)] == [3]


def test_other_metrics_targets_repeats_and_members_are_not_mixed(make_scores):
    first = make_scores(cells("a", [0.1, 0.5, 0.9]))
    for other in ({"metric": "m"}, {"target": "t"}, {"target_repeat": 1}, {"repeat": 1}, {"member_of": "p"}):
        assert agreement([first, make_scores(cells("b", [0.1, 0.5, 0.9], **other))]) == [], other


def test_one_judge_agrees_with_nobody(make_scores):
    assert agreement([make_scores(cells("a", [0.1, 0.5, 0.9]))]) == []
