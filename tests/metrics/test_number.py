"""The kind `number`: what it takes from a field, and the formulas of readability."""

import pytest


@pytest.fixture
def number(bench):
    def number(text, unit, field="answer", **answer):
        metric = bench.build("mine", {"kind": "number", "needs": [field], "field": field, "unit": unit})
        return bench.score(metric, None, answer=bench.answer(answer=text, **answer))

    return number


def test_latency_and_cost_are_those_of_a_generated_answer(bench):
    made = bench.answer(answer="new", latency_s=1.25, cost_usd=0.002, requests=1)
    assert bench.score(bench.shipped("latency"), None, answer=made).score == 1.25
    assert bench.score(bench.shipped("cost"), None, answer=made).score == 0.002
    recorded = bench.case(answer="Anna, in 1998.", actual=True, vars={"latency_s": "0.5"})
    assert bench.score(bench.shipped("latency"), None, case=recorded).score == 0.5
    assert bench.score(bench.shipped("cost"), None, case=recorded).status == "skipped"


def test_what_is_no_number_is_an_error_and_no_score(number):
    found = number("x", "value", "metadata.tokens", metadata={"tokens": "many"})
    assert (found.status, found.error_type, found.score) == ("error", "data", None)
    assert "metadata.tokens" in found.error
    assert number("x", "items", "metadata.tokens", metadata={"tokens": "many"}).status == "error"


@pytest.mark.parametrize(
    ("unit", "score"), [("characters", 21), ("words", 5), ("lines", 2), ("words_per_sentence", 2.5)]
)
def test_counts(number, unit, score):
    assert number("It rains.\nTake a coat", unit).score == pytest.approx(score)


def test_items_of_a_list(number):
    assert number("x", "items", "metadata.pages", metadata={"pages": [1, 2, 3]}).score == 3
    assert number("x", "items", "metadata.pages", metadata={"pages": "['a', 'b']"}).score == 2
    assert number("x", "items", "metadata.pages", metadata={"pages": "['a' 'b']"}).status == "error"


def test_readability_follows_its_formulas(number):
    """By hand: 9 words, 2 sentences, 39 letters, 1 word of more than six letters."""
    text = "The library opens at nine. It lends books freely."
    assert number(text, "ari").score == pytest.approx(4.71 * 39 / 9 + 0.5 * 9 / 2 - 21.43)
    assert number(text, "coleman_liau").score == pytest.approx(5.88 * 39 / 9 - 29.6 * 2 / 9 - 15.8)
    assert number(text, "lix").score == pytest.approx(9 / 2 + 100 * 1 / 9)


def test_a_text_without_words_has_no_readability(number):
    for text in ("", " \n", "... !?"):
        found = number(text, "ari")
        assert (found.status, found.score) == ("undefined", None)
    assert number("", "words").score == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [("图书馆九点开门。", 7), ("図書館は9時に。", 7), ("วันนี้ดี", 4), ("오늘 날씨", 2), ("आज मौसम है।", 3)],
)
def test_a_character_is_a_word_where_a_script_has_no_spaces(bench, number, text, words):
    assert number(text, "words").score == words
    told = bench.score(bench.shipped("answer_words", tokenize="words"), None, answer=bench.answer(answer=text))
    assert told.score == len(text.split())
    rule = {"op": "length", "unit": "words", "max": words}
    values = {"kind": "check", "needs": ["answer"], "checks": [rule, {**rule, "max": words - 1}], "combine": "mean"}
    assert bench.score(bench.build("mine", values), None, answer=bench.answer(answer=text)).score == 0.5


def test_readability_is_for_languages_with_spaces(number):
    for unit in ("ari", "coleman_liau", "lix"):
        found = number("图书馆九点开门。周一休息。", unit)
        assert (found.status, found.score) == ("undefined", None)
        assert "Chinese has no spaces" in found.reason
        assert number("पुस्तकालय नौ बजे खुलता है।", unit).status == "scored"
    assert number("图书馆九点开门。周一休息。", "words_per_sentence").score == 5.5
