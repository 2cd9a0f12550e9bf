"""Lists that a judge writes: what is there twice counts once, and a list that its text cannot have is an error."""

import pytest

from evalflow.metrics.chain import most_items

NAMES = ", ".join(f"Name{number}" for number in range(60))


def score(bench, listed, answer="The pool opens at 9 and costs 4 euros.", **keys):
    metric = bench.shipped("faithfulness", **keys)
    verdicts = bench.verdicts(["supported", "not_in_context"])
    judge = bench.judge({"claims": {"claims": listed}, "verdicts": verdicts})
    return bench.score(metric, judge, answer=bench.answer(answer=answer))


def test_claims_that_differ_in_case_and_space_only_count_once(bench):
    others = ["The pool opens at ９", "the pool  opens at 9!"]
    outcome = score(bench, [*["The pool opens at 9."] * 298, *others, "The pool costs 4 euros."])
    assert outcome.score == 0.5
    first, second = outcome.steps
    assert first["reply"] == {"claims": ["The pool opens at 9.", "The pool costs 4 euros."]}
    assert first["equal_items_left_out"] == 299
    assert second["items"] == first["reply"]["claims"]
    assert "equal_items_left_out" not in second


def test_a_list_that_its_text_cannot_have_is_an_error_with_step_count_and_advice(bench):
    outcome = score(bench, [f"The pool opens at 9, statement {number}." for number in range(3000)])
    assert (outcome.status, outcome.error_type) == ("error", "schema")
    assert "the judge listed 3,000 claims for a text of 9 words (step claims), and 9 are allowed" in outcome.error
    assert "use another model or raise judge.temperature" in outcome.error
    assert len(outcome.steps) == 1
    assert "statement 2999" in outcome.steps[0]["raw"]


def test_the_key_that_the_error_names_allows_a_longer_list(bench):
    answer, listed = " and ".join(NAMES.split(", ")), [f"Name{number} came." for number in range(2)] * 30
    listed = [f"{claim} {number}" for number, claim in enumerate(listed)]
    refused = score(bench, listed, answer)
    assert refused.error.endswith("if the text really has so many, allow them: ++metric.faithfulness.most_items=60")
    metric = bench.shipped("faithfulness", most_items=60)
    judge = bench.judge({"claims": {"claims": listed}, "verdicts": bench.verdicts(["supported"] * 60)})
    assert bench.score(metric, judge, answer=bench.answer(answer=answer)).score == 1
    still = score(bench, [*listed, "One more came."], answer, most_items=60)
    assert "(step claims), and 60 are allowed" in still.error
    assert still.error.endswith("most_items=61")


def test_records_are_folded_if_all_of_them_is_equal(bench):
    rows = [{"claim": "It opens at 9.", "citation": "[1]", "cited": True}] * 3
    other = {"claim": "It opens at 9.", "citation": "[2]", "cited": True}
    metric = bench.shipped("citation_coverage")
    outcome = bench.score(metric, bench.judge({metric._steps[0].config.id: {"claims": [*rows, other]}}))
    assert outcome.steps[0]["reply"]["claims"] == [rows[0], other]


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("", 0),
        (NAMES, 60),
        *((sign.join(NAMES.split(", ")), 60) for sign in ("\n", "\r", "\u2028", "\t", " | ", "/", " - ", " • ")),
        ("木村、佐藤、鈴木、高橋、田中、渡辺。", 6),
        ("word " * 30, 15),
    ],
)
def test_a_list_of_names_may_have_each_of_them(text, listed):
    assert most_items(text) >= listed


def test_a_bound_grows_with_the_text():
    assert most_items("one two three") == 6
    assert most_items("word " * 300) == 105
