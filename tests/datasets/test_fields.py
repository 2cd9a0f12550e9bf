"""How columns become case fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.config.schema import DatasetConfig
from evalflow.datasets import columns, read
from evalflow.datasets.fields import CONVERTERS
from evalflow.errors import UserError
from evalflow.labels.read import parse_case
from evalflow.records import Context, Message


def test_own_names_map_themselves_and_the_rest_goes_to_vars(load: Any) -> None:
    row = {"dataset": "theirs", "index": 7, "question": "q", "answer": "a", "score": 0.5, "empty": None}
    (case,) = load([row])
    assert (case.dataset, case.index, case.question, case.answer) == ("mine", 0, "q", "a")
    assert case.vars == {"dataset": "theirs", "index": 7, "score": 0.5}


def test_null_is_absent(load: Any) -> None:
    (case,) = load([{**dict.fromkeys(CONVERTERS), "vars": {}}])
    assert case.messages == ()
    assert (case.answer, case.contexts, case.checks, case.tags, case.vars) == (None, None, None, (), {})


def test_empty_is_not_absent(load: Any) -> None:
    (case,) = load([{"contexts": [], "checks": [], "metadata": {}, "answer": "", "expected": False, "actual": 0}])
    assert (case.contexts, case.checks, case.metadata, case.answer) == ((), (), {}, "")
    assert (case.expected, case.actual) == (False, 0)


def test_fields_name_columns_and_paths(load: Any) -> None:
    row = {
        "meta": {"nr": 7, "kind": "x"},
        "query": "q",
        "out": {"text": "a", "hits": [{"body": "c1"}, {"body": "c2"}]},
        "with space": "r",
    }
    fields = {
        "id": "$.meta.nr",
        "question": "query",
        "answer": "$.out['text']",
        "contexts": "$.out.hits[*].body",
        "reference": "with space",
        "expected": "$.absent.deep",
        "tags": "$.meta.kind",
        "actual": "$.out.none[*]",
    }
    (case,) = load([row], fields=fields, group="$.meta.kind")
    assert (case.id, case.question, case.answer, case.reference, case.group) == ("7", "q", "a", "r", "x")
    assert case.contexts == (Context("c1"), Context("c2"))
    assert (case.expected, case.actual, case.tags) == (None, None, ("x",))
    assert sorted(case.vars) == ["meta", "out"]


def test_a_column_given_to_one_field_is_not_taken_for_another(load: Any) -> None:
    for source in ("answer", "$.answer"):
        (case,) = load([{"question": "q", "answer": "gold"}], fields={"reference": source})
        assert (case.reference, case.answer, case.vars) == ("gold", None, {})


def test_a_column_may_be_the_group_and_itself(load: Any) -> None:
    row = {"question": "q", "doc": "d"}
    (case,) = load([row], group="question")
    assert (case.question, case.group) == ("q", "q")
    (case,) = load([row], fields={"group": "question", "id": "question"})
    assert (case.question, case.group, case.id) == ("q", "q", "q")


def test_a_declared_column_is_not_replaced_by_one_with_the_fields_name(load: Any) -> None:
    (case,) = load([{"answer": "other"}], fields={"answer": "llm_answer"})
    assert (case.answer, case.vars) == (None, {"answer": "other"})


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        ({"answer": "bot"}, True),
        ({"answer": "$.bot"}, True),
        ({"answer": "ideal"}, False),
        ({"answer": "$.deep.bot"}, False),
        ({"answer": "ideal", "labels": "$.labels"}, False),
    ],
)
def test_labels_are_of_the_column_that_they_judge_and_of_no_other(
    load: Any, options: dict[str, str], counted: bool
) -> None:
    row = {"id": "c", "bot": "a", "ideal": "b", "deep": {"bot": "a"}, "labels": {"m": True}}
    (case,) = load([row], fields=options, labels_of="bot")
    assert case.labels == ({"m": True} if counted else None)
    (case,) = load([row], fields=options)
    assert case.labels == {"m": True}


def test_labels_are_found_where_they_stand(load: Any) -> None:
    row = {
        "id": "c",
        "reply": {"text": "a"},
        "judged": "yes",
        "review": {"faithful": 0.5, "people": [{"score": 1, "who": "ana"}, {"score": 0, "who": "ben"}]},
    }
    labels = {"faithfulness": "$.review.faithful", "relevance": "$.review.people[*].score", "tone": "judged"}
    fields = {"answer": "$.reply.text", "labels": {**labels, "bias": "$.review.nowhere"}}
    (case,) = load([row], fields=fields, labels_of="$.reply.text")
    assert case.labels == {"faithfulness": 0.5, "relevance": [1, 0], "tone": "yes"}
    (case,) = load([row], fields=fields, labels_of="$.reply.other")
    assert case.labels is None
    (case,) = load([row], fields={"answer": "$.reply.text", "labels": "$.review"}, labels_of="$.reply.text")
    assert case.labels == row["review"]
    (case,) = load([row], fields=fields)
    assert sorted(one.by for one in parse_case(case).given) == ["person 1", "person 2", "unnamed", "unnamed"]


def test_group_is_text(load: Any) -> None:
    assert [case.group for case in load([{"doc": 3}, {"doc": "d"}, {"doc": True}, {"other": 1}], group="doc")] == [
        "3",
        "d",
        "true",
        None,
    ]


def test_vars_that_stand_in_the_data_are_joined_by_other_columns(load: Any) -> None:
    (case,) = load([{"vars": {"a": 1, "b": None}, "c": 2}])
    assert case.vars == {"a": 1, "b": None, "c": 2}


def test_a_missing_id_is_made_from_the_content(load: Any) -> None:
    first, same, other, own, number = load(
        [{"question": "a", "x": 1}, {"x": 1, "question": "a", "y": None}, {"question": "b"}, {"id": "a1"}, {"id": 7}]
    )
    assert (len(first.id), same.id) == (16, f"{first.id}-2")
    assert other.id not in (first.id, same.id)
    assert (own.id, number.id) == ("a1", "7")


def test_context_forms(load: Any) -> None:
    (case,) = load([{"contexts": ["plain <b>text</b>", {"text": "t", "title": "T", "path": None, "score": 1}]}])
    assert case.contexts == (Context("plain <b>text</b>"), Context("t", "T"))
    assert load([{"contexts": "only one"}])[0].contexts == (Context("only one"),)


def test_tags_and_a_text_demo_answer(load: Any) -> None:
    (case,) = load([{"tags": "User Issues > Hallucination; ; x ", "demo_answer": {"content": "d"}}])
    assert case.tags == ("User Issues > Hallucination", "x")
    assert case.demo_answer == Message("assistant", "d")


def test_wrong_declarations_are_all_named_before_reading() -> None:
    Path("mine.jsonl").write_text("broken")
    fields: dict[str, Any] = {"anwser": "a", "answer": "$.a[", "reference": "", "group": "g"}
    with pytest.raises(UserError) as error:
        read("mine", DatasetConfig(path="mine.jsonl", fields=fields, group="h"))
    found = {problem.where: problem for problem in error.value.problems}
    assert found["dataset.mine.fields.anwser"].hint == (
        "did you mean 'answer'?; to read it as vars.anwser: anwser: {column: a, type: text}"
    )
    assert found["dataset.mine.fields.answer"].what.startswith("'$.a[' is not a JSONPath: unexpected end")
    assert "empty text" in found["dataset.mine.fields.reference"].what
    assert "different columns" in found["dataset.mine"].what
    with pytest.raises(UserError, match=r"dataset\.mine\.group: '\$\[' is not a JSONPath"):
        read("mine", DatasetConfig(path="mine.jsonl", group="$["))


@pytest.mark.parametrize("name", ["dataset", "index", "turn_contexts"])
def test_what_evalflow_sets_itself_cannot_be_mapped(name: str) -> None:
    Path("mine.jsonl").write_text("{}")
    with pytest.raises(UserError, match=f"'{name}' is not a case field"):
        read("mine", DatasetConfig(path="mine.jsonl", fields={name: "x"}))


def test_columns_of_the_first_rows(load: Any) -> None:
    load([{"b": 1}, {"a": 2, "b": None}, {"c": 3}])
    config = DatasetConfig(path="mine.jsonl")
    assert columns(config) == ["b", "a", "c"]
    assert columns(config, rows=2) == ["b", "a"]
    Path("mine.jsonl").write_text('{"a": 1}\n{"b"\n')
    assert columns(config, rows=1) == ["a"]
    with pytest.raises(UserError, match="broken JSON at line 2"):
        columns(config)


@pytest.mark.parametrize(
    ("written", "reference", "texts", "shown"),
    [
        ("Berne", "Berne", ("Berne",), "Berne"),
        (["Berne"], "Berne", ("Berne",), "Berne"),
        (["Berne", "Bern", "Berne"], ("Berne", "Bern", "Berne"), ("Berne", "Bern"), "1. Berne\n2. Bern"),
        ([], None, (), None),
        (4, "4", ("4",), "4"),
        (0.25, "0.25", ("0.25",), "0.25"),
        (False, "false", ("false",), "false"),
        ([12, "a dozen"], ("12", "a dozen"), ("12", "a dozen"), "1. 12\n2. a dozen"),
    ],
)
def test_a_reference_is_one_text_or_several_and_a_number_is_its_text(
    written: Any, reference: Any, texts: tuple[str, ...], shown: str | None, load: Any
) -> None:
    for name, content in (
        ("mine.jsonl", [{"question": "q", "reference": written}]),
        ("mine.json", json.dumps([{"question": "q", "reference": written}])),
        ("mine.json", json.dumps({"data": [{"input": "q", "output": written}]})),
    ):
        (case,) = load(content, name)
        assert (case.reference, case.references, case.reference_text) == (reference, texts, shown)


# --- a text under `expected` ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl"])
def test_a_text_under_expected_is_the_reference_too(load: Any, name: str) -> None:
    texts = ["$1,200", "007", "None", "2024-01-05", "[sic] yes", "{name}"]
    file = "".join(f'a?,"{text}"\n' for text in texts)
    rows = f"question,expected\n{file}" if name.endswith("csv") else [{"question": "a?", "expected": t} for t in texts]
    assert [(case.reference, case.expected) for case in load(rows, name)] == [(text, text) for text in texts]


@pytest.mark.parametrize(
    "row",
    [
        {"expected": "a", "reference": "b"},
        {"expected": "a", "reference": None},
        {"expected": ["a", "b"]},
        {"expected": '[{"name": "search"}]'},
        {"expected": {"a": 1}},
        {"expected": True},
        {"expected": [1]},
        {"expected": " ", "note": "n"},
    ],
)
def test_another_expectation_is_not(load: Any, row: dict[str, Any]) -> None:
    (case,) = load([row])
    assert case.reference == row.get("reference")
    assert case.expected == row["expected"]


@pytest.mark.parametrize(
    "config",
    [
        {"fields": {"expected": {"column": "expected", "type": "text"}}},
        {"fields": {"expected": "label"}},
        {"fields": {"reference": "ideal"}},
        {"fields": {"reference": None}},
        {"generates": "actual"},
    ],
)
def test_a_dataset_can_declare_that_it_is_a_label(load: Any, config: dict[str, Any]) -> None:
    row = {"question": "a?", "expected": "spam", "label": "spam"}
    assert load([row], **config)[0].reference is None
    assert load([row], fields={"expected": "expected"})[0].reference == "spam"


@pytest.mark.parametrize(("number", "text"), [(7, "7"), (1.50, "1.5")])
def test_a_number_under_expected_is_the_text_that_answers_are_compared_with(load: Any, number: Any, text: str) -> None:
    (case,) = load([{"question": "a?", "expected": number}])
    assert (case.expected, case.reference) == (number, text)
    (case,) = load('{"question": "a?", "expected": 250.10}')
    assert case.reference == "250.10"


def test_an_empty_cell_is_a_missing_reference(load: Any) -> None:
    assert load("question,expected,reference\na?,spam,\n", "mine.csv")[0].reference is None


def test_a_context_whose_text_has_another_name_is_told_how_to_be_mapped(load: Any, refused: Any) -> None:
    rows = [{"question": "Can I park?", "passages": [{"score": 0.5, "body": "Parking is free."}]}]
    (problem,) = refused(rows, fields={"contexts": "passages"})
    path = "$.passages[*].body"
    assert problem.hint == f"say where the texts are: '++dataset.mine.fields.contexts=\"{path}\"'"
    (case,) = load(rows, fields={"contexts": path})
    assert case.contexts == (Context("Parking is free."),)


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl"])
@pytest.mark.parametrize("type_of", ["list", "json"])
def test_numbers_in_a_list_of_references_keep_their_digits(load: Any, name: str, type_of: str) -> None:
    text = "question,right\nHow much?,\"[3.10, 'about 3']\"\n"
    if name.endswith("jsonl"):
        text = '{"question": "How much?", "right": [3.10, "about 3"]}'
    (case,) = load(text, name, fields={"reference": {"column": "right", "type": type_of}})
    assert case.reference == ("3.10", "about 3")


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl"])
def test_a_number_within_a_cell_keeps_its_digits_as_text(load: Any, name: str) -> None:
    text = 'question,paid\nHow much?,"{""euros"": 3.10}"\n'
    if name.endswith("jsonl"):
        text = '{"question": "How much?", "paid": {"euros": 3.10}}'
    (case,) = load(text, name, fields={"reference": "$.paid.euros"})
    assert case.reference == "3.10"
