"""promptfoo's results: recorded answers, and its scores beside evalflow's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.promptfoo.read import read_promptfoo
from evalflow.errors import UserError


def result(number: int, provider: str = "a", **changes: Any) -> dict[str, Any]:
    return {
        "testIdx": number,
        "promptIdx": 0,
        "provider": {"id": provider, "label": ""},
        "vars": {"q": f"Q{number}"},
        "prompt": {"raw": f"Say Q{number}"},
        "response": {"output": f"A{number}"},
        "latencyMs": 12,
        "cost": 0.5,
        "score": 0.5,
        "success": False,
        "failureReason": 1,
        "gradingResult": {
            "componentResults": [
                {"pass": True, "score": 1, "assertion": {"type": "contains", "value": "A"}},
                {"pass": False, "score": 0, "assertion": {"type": "contains", "value": "{{q}}"}},
            ]
        },
        "testCase": {
            "vars": {"q": f"Q{number}"},
            "assert": [
                {"type": "contains", "value": "A"},
                {"type": "contains", "value": "{{q}}"},
                {"type": "latency", "threshold": 20},
            ],
        },
        **changes,
    }


def document(*results: dict[str, Any], version: Any = 3) -> str:
    return json.dumps({"evalId": "e", "results": {"version": version, "results": results}, "config": {}})


def read(folder: Path, text: str, name: str = "out.json") -> ImportedConfig:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    found = read_promptfoo(ImportSource(folder / name, "old", scratch))
    found.ledger.expect_balanced()
    return found


def test_answers_and_scores_are_recorded(tmp_path: Path) -> None:
    found = read(tmp_path, document(result(0), result(1), result(0, "b", response={"output": {"x": [1]}})))
    assert {key: option["name"] for key, option in found.datasets.items()} == {"old_a_1": "old", "old_b_1": "old"}
    first = json.loads(found.data["old_a_1.jsonl"].read_text().splitlines()[0])
    assert (first["id"], first["question"], first["answer"]) == ("1", "Q0", "A0")
    assert first["promptfoo"] == {"score": 0.5, "passed": False, "contains": 1, "contains_2": 0}
    assert first["checks"][1]["params"]["value"] == "Q0"
    assert first["checks"][2]["params"] == {"op": "less_than_equals", "field": "latency_s", "value": 0.02}
    assert (first["latency_s"], first["cost_usd"]) == (0.012, 0.5)
    assert json.loads(found.data["old_b_1.jsonl"].read_text())["answer"] == '{"x":[1]}'
    assert found.metrics["old_contains_2"]["field"] == "promptfoo.contains_2"
    assert found.metrics["old_contains_2"]["kind"] == "recorded"
    assert found.ledger.counts()["scores"] == (12, 12, 0)
    assert found.targets["old_b_1"] == {"kind": "recorded", "name": "b 1"}


def test_lines_are_results_too(tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps(result(0)) + "\n" + json.dumps(result(1)), "out.jsonl")
    assert found.ledger.counts()["answers"] == (2, 2, 0)


def test_an_error_is_no_score(tmp_path: Path) -> None:
    failed = result(0, response={}, error="no key", failureReason=2)
    found = read(tmp_path, document(failed, result(1)))
    case = json.loads(found.data["old_a_1.jsonl"].read_text().splitlines()[0])
    assert case["failure"] == "no key"
    assert case["promptfoo"] == {}
    assert found.ledger.counts()["scores"] == (8, 4, 4)


def test_a_second_answer_is_listed(tmp_path: Path) -> None:
    found = read(tmp_path, document(result(0), result(0)))
    assert found.ledger.counts()["answers"] == (2, 1, 1)


def test_case_numbers_are_kept_as_bits_up_to_a_limit(tmp_path: Path) -> None:
    numbers = (70_000, 3, 70_000, 70_008, 10**8, 10**30)
    found = read(tmp_path, document(*map(result, numbers)))
    assert found.ledger.counts()["answers"] == (6, 3, 3)
    assert {entry.reason: entry.count for entry in found.ledger.left_out if entry.part == "answers"} == {
        "the case already has an answer": 1,
        "its testIdx is not below 100,000,000": 2,
    }


def test_each_key_of_a_result_is_kept_or_listed(tmp_path: Path) -> None:
    test = {
        "vars": {"q": "Q0"},
        "id": "open-1",
        "tags": ["Topic > Hours", "short"],
        "description": "opening hours",
        "metadata": {"owner": "desk"},
        "options": {"transform": "output.trim()"},
    }
    row = result(
        0,
        testCase=test,
        id="r-17",
        namedScores={"tone": 0.25},
        metadata={"span": "x"},
        response={
            "output": "",
            "finishReason": "length",
            "tokenUsage": {"total": 31},
            "raw": "Bearer abcdefgh12345678",
        },
    )
    text = json.dumps({"evalId": "e", "results": {"version": 3, "results": [row], "stats": {"tokens": 3}}, "tags": {}})
    found = read(tmp_path, text)
    case = json.loads(found.data["old_a_1.jsonl"].read_text())
    assert (case["id"], case["answer"], case["finish_reason"]) == ("open-1", "", "length")
    assert case["tags"] == ["Topic > Hours", "short"]
    about = case["metadata"]
    assert (about["owner"], about["description"], about["prompt"]) == ("desk", "opening hours", "Say Q0")
    kept = about["result"]
    assert (kept["id"], kept["namedScores"], kept["metadata"]) == ("r-17", {"tone": 0.25}, {"span": "x"})
    assert kept["response"] == {"tokenUsage": {"total": 31}, "raw": "Bearer ***"}
    assert kept["testCase"] == {"options": {"transform": "output.trim()"}}
    assert kept["gradingResult"]["componentResults"][0]["assertion"] == {"type": "contains", "value": "A"}
    listed = [one.what for one in found.ledger.left_out]
    assert [one for one in listed if "column" in one] == ["column evalId", "column stats"]
    assert "a key in a text" in listed


def test_broken_results_are_listed_and_others_taken(tmp_path: Path) -> None:
    lines = [json.dumps(result(0)), '{"testIdx"', "7", json.dumps({"testIdx": 3}), json.dumps(result(1))]
    found = read(tmp_path, "\n".join(lines), "out.jsonl")
    assert found.ledger.counts()["answers"] == (5, 2, 3)
    assert [one.where for one in found.ledger.left_out if one.part == "answers"] == [
        f"{tmp_path / 'out.jsonl'}:{line}" for line in (2, 3, 4)
    ]


def test_two_tests_of_one_id_are_told_apart(tmp_path: Path) -> None:
    test = {"id": "same", "vars": {"q": "Q"}}
    found = read(tmp_path, document(result(0, testCase=test), result(1, testCase=test)))
    ids = [json.loads(line)["id"] for line in found.data["old_a_1.jsonl"].read_text().splitlines()]
    assert ids == ["same", "2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (document(result(0))[:-200], "broken JSON"),
        (document(version=1), "the results have version 1"),
        (document(), "it has no results"),
        (json.dumps({"evalId": "e", "results": {"version": 3, "results": [1]}}), "it is not an object"),
        (json.dumps({"evalId": "e", "results": {"version": 3, "results": [{}]}}), "it is not a result of promptfoo"),
        (json.dumps({"evalId": "e"}), "the results have version None"),
    ],
)
def test_bad_results_are_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(tmp_path, text)


def test_a_chat_prompt_is_a_conversation(tmp_path: Path) -> None:
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Is the pool open?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Until when?"},
    ]
    unfinished = [*turns, {"role": "assistant", "content": "Nine."}]
    rows = [result(at, prompt={"raw": json.dumps(one)}) for at, one in enumerate((turns, unfinished, [1, 2]))]
    imported = read(tmp_path, document(*rows))
    [data] = imported.data.values()
    cases = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    assert cases[0]["messages"] == turns
    assert "question" not in cases[0]
    assert [case["question"] for case in cases[1:]] == ["Q1", "Q2"]
