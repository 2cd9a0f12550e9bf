import re

from evalflow.report.sweep import JudgePair, judge_matrices
from tests.summary_rows import summary_row


def pair(a, b, agreement, correlation, n=10, metric="tone"):
    return JudgePair(metric, a, b, n, agreement, correlation)


ROW = summary_row(metric="tone", judge="a", n_undefined=1, n_error=2)


def texts(picture):
    return [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<text[^>]*>.*?</text>", picture.svg)]


def test_a_matrix_names_every_two_judges_twice_and_the_ends_in_words():
    pairs = [pair("a", "b", 0.9, 0.8), pair("a", "c", 0.5, None), pair("b", "c", 0.65, -0.2, n=7)]
    same, rank = judge_matrices(pairs, [ROW])
    assert (same.title, rank.title) == ("Same pass or fail · tone", "Rank correlation · tone")
    assert [texts(same).count(text) for text in ("90 %", "50 %", "65 %", "n 10", "n 7")] == [2, 2, 2, 4, 2]
    assert "Highest: a and b (90 %); lowest: a and c (50 %)." in same.sentence
    assert "3 not scored (1 undefined, 2 error, 0 skipped)" in same.sentence
    assert [texts(rank).count(text) for text in ("0.80", "–", "-0.20")] == [2, 2, 2]


def test_judges_without_pass_or_fail_have_their_correlation_alone():
    [rank] = judge_matrices([pair("a", "b", None, 0.5)], [ROW])
    assert rank.title.startswith("Rank correlation")
    assert "Highest: a and b (0.50)" in rank.sentence


def test_judges_without_an_answer_in_common_leave_a_gap():
    [same, _] = judge_matrices([pair("a", "b", 1.0, 1.0), pair("c", "d", 0.5, 0.1)], [ROW])
    assert texts(same).count("n 0") == 8


def test_nothing_in_common_is_no_picture():
    assert judge_matrices([], [ROW]) == []
