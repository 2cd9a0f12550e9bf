"""What `import` writes runs at once: the commands that it prints work as printed."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.cli.conftest import Program

POOL = """
description: The pool
prompts: ['Answer in {{language}}: {{question}}']
providers:
  - openai:gpt-4.1
  - echo
  - id: https://bot.example/chat
    label: bot
    config: {headers: {Authorization: Bearer sk-secret}, body: {q: '{{prompt}}'}, transformResponse: json.text}
defaultTest: {assert: [{type: icontains, value: answer}]}
tests:
  - vars: {question: When?, language: [en, de]}
    assert: [{type: latency, threshold: 1000}, {type: python, value: 'True'}]
  - vars: {question: Who?, language: en, context: The pool.}
    assert: [{type: llm-rubric, value: Is polite.}, {type: context-faithfulness, threshold: 0.9}]
  - vars: {question: Why?, language: en}
    threshold: 0.5
    assert: [{type: contains, value: a, weight: 2}, {type: not-regex, value: 'x$'}]
"""
RESULT: dict[str, Any] = {
    "testIdx": 0,
    "promptIdx": 0,
    "provider": {"id": "echo"},
    "vars": {"q": "Q"},
    "prompt": {"raw": "Say Q"},
    "response": {"output": "A"},
    "latencyMs": 1,
    "cost": 0,
    "score": 0.5,
    "success": False,
    "failureReason": 1,
    "gradingResult": {"componentResults": [{"score": 1, "assertion": {"type": "contains", "value": "A"}}]},
    "testCase": {"assert": [{"type": "contains", "value": "A"}]},
}
GOLDEN = {"input": "Q", "actual_output": "A", "retrieval_context": ["c"]}
RUN = {
    "testCases": [
        {
            "input": "Q",
            "actualOutput": "A",
            "retrievalContext": ["c"],
            "metricsData": [{"name": "Faithfulness", "score": 0.5, "threshold": 0.7}],
        }
    ]
}
EVAL = {
    "eval": {
        "testing_criteria": [
            {
                "type": "string_check",
                "name": "exact",
                "input": "{{sample.output_text}}",
                "reference": "{{item.a}}",
                "operation": "eq",
            },
            {"type": "score_model", "name": "tone", "model": "m", "input": [{"role": "user", "content": "{{item.a}}"}]},
        ]
    },
    "rows": [{"item": {"q": "Q", "a": "b"}, "sample": {"output_text": "b"}}],
}
SAMPLE = {"input": "Spain", "ideal": "Madrid"}
TRACE = {"id": "t", "name": "bot", "input": "Q", "output": "A", "helpful": [0.5], "totalCost": 0.1}
EXAMPLE = {"id": "e", "inputs": {"question": "Q"}, "outputs": {"answer": "A"}}
SPAN = {"input": "Q", "output": "A", "expected": "B", "scores": {"right": 0.5}}
HARNESS = {
    "doc_id": 0,
    "doc": {"q": "Q"},
    "target": "A",
    "arguments": [["Q", {"until": []}]],
    "resps": [["A"]],
    "filtered_resps": ["A"],
    "filter": "none",
    "metrics": ["exact_match"],
    "exact_match": 1.0,
}
PHOENIX_CSV = "example_id,input,reference_output,output,annotation_exact_score\nx,Q,R,A,0.5\n"
AZURE = {"inputs.query": "Q", "outputs.response": "A", "outputs.f1_score.f1_score": 0.5, "line_number": 0}
MLFLOW = {"inputs": {"question": "Q"}, "expectations": {"expected_response": "A"}}
GISKARD = {
    "interactions": [
        {
            "input": {"messages": [{"role": "user", "content": "Q"}]},
            "checks": [{"identifier": "hub_correctness", "override_spec": {"reference": "R"}}],
        }
    ]
}
RAGAS = {"user_input": "Q", "response": "A", "retrieved_contexts": ["c"], "faithfulness": 0.5}

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Q", "gen_ai.completion": "A"}
OTLP_SPAN = {
    "traceId": "a",
    "spanId": "b",
    "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in CHAT.items()],
}
TRACES = {"resourceSpans": [{"scopeSpans": [{"spans": [OTLP_SPAN]}]}]}


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        ("promptfoo", "pool.yaml", POOL),
        ("promptfoo", "results.json", json.dumps({"evalId": "e", "results": {"version": 3, "results": [RESULT]}})),
        ("deepeval", "goldens.json", json.dumps([GOLDEN, {"input": "no answer"}])),
        ("deepeval", "run.json", json.dumps(RUN)),
        ("openai-evals", "archive.json", json.dumps(EVAL)),
        ("openai-evals", "samples.jsonl", json.dumps(SAMPLE)),
        ("langfuse", "traces.json", json.dumps([TRACE, {**TRACE, "output": None}])),
        ("langsmith", "examples.jsonl", json.dumps(EXAMPLE)),
        ("braintrust", "experiment.json", json.dumps([SPAN])),
        ("phoenix", "experiment.csv", PHOENIX_CSV),
        ("azure-ai", "rows.jsonl", json.dumps(AZURE)),
        ("mlflow", "records.json", json.dumps([MLFLOW])),
        ("giskard", "scenarios.json", json.dumps([GISKARD])),
        ("ragas", "result.jsonl", json.dumps(RAGAS)),
        ("lm-eval", "samples_sums_2026-01-02T03-04-05.6.jsonl", json.dumps(HARNESS)),
        ("traces", "spans.jsonl", json.dumps(TRACES)),
        ("govuk", "outputs.jsonl", json.dumps({"input": "Q", "output": {"message": "A", "sources": []}})),
    ],
)
def test_the_printed_commands_work_as_printed(program: Program, kind: str, name: str, content: str) -> None:
    (program.folder / name).write_text(content, encoding="utf-8")
    done = program("import", kind, name)
    assert (done.returncode, done.stderr) == (0, "")
    commands = [line.partition("   (")[0] for line in done.stdout.splitlines() if line.startswith("next ")]
    commands = [line for line in commands if " FILE " not in line]
    assert commands
    for line in commands:
        checked = program(*shlex.split(line)[4:])
        assert (checked.returncode, checked.stderr) == (0, ""), line
        assert "all is well; nothing was sent" in checked.stdout
    again = program("import", kind, name)
    assert again.returncode == 2
    assert "choose another name: --name NAME" in again.stderr
    assert program("import", kind, name, "--name", "other").returncode == 0
    assert not list(program.folder.rglob(".import-*"))


GRADED = """
prompts: ['{{question}}']
providers: [echo]
defaultTest:
  options: {provider: {id: 'openai:chat:theirs', config: {apiBaseUrl: 'http://their.example/v1', apiKey: sk-secret}}}
