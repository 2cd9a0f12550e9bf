"""Giskard Hub's scenarios: interactions with checks, the older form with messages, and CSV."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.giskard import read_giskard
from tests.addons.interop.importers.conftest import counts

TONE = {"check_id": "7", "name": "custom_tone", "spec": {"type": "conformity", "rule": "Be kind."}, "enabled": False}
SCENARIO: dict[str, Any] = {
    "id": "s",
    "tags": ["Topic > Fees"],
    "status": "active",
    "created_at": "2026-01-01",
    "interactions": [
        {
            "position": 1,
            "input": {"messages": [{"role": "user", "content": "And for children?"}]},
            "checks": [
                {"identifier": "string_matching", "override_spec": {"keyword": "10", "normalization_form": None}}
            ],
        },
        {
            "position": 0,
            "input": {"messages": [{"role": "user", "content": "What does a late book cost?"}]},
            "output": {"response": {"role": "assistant", "content": "20 cents."}, "metadata": {"tool": "fees"}},
            "checks": [{"identifier": "hub_correctness", "override_spec": {"reference": "20 cents"}}, TONE],
        },
    ],
}


def read(folder: Path, content: Any, name: str = "scenarios.json") -> ImportedConfig:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    found = read_giskard(ImportSource(path, "old", Path(mkdtemp(dir=folder))))
    found.ledger.expect_balanced()
    return found


def cases(found: ImportedConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data["old.jsonl"].read_text(encoding="utf-8").splitlines()]


def test_each_interaction_is_a_case_after_the_turns_before_it(tmp_path: Path) -> None:
    found = read(tmp_path, [SCENARIO])
    first, second = cases(found)
    assert first == {
        "id": "s/1",
        "group": "s",
        "tags": ["Topic > Fees"],
        "messages": [{"role": "user", "content": "What does a late book cost?"}],
        "demo_output": {"role": "assistant", "content": "20 cents.", "metadata": {"tool": "fees"}},
        "checks": [
            {"identifier": "correctness", "params": {"reference": "20 cents"}},
            {"identifier": "conformity", "params": {"rules": ["Be kind."]}, "name": "custom_tone", "enabled": False},
        ],
        "vars": {"status": "active", "created_at": "2026-01-01"},
    }
    assert [one["content"] for one in second["messages"]] == ["What does a late book cost?", "And for children?"]
    assert (second["id"], second["checks"]) == (
        "s/2",
        [{"identifier": "string_matching", "params": {"keyword": "10"}}],
    )
    assert found.experiments["old"].metrics == ["checks"]
    assert counts(found) == {"cases": (2, 2, 0), "checks": (3, 3, 0)}


def test_drafts_and_checks_without_a_like_are_listed(tmp_path: Path) -> None:
    draft = {"status": "draft", "interactions": SCENARIO["interactions"][:1]}
    asked = {"input": {"messages": [{"role": "user", "content": "Q"}]}}
    unknown = [
        {"identifier": "custom_secret"},
        {"identifier": "llm_judge", "override_spec": {"prompt": "p"}},
        {"identifier": "hub_correctness"},
    ]
    found = read(tmp_path, [draft, {"interactions": [{**asked, "checks": unknown}]}])
    [case] = cases(found)
    assert case["vars"] == {"interaction": {"checks": unknown}}
    assert counts(found) == {"cases": (2, 1, 1), "checks": (3, 0, 3)}
    assert [one.what for one in found.ledger.left_out] == [
        "row",
        "check custom_secret",
        "check llm_judge",
        "check hub_correctness",
    ]


def test_inputs_with_a_schema_of_their_own_are_variables(tmp_path: Path) -> None:
    one = {"input": {"input": {"user_message": "A loan", "amount": 5}}, "output": {"output": {"status": "asked"}}}
    [case] = cases(read(tmp_path, [{"interactions": [one]}]))
    assert (case["question"], case["vars"]) == ("A loan", {"user_message": "A loan", "amount": 5})
    assert case["demo_output"] == "asked"


def test_the_older_form_and_csv_say_the_same(tmp_path: Path) -> None:
    old = {
        "messages": [{"role": "user", "content": "Hi"}],
        "demo_output": "Hello",
        "tags": ["greeting"],
        "checks": [
            {"identifier": "correctness", "params": {"reference": "Hello"}},
            {"identifier": "conformity", "params": {"rules": ["Be polite", "Be brief"]}},
        ],
        "notes": "x",
    }
    header = "user_message,bot_message,tag_1,expected_output,rule_1,rule_2,notes"
    table = f"{header}\nHi,Hello,greeting,Hello,Be polite,Be brief,x\n"
    [first], [second] = cases(read(tmp_path, [old])), cases(read(tmp_path, table, "scenarios.csv"))
    assert first == second
    assert first["vars"] == {"notes": "x"}
