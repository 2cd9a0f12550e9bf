"""Files whose rows are the turns of one conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evalflow.config.schema import DatasetConfig
from evalflow.datasets import case_to_row, read
from evalflow.datasets.conversations import Answers
from evalflow.metrics.case_fields import fields_of
from evalflow.records import Case
from evalflow.targets.recorded import recorded_answer

Load = Callable[..., list[Case]]
ROWS: list[dict[str, Any]] = [
    {"question": "Is tea hot?", "answer": "Yes.", "contexts": ["Tea: 90 °C"], "tags": ["Tea"], "lang": "en", "n": 1},
    {"question": "And ice?", "answer": "No.", "metadata": {"tool": "t"}, "reference": "No", "lang": "en", "n": 2},
    {"question": "And water?", "answer": "Both.", "contexts": ["Water: any"], "tags": ["Water"], "lang": "en", "n": 3},
]


def spoken(case: Case) -> list[str]:
    return [f"{message.role[0]}: {message.content}" for message in case.messages]


ALL = ["u: Is tea hot?", "a: Yes.", "u: And ice?", "a: No.", "u: And water?"]


def test_a_conversation_has_the_answer_of_every_row_with_its_contexts_tags_and_variables(load: Load) -> None:
    (case,) = load(ROWS, conversation=True)
    assert (spoken(case), case.answer, case.tags) == (ALL, "Both.", ("Tea", "Water"))
    assert case.messages[3].metadata == {"tool": "t"}
    turns: Any = fields_of(case, recorded_answer(case, "recorded", 0))["turn_contexts"]
    assert [[one.text for one in turn] for turn in turns] == [["Tea: 90 °C"], [], ["Water: any"]]
    assert case.vars == {
        "lang": "en",
        "n": 3,
        "turns": [
            {"lang": "en", "n": 1, "tags": ["Tea"]},
            {"lang": "en", "n": 2},
            {"lang": "en", "n": 3, "tags": ["Water"]},
        ],
        "outputs": [None, "No", None],
    }
    assert load([case_to_row(case)])[0] == case


def test_each_turn_is_a_case_with_the_turns_before_it(load: Load) -> None:
    cases = load([{**row, "id": str(n)} for n, row in enumerate(ROWS)], "talk.jsonl", conversation="turns")
    assert [spoken(case) for case in cases] == [ALL[:1], ALL[:3], ALL]
    assert [(case.id, case.answer, case.group) for case in cases] == [
        ("0", "Yes.", "talk"),
        ("1", "No.", "talk"),
        ("2", "Both.", "talk"),
    ]
    assert (cases[1].reference, cases[1].contexts, cases[1].vars["n"]) == ("No", None, 2)
    assert load([{**ROWS[0], "group": "a"}], conversation="turns")[0].group == "a"


@pytest.mark.parametrize(
    ("answers", "whole", "last"),
    [
        ("recorded", ALL, ALL),
        ("none", ["u: Is tea hot?", "u: And ice?", "u: And water?"], ALL),
        ("demo", ["u: Is tea hot?", "a: Sure.", "u: And ice?", "u: And water?"], None),
    ],
)
def test_a_target_gives_the_answers_of_a_whole_conversation(
    load: Load, answers: Answers, whole: list[str], last: list[str] | None
) -> None:
    load([{**ROWS[0], "demo_output": "Sure."}, *ROWS[1:]])
    config = DatasetConfig(path="mine.jsonl", conversation=True)
    assert [spoken(case) for case in read("mine", config, answers=answers)] == [whole]
    *_, case = read("mine", config.model_copy(update={"conversation": "turns"}), answers=answers)
    assert spoken(case) == (last or whole)


def test_rows_that_repeat_the_conversation_so_far_add_what_is_new(load: Load) -> None:
    system, first = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is tea hot?"}
    rows = [
        {"messages": [system, first], "answer": "Yes."},
        {"history": [system, first, {"role": "assistant", "content": "Yes."}], "question": "And ice?", "answer": "No."},
        {"messages": [system, {"role": "user", "content": "And water?"}], "answer": "Both."},
    ]
    (case,) = load(rows, conversation=True)
    assert spoken(case) == ["s: Be brief.", *ALL]


def test_the_same_question_twice_is_two_turns(load: Load) -> None:
    (case,) = load([{"id": str(n), "question": "Yes"} for n in range(2)], conversation=True)
    assert spoken(case) == ["u: Yes", "u: Yes"]


def test_a_prediction_is_the_assistant_s_turn_where_there_is_no_answer(load: Load) -> None:
    rows = [{"question": "a?", "actual": {"route": "x"}}, {"question": "b?", "actual": True}]
    (case,) = load(rows, conversation=True)
    assert (spoken(case), case.actual) == (["u: a?", 'a: {"route": "x"}', "u: b?"], True)
