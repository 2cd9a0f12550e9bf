"""OpenAI's open-source registry of evals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.openai_evals import read_openai_evals
from evalflow.errors import UserError
from evalflow.values.jsonvalues import as_map
from tests.addons.interop.importers.conftest import counts

BASIC = "evals.elsuite.basic"
GRADED = "evals.elsuite.modelgraded.classify:ModelBasedClassify"
SAMPLES = [
    {
        "input": [{"role": "system", "content": "Capital?"}, {"role": "user", "content": "France"}],
        "ideal": ["Paris", "paris"],
    },
    {"input": "Spain", "ideal": "Madrid", "level": 1},
    {"input": "Peru"},
]


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    for name in ("evals", "data/own", "modelgraded", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data/own/samples.jsonl").write_text("\n".join(map(json.dumps, SAMPLES)))
    return tmp_path


def read(registry: Path, evals: dict[str, tuple[str, dict[str, Any]]]) -> ImportedConfig:
    declared = {
        name: {"class": kind, "args": {"samples_jsonl": "own/samples.jsonl", **args}}
        for name, (kind, args) in evals.items()
    }
    (registry / "evals/own.yaml").write_text(json.dumps({"own": {"id": "own.v0"}, **declared}))
    found = read_openai_evals(ImportSource(registry / "evals/own.yaml", "old", registry / "scratch"))
    found.ledger.expect_balanced()
    return found


def rows(found: ImportedConfig, name: str = "old") -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data[f"{name}.jsonl"].read_text(encoding="utf-8").splitlines()]


def test_match_and_includes_are_rules(registry: Path) -> None:
    found = read(registry, {"a": (f"{BASIC}.match:Match", {}), "b": (f"{BASIC}.includes:Includes", {})})
    first, second = rows(found)
    assert first["messages"][0]["role"] == "system"
    assert first["reference"] == ["Paris", "paris"]
    assert first["checks"][0]["params"]["rules"][1] == {"op": "starts_with", "value": "paris", "normalize": None}
    assert second["vars"] == {"level": 1}
    assert rows(found, "old_2")[1]["checks"][0]["params"]["rules"][0]["op"] == "contains"
    assert counts(found) == {"evals": (2, 2, 0), "graders": (2, 2, 0), "cases": (6, 4, 2), "columns": (4, 3, 1)}


def test_modelgraded_is_a_rubric(registry: Path) -> None:
    spec = {
        "joke": {
            "prompt": "Funny? {{1 to 5}} {input} {completion} {level}",
            "choice_strings": "135",
            "choice_scores": "from_strings",
        }
    }
    (registry / "modelgraded/joke.yaml").write_text(json.dumps(spec))
    found = read(registry, {"a": (GRADED, {"modelgraded_spec": "joke"})})
    metric = found.metrics["old"]
    assert as_map(metric["scale"])["values"] == {"1": 0.0, "3": 0.5, "5": 1.0}
    assert metric["needs"] == ["question", "answer", "vars"]
    assert '{{ answer | fenced("completion") }}' in found.prompts[str(metric["prompt"])]
    assert len(rows(found)) == 3


def test_samples_alone_are_matched(registry: Path) -> None:
    path = registry / "data/own/samples.jsonl"
    found = read_openai_evals(ImportSource(path, "old", registry / "scratch"))
    assert counts(found)["cases"] == (3, 2, 1)
    assert "match is assumed" in found.notes[0]


@pytest.mark.parametrize(
    ("kind", "args", "said"),
    [
        ("own.module:Own", {}, "its class Own is a program"),
        (GRADED, {"modelgraded_spec": "fact"}, "is not in the folder"),
        (GRADED, {"modelgraded_spec": "../../secret"}, "is not in the folder"),
    ],
)
def test_samples_are_of_use_without_their_grader(registry: Path, kind: str, args: dict[str, Any], said: str) -> None:
    found = read(registry, {"a": (kind, args)})
    assert len(rows(found)) == 3
    assert counts(found)["graders"] == (1, 0, 1)
    assert said in found.ledger.left_out[0].reason
    assert found.experiments["old"].metrics == ["relevance"]


@pytest.mark.parametrize(
    ("kind", "args", "said"),
    [
        (f"{BASIC}.match:Match", {"samples_jsonl": "nowhere.jsonl"}, "which does not exist"),
        (f"{BASIC}.match:Match", {"samples_jsonl": "/etc/passwd"}, "is outside of"),
        (f"{BASIC}.match:Match", {"samples_jsonl": None}, "it names no samples_jsonl"),
    ],
)
def test_what_leads_nowhere_is_refused_in_words(registry: Path, kind: str, args: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(registry, {"a": (kind, args)})


def test_each_key_of_a_sample_is_kept_or_listed_and_broken_samples_are_listed(registry: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://pool.example/map.png"}}
    chat = [
        {"role": "system", "name": "example_user", "content": "2+2"},
        {"role": "system", "name": "example_assistant", "content": "4"},
        {"role": "system", "content": [{"type": "text", "text": "Where is this?"}, picture]},
    ]
    samples = [
        json.dumps({"id": "map", "input": chat, "ideal": "Pool", "source": {"page": 4}}),
        '{"input": "half',
        json.dumps({"input": "3+3", "ideal": 6}),
        json.dumps({"input": [{"role": "user", "content": 7}], "ideal": "7"}),
        json.dumps({"input": [], "ideal": "7"}),
    ]
    (registry / "data/own/samples.jsonl").write_text("\n".join(samples))
    found = read(registry, {"a": (f"{BASIC}.match:Match", {"num_few_shot": 2})})
    [case] = rows(found)
    assert (case["id"], case["vars"]) == ("map", {"source": {"page": 4}})
    assert [turn["role"] for turn in case["messages"]] == ["user", "assistant", "user"]
    assert case["messages"][2]["parts"][1]["type"] == "image_url"
    assert counts(found)["cases"] == (5, 1, 4)
    listed = {one.what: one.reason for one in found.ledger.left_out}
    assert "column a.args.num_few_shot" in listed
    reasons = " ".join(one.reason for one in found.ledger.left_out)
    for said in ("broken JSON", "its ideal is a number (6), not text", "not a chat", "no `input` of a user"):
        assert said in reasons


def test_descriptions_beside_the_names_of_evals_are_theirs(registry: Path) -> None:
    names = {"own": {"id": "own.dev.v0", "description": "Capitals of countries", "metrics": ["accuracy"]}}
    args = {"samples_jsonl": "own/samples.jsonl"}
    names["own.dev.v0"] = {"class": f"{BASIC}.match:Match", "args": args}
    (registry / "evals/own.yaml").write_text(json.dumps(names))
    found = read_openai_evals(ImportSource(registry / "evals/own.yaml", "old", registry / "scratch"))
    assert found.datasets["old"]["description"] == "Capitals of countries"
    assert "column own.metrics" in [one.what for one in found.ledger.left_out]


def test_the_answer_has_the_name_that_the_modelgraded_eval_gives_it(registry: Path) -> None:
    spec = {
        "fact": {
            "prompt": "{question1} {said}",
            "choice_strings": ["A", "B"],
            "choice_scores": {"A": 1, "B": 0},
            "input_outputs": {"question1": "said"},
            "eval_type": "cot_classify",
        }
    }
    (registry / "modelgraded/fact.yaml").write_text(json.dumps(spec))
    found = read(registry, {"a": (GRADED, {"modelgraded_spec": "fact"})})
    prompt = found.prompts[str(found.metrics["old"]["prompt"])]
    assert prompt == '{{ question | fenced("question1") }} {{ answer | fenced("said") }}'
    assert "column fact.eval_type" in [one.what for one in found.ledger.left_out]
    spec["fact"]["input_outputs"] = {"a": "b", "c": "d"}
    (registry / "modelgraded/fact.yaml").write_text(json.dumps(spec))
    for file in (registry / "scratch").iterdir():
        file.unlink()
    assert counts(read(registry, {"a": (GRADED, {"modelgraded_spec": "fact"})}))["graders"] == (1, 0, 1)


def test_texts_of_an_eval_that_are_not_text_are_listed(registry: Path) -> None:
    args = "args: {samples_jsonl: own/samples.jsonl"
    (registry / "evals/own.yaml").write_text(
        f"a: {{class: {BASIC}.match:Match, {args}}}}}\n"
        f"b: {{class: [{BASIC}.match:Match], {args}}}}}\n"
        f"c: {{class: {BASIC}.match:Match, description: [x], {args}}}}}\n"
        f"d: {{class: '{GRADED}', {args}, modelgraded_spec: yesno}}}}\n"
    )
    spec = "yesno: {prompt: '{input} {completion}', choice_strings: [true, no], choice_scores: {true: 1, no: 0}}\n"
    (registry / "modelgraded/yesno.yaml").write_text(spec)
    found = read_openai_evals(ImportSource(registry / "evals/own.yaml", "old", registry / "scratch"))
    found.ledger.expect_balanced()
    reasons = {one.what: one.reason for one in found.ledger.left_out if one.part in ("evals", "graders")}
    assert reasons == {
        "eval b": "its class is a list, not text",
        "eval c": "its description is a list, not text",
        "grader of d": "its choice is a boolean (true), not text",
    }
