"""Archives of OpenAI's evals API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.openai_evals import read_openai_evals
from evalflow.errors import UserError
from tests.addons.interop.importers.conftest import counts

ANSWER = "{{sample.output_text}}"
EVAL: dict[str, Any] = {
    "object": "eval",
    "name": "Tickets",
    "data_source_config": {"type": "custom"},
    "testing_criteria": [
        {"type": "string_check", "name": "exact", "input": ANSWER, "reference": "{{item.label}}", "operation": "eq"},
        {
            "type": "text_similarity",
            "name": "near",
            "evaluation_metric": "cosine",
            "pass_threshold": 0.7,
            "input": ANSWER,
            "reference": "{{ item.label }}",
        },
        {
            "type": "score_model",
            "name": "Tone",
            "model": "gpt-4.1",
            "range": [1, 5],
            "pass_threshold": 4,
            "input": [{"role": "user", "content": "{{item.text}}: {{sample.output_text}}"}],
        },
        {
            "type": "label_model",
            "name": "ok",
            "model": "gpt-4.1",
            "labels": ["good", "bad"],
            "passing_labels": ["good"],
            "input": [{"role": "user", "content": {"text": ANSWER}}],
        },
        {"type": "python", "name": "code", "source": "..."},
        {"type": "string_check", "name": "odd", "input": "{{item.x}}", "reference": "a", "operation": "eq"},
    ],
}
ITEM = {"text": "My printer", "label": "Hardware"}
ROW = {"item": ITEM, "sample": {"output_text": "Hardware"}}
OUTPUT = {
    "datasource_item": ITEM,
    "status": "pass",
    "sample": {"input": [{"role": "user", "content": "Classify"}], "output": [{"role": "assistant", "content": "A"}]},
    "results": [{"name": "exact-0f8fad5b-d9cb-469f-a165-70867728950e", "score": 1.0, "passed": True}],
}


def read(path: Path) -> ImportedConfig:
    scratch = path.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    found = read_openai_evals(ImportSource(path, "old", scratch))
    found.ledger.expect_balanced()
    return found


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def rows(found: ImportedConfig, name: str = "old") -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data[f"{name}.jsonl"].read_text(encoding="utf-8").splitlines()]


def test_an_archive_has_graders_items_and_scores(tmp_path: Path) -> None:
    runs = [
        {"run": {"name": "a"}, "output_items": [OUTPUT]},
        {"run": {"name": "b"}, "output_items": {"data": [OUTPUT]}},
    ]
    found = read(written(tmp_path / "x.json", {"eval": EVAL, "rows": [ROW], "runs": runs}))
    assert counts(found)["graders"] == (6, 4, 2)
    [case] = rows(found, "old_a")
    assert (case["messages"], case["answer"], case["vars"]) == (
        [{"role": "user", "content": "Classify"}],
        "A",
        {**ITEM, "status": "pass", "results": OUTPUT["results"]},
    )
    assert case["openai"] == {"exact": 1.0}
    assert case["checks"] == [
        {"identifier": "exact", "params": {"op": "equals", "value": "Hardware", "normalize": None}},
        {"identifier": "near", "params": {"reference": "Hardware", "threshold": 0.7}},
    ]
    tone = found.metrics["old_tone"]
    assert (tone["scale"], tone["threshold"]) == ({"type": "likert", "min": 1, "max": 5}, 0.75)
    assert found.prompts[str(tone["prompt"])] == '{{ vars.text | fenced("text") }}: {{ answer | fenced("answer") }}'
    assert found.metrics["old_ok"]["scale"] == {"type": "label", "values": {"good": 1.0, "bad": 0.0}}
    assert found.metrics["old_exact_recorded"]["field"] == "openai.exact"
    assert found.judges["old_judge"]["model"] == "gpt-4.1"
    assert found.experiments["old_b"].judge == "old_judge"


def test_a_folder_joins_the_eval_with_its_items(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    written(tmp_path / "archive" / "eval.json", EVAL)
    written(tmp_path / "archive" / "data.jsonl", json.dumps(ROW) + "\n" + json.dumps({"item": {"text": "x"}}))
    found = read(tmp_path / "archive")
    assert counts(found)["checks"] == (4, 2, 2)
    assert counts(found)["cases"] == (2, 2, 0)
    assert found.experiments["old"].generate == "missing"


def test_output_items_are_answers_and_scores(tmp_path: Path) -> None:
    failed = {"datasource_item": ITEM, "sample": {"error": {"message": "overloaded"}}, "results": []}
    found = read(written(tmp_path / "x.json", {"object": "list", "data": [OUTPUT, failed]}))
    assert [case.get("answer", case.get("failure")) for case in rows(found)] == ["A", "overloaded"]
    assert found.unjudged == {"old"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", EVAL, "it has no items, only graders"),
        ("x.json", {"a": 1}, "it is not an archive"),
        ("x.json", "", "the file is empty"),
        ("x.json", json.dumps({"data": [OUTPUT]})[:-30], "broken JSON"),
        ("x.jsonl", json.dumps({"a": 1}), "it is not data of an eval"),
        ("x.jsonl", '{"item"', "x.jsonl:1: broken JSON"),
        ("x.yaml", "a: 1", "not YAML of the registry"),
        ("x.json", {"data": [1]}, "it is not an object"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, name: str, content: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(written(tmp_path / name, content))


def test_each_key_of_a_row_is_kept_or_listed_and_broken_rows_are_listed(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "book", "arguments": '{"hall": "B"}'}}
    sample = {
        "input": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Book a hall"}]},
        ],
        "output": [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "assistant", "content": "B."},
        ],
        "finish_reason": "stop",
        "usage": {"total_tokens": 31},
    }
    graded = {"name": "exact", "type": "string_check", "score": 1, "passed": True, "sample": {"model": "gpt-4.1"}}
    good = {"item": {**ITEM, "id": "t-7"}, "sample": sample, "results": [graded], "created_at": 17}
    lines = [
        json.dumps(good),
        '{"item"',
        "[1]",
        json.dumps({"item": "text"}),
        json.dumps({"item": {"n": 3}}),
        json.dumps({"item": ITEM, "sample": {"output_text": {"a": 1}}}),
    ]
    found = read(written(tmp_path / "x.jsonl", "\n".join(lines)))
    [case] = rows(found)
    assert [turn["role"] for turn in case["messages"]] == ["developer", "user"]
    assert (case["id"], case["answer"], case["finish_reason"]) == ("t-7", "B.", "stop")
    assert case["actual"] == [{"name": "book", "arguments": {"hall": "B"}}]
    kept = case["vars"]
    assert (kept["label"], kept["sample"]["usage"], kept["created_at"]) == ("Hardware", {"total_tokens": 31}, 17)
    assert kept["results"] == [graded]
    assert counts(found)["cases"] == (6, 1, 5)
    reasons = " ".join(one.reason for one in found.ledger.left_out)
    for said in ("broken JSON", "no object item or datasource_item", "it asks nothing", "output_text is an object"):
        assert said in reasons


def test_old_scores_pass_where_their_grader_let_them(tmp_path: Path) -> None:
    def output(score: float, tone: float) -> dict[str, Any]:
        results = [
            {"name": "exact", "score": score, "passed": score == 1},
            {"name": "Tone", "score": tone, "passed": tone >= 4},
        ]
        return {**OUTPUT, "results": results}

    rows_of = [output(1, 5), output(0, 3), output(1, 4)]
    found = read(written(tmp_path / "x.json", {"eval": EVAL, "runs": [{"output_items": rows_of}]}))
    assert found.metrics["old_exact_recorded"]["threshold"] == 1.0
    assert found.metrics["old_tone_recorded"]["threshold"] == 4.0


def test_keys_of_the_archive_are_listed_and_rows_without_an_answer_too(tmp_path: Path) -> None:
    archive = {
        "eval": {**EVAL, "metadata": {"team": "desk"}},
        "rows": [ROW, {"item": {"text": "My mouse"}}],
        "runs": [{"run": {"name": "june", "model": "gpt-4o"}, "output_items": [OUTPUT]}],
        "exported_by": "Ana",
    }
    found = read(written(tmp_path / "x.json", archive))
    listed = [one.what for one in found.ledger.left_out]
    for name in ("eval.metadata", "eval.data_source_config", "runs[0].run.model", "exported_by"):
        assert f"column {name}" in listed
    assert [one.reason for one in found.ledger.left_out if one.part == "cases"] == ["no run answered it"]


def test_models_and_their_settings_are_the_judge_and_other_models_are_listed(tmp_path: Path) -> None:
    def tone(name: str, model: str, **more: Any) -> dict[str, Any]:
        return {"type": "score_model", "name": name, "model": model, "input": ANSWER, **more}

    settings = {"sampling_params": {"temperature": 0.2, "seed": 3, "max_completions_tokens": 90}}
    criteria = [tone("a", "m1", **settings), tone("b", "m1", **settings), tone("c", "m2", colour="red")]
    found = read(written(tmp_path / "x.json", {"testing_criteria": criteria, "data": [ROW]}))
    judge = found.judges["old_judge"]
    assert (judge["model"], judge["temperature"]) == ("m1", 0.2)
    assert judge["parameters"] == {"seed": 3, "max_completion_tokens": 90}
    listed = {one.what: one.hint for one in found.ledger.left_out}
    assert listed["the judge m2 of grader c"] == 'write `judge: {"model": "m2"}` into conf/metric/old_c.yaml'
    assert "column testing_criteria.colour" in listed


@pytest.mark.parametrize(
    ("given", "reference", "operation", "rule"),
    [
        ("{{item.label}}", ANSWER, "eq", {"op": "equals", "value": "Hardware"}),
        (
            "{{ sample.output_json.kind[0] }}",
            "{{item.label}}",
            "ilike",
            {"op": "jsonpath", "path": "$.kind[0]", "rule": {"op": "contains", "case_sensitive": False}},
        ),
        ("{{item.label}}", ANSWER, "like", None),
        (ANSWER, ANSWER, "eq", None),
    ],
)
def test_string_checks_are_rules_about_the_answer_or_its_json(
    tmp_path: Path, given: str, reference: str, operation: str, rule: Any
) -> None:
    one = {"type": "string_check", "name": "n", "input": given, "reference": reference, "operation": operation}
    found = read(written(tmp_path / "x.json", {"testing_criteria": [one], "data": [ROW]}))
    params = rows(found)[0].get("checks", [{"params": None}])[0]["params"]
    assert (params is None) == (rule is None)
    if rule:
        inner = params.get("rule", {})
        assert {**params, **({"rule": {**inner, **rule["rule"]}} if "rule" in rule else rule)} == params


def test_what_the_answer_is_compared_with_is_no_part_of_the_question(tmp_path: Path) -> None:
    one = {"type": "string_check", "name": "n", "input": ANSWER, "reference": "{{item['label']}}", "operation": "eq"}
    item = {"kind": "Sort it: ", "ticket": "My mouse", "label": "Hardware"}
    found = read(written(tmp_path / "x.json", {"testing_criteria": [one], "data": [{"item": item}]}))
    assert rows(found)[0]["question"] == "Sort it:  My mouse"


def test_texts_in_parts_are_a_prompt_and_images_are_not(tmp_path: Path) -> None:
    def grader(*parts: Any) -> dict[str, Any]:
        content = [{"role": "user", "content": [*parts]}]
        return {"type": "score_model", "name": f"n{len(parts)}", "model": "m", "input": content}

    text = {"type": "input_text", "text": ANSWER}
    criteria = [grader(text), grader(text, {"type": "input_image", "image_url": "x"})]
    found = read(written(tmp_path / "x.json", {"testing_criteria": criteria, "data": [ROW]}))
    assert counts(found)["graders"] == (2, 1, 1)
    assert found.prompts[str(found.metrics["old_n1"]["prompt"])].startswith('{{ answer | fenced("answer") }}')


def test_names_that_are_not_text_are_listed_and_not_written(tmp_path: Path) -> None:
    grader = {**EVAL["testing_criteria"][0], "name": ["x"]}
    runs = [{"run": {"name": {"n": number}}, "output_items": [OUTPUT]} for number in range(2)]
    evaluated = {**EVAL, "name": 7, "testing_criteria": [grader]}
    found = read(written(tmp_path / "x.json", {"eval": evaluated, "rows": [ROW], "runs": runs}))
    assert {"old_1.jsonl", "old_2.jsonl"} <= set(found.data)
    [left] = [one for one in found.ledger.left_out if one.part == "graders"]
    assert (left.what, left.reason) == ("grader 1", "its name is a list, not text")
    assert "7" not in [option.get("description") for option in found.datasets.values()]
