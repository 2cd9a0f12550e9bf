"""Questions without words are refused with their place, before anything is asked."""

from __future__ import annotations

import pytest

EXACT = ["exact_match"]
FULL = {"question": "Why?", "answer": "So.", "reference": "So."}


@pytest.mark.parametrize("text", ["", " \n", None])
def test_an_empty_question_is_named_with_its_row(lab, text):
    (problem,) = lab.refusal({"d": lab.data(FULL, {**FULL, "id": "b", "question": text})}, EXACT)
    assert (problem.where.endswith("d.jsonl:2"), problem.what.startswith("case 'b': the")) == (True, True)
    assert problem.hint.endswith("dataset.d.allow_irregular=true")


def test_a_dataset_may_mean_it(lab):
    data = lab.data(FULL, {**FULL, "question": ""}, allow_irregular=True)
    assert lab.inspect({"d": data}, EXACT).cells == 2


def test_a_dataset_without_questions_needs_none(lab):
    rows = [{**FULL, "id": str(n), "question": None} for n in range(2)]
    assert lab.inspect({"d": lab.data(*rows)}, EXACT).cells == 2


def test_many_are_counted(lab):
    rows = [{**FULL, "id": str(n), "question": ""} for n in range(25)]
    *named, last = lab.refusal({"d": lab.data(*rows)}, EXACT)
    assert (len(named), last.what) == (20, "and 5 more cases like these")


def test_the_last_turn_counts_and_one_with_a_picture_is_not_empty(lab):
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": " "}]
    (problem,) = lab.refusal({"d": lab.data({"messages": turns, "answer": "a", "reference": "a"})}, EXACT)
    assert "the question is empty" in problem.what
    shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/a"}}]}
    found = lab.inspect({"d": lab.data({"messages": [shown], "answer": "a", "reference": "a"})}, EXACT)
    (remark,) = found.remarks
    assert remark.startswith("1 cases of d have parts of messages that are not text, such as images")


def test_a_prompt_that_leaves_nothing_to_ask(lab, llm):
    target = {**llm, "prompt": "{% if vars.product %}What is {{ vars.product }}?{% endif %}"}
    rows = [{"id": "a", "product": "tea", "reference": "x"}, {"id": "b", "product": "", "reference": "x"}]
    (problem,) = lab.refusal({"d": lab.data(*rows)}, EXACT, generate=True, target=target)
    assert problem.what == "case 'b': target.prompt gives it an empty message"
    rows = [{**FULL, "id": "a", "product": "tea", "question": ""}]
    assert lab.inspect({"d": lab.data(*rows)}, EXACT, generate=True, target=target).cells == 1


# --- a reference that is missing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["spam", ["spam", "scam"]])
def test_the_column_of_labels_is_named_where_a_reference_is_missing(lab, label):
    row = {"question": "Why?", "answer": "So.", "outcome": label}
    data = lab.data(row, fields={"expected": "outcome"})
    (problem,) = lab.refusal({"d": data}, EXACT)
    assert problem.what == "exact_match needs reference, and no case of d has it; 'outcome' is read as expected"
    assert problem.hint == "to compare with it: ++dataset.d.fields.reference=outcome"
    both = lab.data(row, fields={"expected": "outcome", "reference": "outcome"})
    assert lab.inspect({"d": both}, EXACT).cells == 1
