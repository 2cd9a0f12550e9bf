"""Questions without words are refused with their place, before anything is asked."""

from __future__ import annotations

import pytest

EXACT = ["exact_match"]
FULL = {"question": "Why?", "answer": "So.", "reference": "So."}


def test_a_question_that_only_some_cases_have_is_named_with_its_row(lab):
    (problem,) = lab.refusal({"d": lab.data(FULL, {**FULL, "id": "b", "question": None})}, EXACT)
    assert problem.where.endswith("d.jsonl:2")
    assert problem.what == "case 'b': the case has no question, but others have one"
    assert problem.hint.endswith("dataset.d.allow_irregular=true")


def test_a_dataset_may_mean_it(lab):
    data = lab.data(FULL, {**FULL, "question": None}, allow_irregular=True)
    assert lab.inspect({"d": data}, EXACT).cells == 2


def test_a_dataset_without_questions_needs_none(lab):
    rows = [{**FULL, "id": str(n), "question": None} for n in range(2)]
    assert lab.inspect({"d": lab.data(*rows)}, EXACT).cells == 2


def test_many_are_counted(lab):
    rows = [{**FULL, "id": str(n), "question": None} for n in range(25)]
    *named, last = lab.refusal({"d": lab.data(FULL, *rows)}, EXACT)
    assert (len(named), last.what) == (20, "and 5 more cases like these")


def test_a_question_may_be_a_picture(lab):
    shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/a"}}]}
    found = lab.inspect({"d": lab.data({"messages": [shown], "answer": "a", "reference": "a"})}, EXACT)
    (remark,) = found.remarks
    assert remark.startswith("parts of messages that are not text, such as images, in 1 case of d")


def test_a_prompt_that_leaves_nothing_to_ask(lab, llm):
    target = {**llm, "prompt": "{% if vars.product %}What is {{ vars.product }}?{% endif %}"}
    rows = [{"id": "a", "product": "tea", "reference": "x"}, {"id": "b", "product": "", "reference": "x"}]
    (problem,) = lab.refusal({"d": lab.data(*rows)}, EXACT, generate=True, target=target)
    assert problem.what == "case 'b': target.prompt gives it an empty message"
    assert lab.inspect({"d": lab.data(rows[0])}, EXACT, generate=True, target=target).cells == 1


# --- a reference that is missing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["spam", ["spam", "scam"]])
def test_the_column_of_labels_is_named_where_a_reference_is_missing(lab, label):
    row = {"question": "Why?", "answer": "So.", "outcome": label}
    data = lab.data(row, fields={"expected": "outcome"})
    (problem,) = lab.refusal({"d": data}, EXACT)
    assert problem.what == "exact_match needs reference, but no case of d has it; 'outcome' is read as expected"
    assert problem.hint == "to compare with it: ++dataset.d.fields.reference=outcome"
    both = lab.data(row, fields={"expected": "outcome", "reference": "outcome"})
    assert lab.inspect({"d": both}, EXACT).cells == 1
