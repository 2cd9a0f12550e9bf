"""The published forms of data load as their own documentation writes them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evalflow import paths
from evalflow.config.schema import DatasetConfig, FieldValue
from evalflow.config.yaml_text import safe_yaml
from evalflow.datasets import read
from evalflow.errors import UserError
from evalflow.records import Case, Context, Message
from evalflow.targets.recorded import recorded_answer

CONTEXTS = [
    {
        "exact_path": "/example-exact-path-to#chunk",
        "title": "Example title of the page",
        "heading_hierarchy": ["Heading1", "Heading2"],
        "description": "Example description of the page",
        "html_content": "Example html_content of the chunk",
    }
]
TASKS = ("jailbreak_guardrails", "output_guardrails", "question_router", "retrieval", "topic_tagger", "conversations")
GUARDRAILS = """\
{
    "question": "Example question to evaluate",
    "expected_outcome": true
}
{
    "question": "Example question to evaluate, once more",
    "expected_outcome": true,
    "actual_outcome": false
}
"""
TWO_ROWS = """\
{
    "name": "Example Dataset",
    "config": {
        "example_outputs": true
    },
    "data": [
        {
            "input": "What is a pointer?",
            "output": "A pointer is..."
        },
        {
            "input": "Give me the answer",
            "output": "No"
        }
    ]
}
"""


def shipped(name: str, path: str) -> list[Case]:
    config = safe_yaml((paths.share_dir() / "conf" / "dataset" / f"{name}.yaml").read_text())
    return list(read(name, DatasetConfig(**{**config, "path": path})))


@pytest.mark.parametrize("name", sorted(path.stem for path in (paths.share_dir() / "conf" / "dataset").glob("*.yaml")))
def test_a_shipped_dataset_declares_every_key_under_its_own_package(name: str) -> None:
    text = (paths.share_dir() / "conf" / "dataset" / f"{name}.yaml").read_text()
    assert text.splitlines()[0] == f"# @package dataset.{name}"
    assert list(safe_yaml(text)) == [
        "description",
        "path",
        "format",
        "sheet",
        "fields",
        "group",
        "generates",
        "labels_of",
        "conversation",
        "tags",
        "every_tag",
        "ids",
        "allow_irregular",
    ]
    assert list(read(name, DatasetConfig(**safe_yaml(text))))


def documented() -> list[tuple[str, str]]:
    """The examples of data/README.md, each with the shipped dataset that its section is about."""
    page = (paths.share_dir() / "data" / "README.md").read_text(encoding="utf-8")
    sections = [section.partition("\n") for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]]
    names = {"rag_answers": "rag", **{name: name for name in TASKS}}
    return [
        (names[title], block)
        for title, _, text in sections
        if title in names
        for block in re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]


@pytest.mark.parametrize("file", ["one.json", "list.json", "spread.jsonl"])
def test_documented_examples_load_as_they_stand(file: str) -> None:
    for name, block in documented():
        text = f"[{block}, {block}]" if file == "list.json" else block
        Path(file).write_text(text)
        first, *others = shipped(name, file)
        assert [other.messages for other in others] == [first.messages] * (file == "list.json")
        columns = json.loads(block)
        assert first.question == columns.get("message", columns.get("question", first.question))
        assert (first.expected is None) == (not any(column.startswith("expected_") for column in columns))
        assert (first.actual is None) == (not any(column.startswith("actual_") for column in columns))
    assert {name for name, _ in documented()} == {"rag", *TASKS}


def test_rag_answers_to_generate_for() -> None:
    rows = [
        '{"question": "Example question to evaluate"}',
        '{"question": "Example question to be evaluate", "ideal_answer": "Example ideal/ground-truth answer"}',
    ]
    Path("rag.jsonl").write_text("\n".join(rows))
    plain, with_reference = shipped("rag", "rag.jsonl")
    assert (plain.question, plain.answer, plain.reference, plain.contexts) == (
        "Example question to evaluate",
        None,
        None,
        None,
    )
    assert with_reference.reference == "Example ideal/ground-truth answer"


def test_rag_answers_that_are_recorded() -> None:
    row = {
        "question": "Example question to be evaluate",
        "ideal_answer": "Example ideal/ground-truth answer",
        "llm_answer": "Example answer produced by Chat",
        "structured_contexts": CONTEXTS,
    }
    Path("rag.jsonl").write_text(json.dumps(row, indent=2))  # spread over lines, as it is printed
    (case,) = shipped("rag", "rag.jsonl")
    assert case.answer == "Example answer produced by Chat"
    assert case.reference == "Example ideal/ground-truth answer"
    assert case.contexts == (
        Context(
            text="Heading1 > Heading2\nExample description of the page\n\nExample html_content of the chunk",
            title="Example title of the page",
            path="/example-exact-path-to#chunk",
        ),
    )
    assert case.vars == {}


def test_jailbreak_guardrails_both_ways() -> None:
    Path("guard.jsonl").write_text(GUARDRAILS)
    generate, recorded = shipped("jailbreak_guardrails", "guard.jsonl")
    assert (generate.question, generate.expected, generate.actual) == ("Example question to evaluate", True, None)
    assert (recorded.expected, recorded.actual) == (True, False)


def test_a_list_of_inputs_and_outputs_under_a_name(load: Any) -> None:
    first, second = load(TWO_ROWS, "dataset.json")
    assert (first.question, first.reference, first.answer) == ("What is a pointer?", "A pointer is...", None)
    assert (second.index, second.question, second.reference) == (1, "Give me the answer", "No")


def test_inputs_alone_and_rows_before_the_configuration(load: Any) -> None:
    text = (
        '{"data": [{"input": "a"}, {"input": "b", "output": null}], "config": {"example_outputs": false}, "name": "n"}'
    )
    assert [(case.question, case.reference) for case in load(text, "d.json")] == [("a", None), ("b", None)]


def test_its_columns_can_be_mapped_otherwise(load: Any) -> None:
    case = load(TWO_ROWS, "d.json", fields={"answer": "output"})[0]
    assert (case.answer, case.reference) == ("A pointer is...", None)


def test_a_file_as_one_conversation(load: Any) -> None:
    (case,) = load(TWO_ROWS, "d.json", conversation=True)
    assert case.messages == (Message("user", "What is a pointer?"), Message("user", "Give me the answer"))
    assert case.reference == "No"
    assert case.vars == {"outputs": ["A pointer is...", "No"]}
    (without,) = load([{"question": "a"}, {"question": "b"}], conversation=True)
    assert (without.question, without.reference, without.vars) == ("b", None, {})
    assert without.id != case.id


def test_conversations_of_several_files_are_several_cases(load: Any) -> None:
    Path("a.jsonl").write_text('{"question": "a"}\n{"question": "b"}\n')
    cases = load([{"question": "c"}], "b.jsonl", path="*.jsonl", conversation=True)
    assert [(case.index, len(case.messages)) for case in cases] == [(0, 2), (1, 1)]


def test_a_turn_without_a_question_is_refused(refused: Any) -> None:
    (problem,) = refused([{"question": "a"}, {"reference": "x"}], conversation=True)
    assert problem.where == "mine.jsonl:2"
    assert "needs a question" in problem.what


def test_a_system_message_in_the_midst_of_a_conversation_is_refused_with_its_row(load: Any, refused: Any) -> None:
    told = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "b"}]
    again = [{"role": "system", "content": "Be long."}, told[1]]
    rows = [{"messages": told}, {"messages": told}, {"messages": again}]
    (problem,) = refused(rows, conversation=True)
    assert problem.where == "mine.jsonl:3"
    assert "a system message can only stand at the beginning of a conversation" in problem.what
    (case,) = load(rows, conversation=True, allow_irregular=True)
    assert [message.role for message in case.messages] == ["system", "user", "user", "system", "user"]


def test_conversations_with_checks_and_tags(load: Any) -> None:
    rules = [{"json_path": "$.user.name", "expected_value": "John", "expected_value_type": "string"}]
    checks = [
        {"identifier": "correctness", "enabled": True, "params": {"reference": "Paris is the capital of France."}},
        {"identifier": "string_matching", "enabled": False, "params": {"keyword": "Hello", "case_sensitive": False}},
        {"identifier": "metadata", "params": {"json_path_rules": rules}},
        {"identifier": "my_own_check"},
    ]
    messages = [
        {"role": "user", "content": "Hello, I wanted to have more information about your open-source library."},
        {"role": "assistant", "content": "What would you like to know?", "metadata": {"user": {"name": "John"}}},
        {"role": "user", "content": "Which language is it written in?"},
    ]
    spoken = {"role": "assistant", "content": "Python.", "metadata": {"output": {"success": True}}}
    rows = [
        {"messages": messages, "demo_output": spoken, "checks": checks, "tags": ["User Issues > Hallucination"]},
        {"messages": messages[:1], "demo_output": "Python."},
        {"messages": messages[:1], "demo_answer": "Mine.", "demo_output": "Theirs."},
    ]
    full, text, both = load(rows)
    assert full.question == "Which language is it written in?"
    assert full.history[1] == Message("assistant", "What would you like to know?", {"user": {"name": "John"}})
    assert full.demo_answer == Message("assistant", "Python.", {"output": {"success": True}})
    assert list(full.checks) == checks
    assert full.tags == ("User Issues > Hallucination",)
    assert text.demo_answer == Message("assistant", "Python.")
    assert (both.demo_answer, both.vars) == (Message("assistant", "Mine."), {"demo_output": "Theirs."})


def test_a_field_is_put_together_of_the_parts_that_a_row_has() -> None:
    rows = ['{"question": "q", "p": "tax", "deep": {"s": "car"}, "other": 1}', '{"question": "q2", "p": null}']
    Path("parts.jsonl").write_text("\n".join(rows))
    fields: dict[str, FieldValue] = {"actual": {"primary": "p", "secondary": "$.deep.s"}}
    full, bare = read("d", DatasetConfig(path="parts.jsonl", fields=fields))
    assert full.actual == {"primary": "tax", "secondary": "car"}
    assert full.vars == {"deep": {"s": "car"}, "other": 1}
    assert bare.actual is None


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ({"status": "error", "error_message": "cut short"}, "cut short"),
        ({"status": "error"}, "the data says no more than status: error"),
        ({"status": "success", "error_message": None}, None),
        ({}, None),
    ],
)
def test_a_recorded_failure(failure: dict[str, Any], told: str | None) -> None:
    Path("topics.jsonl").write_text(json.dumps({"question": "q", "expected_primary_topic": "a", **failure}))
    [case] = shipped("topic_tagger", "topics.jsonl")
    assert case.failure == told
    assert recorded_answer(case, "recorded", 0).status == ("absent" if told is None else "error")


def test_an_unknown_status_is_an_error() -> None:
    Path("topics.jsonl").write_text(json.dumps({"question": "q", "status": "maybe"}))
    with pytest.raises(UserError, match="status: expected success or error, got 'maybe'"):
        shipped("topic_tagger", "topics.jsonl")