tests: [{vars: {question: When?}, assert: [{type: llm-rubric, value: Is polite.}]}]
"""


def test_a_judge_of_an_import_is_a_file_of_which_another_judge_takes_nothing(program: Program) -> None:
    (program.folder / "pool.yaml").write_text(GRADED, encoding="utf-8")
    done = program("import", "promptfoo", "pool.yaml")
    assert "wrote conf/judge/pool_judge.yaml" in done.stdout
    printed = next(line for line in done.stdout.splitlines() if line.startswith("next ")).partition("   (")[0]
    own = program(*shlex.split(printed)[4:])
    assert "sends to  http://their.example/v1 (no key): judge pool_judge:theirs" in own.stdout
    for judge in ("vllm", "openai"):
        other = program("check", "experiment=pool", f"judge={judge}", "judge.model=mine", "judge.api_key_env=null")
        assert (other.returncode, other.stderr) == (0, "")
        assert "their.example" not in other.stdout
        assert f"judge {judge}:mine" in other.stdout


def test_a_tiamat_test_gets_its_name_and_an_experiment(program: Program) -> None:
    files = {
        "data.json": {"name": "Lessons", "data": [{"input": "Why?", "actual_output": "So."}]},
        "tone.json": {"name": "Tone", "metric_description": "Is it kind?", "score": {"type": "Boolean"}},
        "test.json": {"datasets": "data.json", "metrics": ["tone.json"]},
    }
    for name, value in files.items():
        (program.folder / name).write_text(json.dumps(value), encoding="utf-8")
    done = program("import", "tiamat", "test.json", "--name", "tutor")
    assert "wrote conf/experiment/tutor.yaml" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("next ")).partition("   (")[0]
    checked = program(*shlex.split(line)[4:])
    assert (checked.returncode, checked.stderr) == (0, "")


def test_an_import_tells_what_it_took_and_left(program: Program) -> None:
    (program.folder / "pool.yaml").write_text(POOL, encoding="utf-8")
    done = program("import", "promptfoo", "pool.yaml", COLUMNS="100")
    lines = {
        line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.startswith(" ") and line.strip()
    }
    assert (lines["providers"], lines["cases"], lines["asserts"]) == (["3", "3", "0"], ["4", "4", "0"], ["7", "6", "1"])
    assert "assert python, pool.yaml:13: " in done.stdout
    assert "sk-secret" not in done.stdout
    assert "POOL_BOT_AUTHORIZATION" in done.stdout
    written = "".join(path.read_text(encoding="utf-8") for path in program.folder.glob("[cdp]*/**/*.*"))
    assert "sk-secret" not in written


@pytest.mark.slow
def test_old_and_new_scores_stand_side_by_side(program: Program) -> None:
    text = json.dumps({"evalId": "e", "results": {"version": 3, "results": [RESULT]}})
    (program.folder / "old.json").write_text(text, encoding="utf-8")
    assert program("import", "promptfoo", "old.json").returncode == 0
    assert program("experiment=old_echo_1").returncode == 0
    rows = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    means = {row["metric"]: row["value"] for row in rows["rows"] if row["statistic"] == "mean" and row["tag"] is None}
    assert means == {"contains": 1.0, "old_score": 0.5, "old_passed": 0.0, "old_contains": 1.0}


def test_nothing_is_written_where_anything_is_wrong(program: Program) -> None:
    (program.folder / "goldens.jsonl").write_text(json.dumps(GOLDEN) + '\n{"input": ')
    done = program("import", "deepeval", "goldens.jsonl")
    assert done.returncode == 2
    assert "goldens.jsonl:2: broken JSON" in done.stderr
    assert [path.name for path in program.folder.iterdir()] == ["goldens.jsonl"]
    assert program("import", "deepeval", "goldens.jsonl", "--name", "No!").returncode == 2
    assert program("import", "deepeval", "nowhere.json").returncode == 2


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("langfuse_traces.jsonl", "langfuse"),
        ("my inspect.json", "inspect"),
        ("inspect2.json", "inspect"),
        ("promptfooconfig.yaml", "promptfoo"),
        ("LM_Eval results.json", "lm-eval"),
        ("inspection_2026.json", None),
        ("reinspect.json", None),
        ("mlflowers.csv", None),
    ],
)
def test_a_file_is_of_the_tool_that_is_a_whole_word_of_its_name(program: Program, name: str, kind: str | None) -> None:
    (program.folder / name).write_text("{}", encoding="utf-8")
    done = program("import", name)
    assert done.returncode == 2
    if kind:
        assert f"hint: write python -m evalflow import {kind} " in done.stderr
    else:
        assert "hint: one of azure-ai, " in done.stderr
