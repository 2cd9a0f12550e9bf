"""Files of Azure AI evaluation and prompt flow."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.addons.interop.importers.azure_ai import read_azure_ai
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.errors import UserError
from tests.addons.interop.importers.conftest import counts


def read(folder: Path, content: Any, name: str = "rows.jsonl") -> ImportedConfig:
    path = folder / name
    text = content if isinstance(content, str) else "\n".join(json.dumps(row) for row in content)
    path.write_text(text, encoding="utf-8")
    found = read_azure_ai(ImportSource(path, "old", Path(mkdtemp(dir=folder))))
    found.ledger.expect_balanced()
    return found


def cases(found: ImportedConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data["old.jsonl"].read_text(encoding="utf-8").splitlines()]


ROW = {
    "inputs.query": "When does the pool open?",
    "inputs.context": "Pool: 9-18",
    "inputs.ground_truth": "At 9.",
    "inputs.topic": "pool",
    "outputs.response": "At nine.",
    "outputs.groundedness.groundedness": 4,
    "outputs.groundedness.gpt_groundedness": 4,
    "outputs.groundedness.groundedness_reason": "It says so.",
    "outputs.groundedness.groundedness_threshold": 3,
    "outputs.groundedness.groundedness_result": "pass",
    "outputs.safety.violence": "Very low",
    "outputs.safety.violence_score": 0,
    "outputs.safety.violence_threshold": 3,
    "outputs.safety.violence_result": "pass",
    "line_number": 7,
}
BAD = ROW | {
    "outputs.groundedness.groundedness": None,
    "outputs.groundedness.gpt_groundedness": None,
    "outputs.safety.violence_score": 5,
    "outputs.safety.violence_result": "fail",
    "line_number": 8,
}


def test_rows_have_the_evaluators_scores_and_pass_as_they_say(tmp_path: Path) -> None:
    found = read(tmp_path, [ROW, BAD])
    first, second = cases(found)
    assert {name: first[name] for name in ("id", "question", "answer", "reference", "contexts")} == {
        "id": "7",
        "question": "When does the pool open?",
        "answer": "At nine.",
        "reference": "At 9.",
        "contexts": ["Pool: 9-18"],
    }
    assert first["azure_ai"] == {"groundedness": 4.0, "safety_violence_score": 0.0}
    assert first["vars"]["topic"] == "pool"
    assert first["vars"]["outputs"]["groundedness.groundedness_reason"] == "It says so."
    assert second["azure_ai"] == {"safety_violence_score": 5.0}
    violence = found.metrics["old_safety_violence_score"]
    assert (violence["direction"], violence["threshold"]) == ("lower_is_better", 3.0)
    assert (found.metrics["old_groundedness"]["direction"], found.metrics["old_groundedness"]["threshold"]) == (
        "higher_is_better",
        3.0,
    )
    assert counts(found)["scores"] == (4, 3, 1)


def test_a_document_of_rows_lists_its_other_keys(tmp_path: Path) -> None:
    document = {"rows": [ROW], "metrics": {"groundedness.groundedness": 4.0}, "studio_url": None}
    found = read(tmp_path, json.dumps(document), "result.json")
    assert cases(found)[0]["id"] == "7"
    assert [(one.what, one.part) for one in found.ledger.left_out if one.part == "columns"] == [
        ("column metrics", "columns")
    ]


@pytest.mark.parametrize("form", ["nested", "plain", "csv"])
def test_prompt_flow_and_plain_data_are_read(tmp_path: Path, form: str) -> None:
    inputs = {"question": "When?", "notes": "asked often"}
    rows: list[dict[str, Any]] = [{"inputs": inputs, "outputs": {"answer": "At nine."}, "line_number": 2}]
    if form == "plain":
        rows = [{**inputs, "answer": "At nine.", "line_number": 2}]
    text = "inputs.question,inputs.notes,outputs.answer,line_number\nWhen?,asked often,At nine.,2\n"
    found = read(tmp_path, text, "rows.csv") if form == "csv" else read(tmp_path, rows)
    assert cases(found) == [{"id": "2", "question": "When?", "answer": "At nine.", "vars": {"notes": "asked often"}}]


def test_a_history_of_prompt_flow_comes_before_the_question(tmp_path: Path) -> None:
    earlier = [{"inputs": {"question": "When do you open?"}, "outputs": {"answer": "At nine."}}]
    found = read(tmp_path, [{"inputs": {"question": "And on Sunday?", "chat_history": earlier}, "outputs": {}}])
    [case] = cases(found)
    assert [(one["role"], one["content"]) for one in case["history"]] == [
        ("user", "When do you open?"),
        ("assistant", "At nine."),
    ]
    assert case["question"] == "And on Sunday?"


def test_conversations_keep_what_was_found_at_each_turn(tmp_path: Path) -> None:
    cited = {"citations": [{"id": "a.md", "content": "Closed on Sunday", "score": 0.5}]}
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "context": "greeting"},
        {"role": "user", "content": "Sunday?"},
        {"role": "assistant", "content": "Closed.", "context": cited},
    ]
    [case] = cases(read(tmp_path, [{"conversation": {"messages": turns, "language": "en"}}]))
    assert case["messages"][1] == {"role": "assistant", "content": "Hello", "metadata": {"contexts": ["greeting"]}}
    assert (case["answer"], case["metadata"]) == ("Closed.", {"conversation": {"language": "en"}})
    assert case["contexts"] == [{"id": "a.md", "score": 0.5, "text": "Closed on Sunday", "path": "a.md"}]


def test_an_agent_s_messages_are_its_steps(tmp_path: Path) -> None:
    call = {"type": "tool_call", "tool_call_id": "c", "name": "hours", "arguments": {"day": "Sunday"}}
    result = {"type": "tool_result", "tool_result": {"open": False}}
    asked, said = {"type": "text", "text": "Sunday?"}, {"type": "text", "text": "Closed."}
    row = {
        "query": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [asked]}],
        "response": [
            {"role": "assistant", "content": [call]},
            {"role": "tool", "tool_call_id": "c", "content": [result]},
            {"role": "assistant", "content": [said]},
        ],
        "tool_definitions": [{"name": "hours"}],
    }
    [case] = cases(read(tmp_path, [row]))
    assert ([one["role"] for one in case["messages"]], case["answer"]) == (["system", "user"], "Closed.")
    assert case["actual"][0]["tool_calls"][0]["function"] == {"name": "hours", "arguments": '{"day": "Sunday"}'}
    assert json.loads(case["actual"][1]["content"]) == {"open": False}
    assert case["vars"] == {"tool_definitions": [{"name": "hours"}]}


def test_results_with_verdicts_of_their_own_are_read(tmp_path: Path) -> None:
    judged = {"name": "coherence", "metric": "coherence", "score": 2, "threshold": 3, "passed": False, "reason": "x"}
    row = {"datasource_item": {"query": "Q", "response": "A"}, "results": [judged]}
    found = read(tmp_path, [row, row | {"results": [judged | {"score": 4, "passed": True}]}])
    assert [case["azure_ai"] for case in cases(found)] == [{"coherence": 2.0}, {"coherence": 4.0}]
    assert found.metrics["old_coherence"]["threshold"] == 3.0
    assert cases(found)[0]["vars"]["results"] == [judged]


def test_broken_rows_are_listed_and_files_without_questions_refused(tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps(ROW) + '\n{"inputs.query": \n')
    assert counts(found)["cases"] == (2, 1, 1)
    with pytest.raises(UserError, match="it has none of query, question"):
        read(tmp_path, [{"outputs.response": "A"}], "answers.jsonl")
