"""The one line that says why."""

from typing import Any

import pytest

from evalflow.metrics.reasons import one_line


def faithfulness(bench, claims, labels, chances: Any = None):
    distributions = chances and [{"verdict": {"supported": p, "not_in_context": 1 - p}} for p in chances]
    judge = bench.judge(
        {"claims": {"claims": claims}, "verdicts": bench.verdicts(labels)},
        {"verdicts": distributions} if chances else {},
        weighted=bool(chances),
    )
    return bench.score(bench.shipped("faithfulness"), judge)


def test_nothing_to_complain_about(bench):
    assert faithfulness(bench, ["a", "b"], ["supported"] * 2).reason == "2 of 2 claims supported"


def test_five_are_listed_and_the_rest_is_counted(bench):
    reason = faithfulness(bench, list("abcdefg"), ["not_in_context"] * 7).reason
    assert reason.startswith('7 of 7 claims not in context: "a" (because 1); ')
    assert reason.endswith('"e" (because 5); and 2 more')


def test_an_expectation_says_so_and_names_the_weakest_first(bench):
    outcome = faithfulness(bench, ["a", "b", "c"], ["supported", "not_in_context", "not_in_context"], [0.9, 0.4, 0.2])
    assert outcome.score == pytest.approx(0.5)
    assert outcome.reason == 'least supported: "c" (because 3); "b" (because 2); 3 claims, on average 0.50'


def test_where_all_are_likely_the_least_likely_is_named(bench):
    outcome = faithfulness(bench, ["a", "b"], ["supported"] * 2, [0.7, 0.6])
    assert outcome.reason == 'least supported: "b" (because 2); 2 claims, on average 0.65'


def test_a_single_expectation_is_said_plainly(bench):
    assert faithfulness(bench, ["a"], ["supported"], [0.6]).reason == '1 claim, 0.60 supported: "a" (because 1)'


def test_an_expected_bias_names_the_most_biased(bench):
    chances = [{"verdict": {"biased": p, "unbiased": 1 - p}} for p in (0.1, 0.3)]
    judge = bench.judge(
        {"opinions": {"opinions": ["a", "b"]}, "verdicts": bench.verdicts(["unbiased"] * 2)},
        {"verdicts": chances},
        weighted=True,
    )
    reason = bench.score(bench.shipped("bias"), judge).reason
    assert reason == 'most biased: "b" (because 2); 2 opinions, on average 0.20'


def test_a_reason_is_one_line_whatever_the_judge_wrote(bench):
    outcome = faithfulness(bench, ["a\n\nb " + "word " * 60], ["contradicted"])
    assert "\n" not in outcome.reason
    assert len(outcome.reason) < 200
    assert "…" in outcome.reason


def test_one_line_cuts_between_words():
    assert one_line("one  two\nthree", 100) == "one two three"
    assert one_line("one two, three", 10) == "one two…"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_a_mean_names_its_lowest(bench, tmp_path):
    (tmp_path / "p.jinja").write_text("{{ answer }}")
    part = {"type": "list", "items": {"aspect": "str", "grade": {"type": "int", "min": 1, "max": 5}}}
    values = {
        "kind": "judge",
        "needs": ["answer"],
        "steps": [{"id": "review", "prompt": "p.jinja", "returns": {"aspects": part}}],
        "score": {"op": "mean", "of": "review.aspects", "field": "grade"},
    }
    metric = bench.build("m", values, type(bench.prompts)([tmp_path]))
    judge = bench.judge({"review": {"aspects": [{"aspect": "tone", "grade": 5}, {"aspect": "order", "grade": 2}]}})
    outcome = bench.score(metric, judge)
    assert (outcome.score, outcome.value) == (0.625, 3.5)
    assert outcome.reason == 'mean over 2 aspects; lowest: "order" grade 2'
