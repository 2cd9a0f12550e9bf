"""What every export of a platform goes through: bad files, shapes of inputs and outputs, size."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.interop.importers.exports import read_export, spoken_text
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.platforms import PLATFORMS
from evalflow.errors import UserError
from tests.addons.interop.importers.conftest import counts

pytestmark = pytest.mark.slow


def read(path: Path, tool: str = "braintrust") -> ImportedConfig:
    scratch = path.parent / f"scratch_{path.name}"
    scratch.mkdir()
    return read_export(PLATFORMS[tool], ImportSource(path, "old", scratch))


@pytest.mark.parametrize("tool", PLATFORMS)
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("e.json", "", "the file is empty"),
        ("e.json", "[]", "the file has no rows"),
        ("e.json", "[1]", "object"),
        ("e.json", "true", "list of objects"),
        ("e.json", '[{"input": "Q", "inputs": "Q"', "broken JSON"),
        ("e.jsonl", '{"input": "a", "inputs": "a"}\n{"input": ', "e.jsonl:2: broken JSON"),
        ("e.json", '[{"foo": 1}]', "it has none of input"),
        ("e.csv", "foo,bar\n1,2\n", "it has none of input"),
        ("e.csv", 'input\n"open', "csv"),
        ("e.xlsx", "x", "unknown kind of file"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, tool: str, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        read(tmp_path / name, tool)


@pytest.mark.parametrize("name", ["e.json", "e.jsonl", "e.csv"])
def test_other_encodings_are_refused_in_words(tmp_path: Path, name: str) -> None:
    for encoding in ("utf-16", "latin-1"):
        (tmp_path / f"{encoding}_{name}").write_bytes('[{"input": "é"}]'.encode(encoding))
        with pytest.raises(UserError, match=r"UTF|broken JSON"):
            read(tmp_path / f"{encoding}_{name}")


def test_a_score_table_says_what_to_export(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps({"name": "ok", "value": 1, "dataType": "NUMERIC", "traceId": "t"}))
    with pytest.raises(UserError, match="a score without its trace") as refused:
        read(path, "langfuse")
    assert "table of traces" in refused.value.problems[0].hint


def test_messages_that_cannot_be_asked_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    chat = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "x"}]
    path.write_text(json.dumps({"input": "Q"}) + "\n" + json.dumps({"input": chat, "scores": {"a": 1}}))
    found = read(path)
    found.ledger.expect_balanced()
    assert counts(found) == {"cases": (2, 1, 1), "scores": (1, 0, 1)}
    assert "message 2 ends the conversation with the role 'assistant'" in found.ledger.left_out[0].reason


def test_empty_inputs_are_listed_and_plain_metadata_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    rows = [{"input": {}}, {"input": []}, {"input": {"q": " "}}, {"input": "Q", "metadata": "by hand"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read(path)
    assert counts(found)["cases"] == (4, 1, 3)
    assert '"metadata": {"metadata": "by hand"}' in found.data["old.jsonl"].read_text(encoding="utf-8")
    with pytest.raises(UserError, match="it is a folder"):
        read(tmp_path)


def test_conversations_keep_tool_turns_and_images(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "hours", "arguments": "{}"}}
    picture = {"type": "image_url", "image_url": {"url": "https://pool.example/map.png"}}
    turns: list[Any] = [
        {"role": "user", "content": "On Friday?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "9 to 18"},
        {"role": "assistant", "content": "At nine."},
        {"role": "user", "content": [{"type": "text", "text": "And here?"}, picture]},
    ]
    path = tmp_path / "e.jsonl"
    path.write_text(json.dumps({"id": "a", "input": {"messages": turns, "lang": "en"}, "output": None}))
    found = read(path)
    [case] = [json.loads(line) for line in found.data["old.jsonl"].read_text(encoding="utf-8").splitlines()]
    assert [one["role"] for one in case["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert case["messages"][1]["tool_calls"] == [call]
    assert case["messages"][4]["parts"] == turns[4]["content"]
    assert case["vars"] == {"lang": "en"}
    assert counts(found)["images and other parts"] == (1, 1, 0)


def test_an_output_s_other_parts_and_steps_are_kept(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "hours", "arguments": "{}"}}
    steps = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "9"},
        {"role": "assistant", "content": "At nine."},
    ]
    rows = [
        {"input": "Q", "output": {"answer": "A", "sources": ["s"]}},
        {"input": "Q", "output": {"messages": steps}},
        {"input": "Q", "output": '{"a": 1}', "expected": ["x", "y"]},
    ]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = read(path).data["old.jsonl"].read_text(encoding="utf-8").splitlines()
    first, second, third = (json.loads(line) for line in lines)
    assert (first["answer"], first["metadata"]) == ("A", {"output": rows[0]["output"]})
    assert (second["answer"], [one["role"] for one in second["actual"]]) == (
        "At nine.",
        ["assistant", "tool", "assistant"],
    )
    assert (third["answer"], third["reference"]) == ('{"a": 1}', ["x", "y"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("A", "A"),
        ('{"answer": "A"}', '{"answer": "A"}'),  # what a bot said in JSON stays as it is
        ({"answer": "A", "contexts": ["c"]}, "A"),
        ({"role": "assistant", "content": [{"type": "text", "text": "A"}]}, "A"),
        ({"choices": [{"message": {"role": "assistant", "content": "A"}}]}, "A"),
        ([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}], "A"),
        ({"x": {"y": "A"}}, "A"),
        ({"x": 1, "y": 2}, '{"x":1,"y":2}'),
        (3, "3"),
        (False, "false"),
        ([], "[]"),
    ],
)
def test_the_text_of_an_output(value: Any, text: str) -> None:
    assert spoken_text(value) == text


def test_a_large_file_needs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    row = {"output": "A", "scores": {"s": 0.5}, "context": "y" * 34_000}
    path.write_text("".join(json.dumps({"input": f"Q{number}", **row}) + "\n" for number in range(101)))
    tracemalloc.start()
    try:
        read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 3_400_000 > 2 * peak
