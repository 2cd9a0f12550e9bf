"""Notes on cases in scripts that a judge or a metric does not know."""

from __future__ import annotations

ROWS = [
    {"id": "en", "question": "When?", "answer": "At nine.", "reference": "At nine.", "contexts": ["At nine."]},
    {"id": "de", "question": "Wann?", "answer": "Um fünf.", "reference": "Um fünf.", "contexts": ["Um fünf."]},
    {"id": "zh", "question": "几点？", "answer": "九点。", "reference": "九点。", "contexts": ["九点开门。"]},
    {"id": "zh2", "question": "几点？", "answer": "五点。", "reference": "九点。", "contexts": ["九点开门。"]},
    {"id": "th", "question": "กี่โมง", "answer": "เก้าโมง", "reference": "เก้าโมง", "contexts": ["เก้าโมง"]},
    {"id": "ru", "question": "Когда?", "answer": "В девять.", "reference": "В девять.", "contexts": ["В девять."]},
]
SHARE = "4 of 6 cases of d are in scripts that it does not know (Chinese 2, Thai 1, Cyrillic 1)"


def test_the_embedded_judge_and_embedder_know_latin_letters(lab):
    found = lab.inspect({"d": lab.data(*ROWS)}, ["faithfulness", "semantic_similarity", "token_f1"])
    judge, embedder = found.unread
    assert judge.startswith(f"judge judge: {SHARE}. ")
    assert embedder.startswith(f"embedder minilm: {SHARE}. ")
    assert "judge=openai" in judge
    assert "embedder=openai" in embedder
    assert {judge, embedder} <= set(found.notices())


def test_a_language_model_and_rules_on_texts_know_all(lab, llm):
    found = lab.inspect({"d": lab.data(*ROWS)}, ["faithfulness", "exact_match"], judge=llm)
    assert not found.unread


def test_nothing_is_said_of_latin_letters(lab):
    assert not lab.inspect({"d": lab.data(*ROWS[:2])}, ["faithfulness"]).unread


def test_a_metric_that_is_told_to_find_words_by_spaces_says_where_there_are_none(lab):
    values = {"kind": "lexical", "measure": "bleu", "needs": ["answer", "reference"], "tokenize": "13a"}
    (told,) = lab.inspect({"d": lab.data(*ROWS)}, {"mine": values}).unread
    assert told.startswith("metric mine: 3 of 6 cases of d are in scripts that it does not know (Chinese 2, Thai 1). ")
    assert told.endswith("metric.mine.tokenize=auto takes each character as a word")


def test_only_checks_that_a_case_names_count(lab):
    check = {"identifier": "semantic_similarity", "params": {"reference": "九点。"}}
    rows = [ROWS[2] | {"checks": [check]}, ROWS[3], ROWS[4] | {"checks": [check | {"enabled": False}]}]
    (told,) = lab.inspect({"d": lab.data(*rows)}, ["checks"]).unread
    assert told.startswith("embedder minilm: 1 of 3 cases of d are in scripts that it does not know (Chinese 1). ")
