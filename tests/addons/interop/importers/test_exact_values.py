"""No value of another tool's file becomes another one: numbers, ids, texts and labels stay as they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.interop import importing
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.nunjucks import as_text, render
from evalflow.addons.interop.importers.readers import parsed
from evalflow.addons.interop.importers.scores import score_number
from evalflow.errors import UserError

HUGE = 10**400
ANSWERED = {"role": "assistant", "content": "A"}


def imported(folder: Path, kind: str, name: str, content: Any) -> ImportedConfig:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text, encoding="utf-8", newline="")
    (folder / "scratch").mkdir()
    found = importing.reader_of(kind)(ImportSource(folder / name, "old", folder / "scratch"))
    found.ledger.expect_balanced()
    return found


def rows(found: ImportedConfig) -> list[dict[str, Any]]:
    files = [path for name, path in found.data.items() if "_labels" not in name]
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").strip().split("\n")]


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        ("braintrust", "x.json", [{"input": "Q", "output": "A", "scores": {"s": HUGE}, "metrics": {"duration": HUGE}}]),
        (
            "deepeval",
            ".latest_run_full.json",
            {"testCases": [{"input": "Q", "actualOutput": "A", "metricsData": [{"name": "s", "score": HUGE}]}]},
        ),
        (
            "inspect",
            "x.json",
            {
                "version": 2,
                "samples": [
                    {
                        "id": 1,
                        "input": "Q",
                        "output": {"choices": [{"message": ANSWERED}]},
                        "scores": {"s": {"value": HUGE}},
                    }
                ],
            },
        ),
        ("openai-evals", "x.jsonl", {"item": {"q": "Q"}, "sample": {}, "results": [{"name": "s", "score": HUGE}]}),
        (
            "promptfoo",
            "x.jsonl",
            {
                "vars": {"q": "Q"},
                "provider": {"id": "p"},
                "prompt": {"raw": "Q"},
                "response": {"output": "A"},
                "score": HUGE,
                "success": True,
            },
        ),
    ],
)
def test_a_score_that_is_too_large_is_listed(tmp_path: Path, kind: str, name: str, content: Any) -> None:
    found = imported(tmp_path, kind, name, content)
    assert [entry.what for entry in found.ledger.left_out if entry.part == "scores"] in (["score s"], ["score score"])
    assert len(rows(found)) == 1


def test_a_threshold_or_bound_that_is_too_large_is_none(tmp_path: Path) -> None:
    row = {"inputs.query": "Q", "outputs.response": "A", "outputs.g.g": 1, "outputs.g.g_threshold": HUGE}
    assert imported(tmp_path, "azure-ai", "x.jsonl", row).metrics["old_g"]["threshold"] is None


@pytest.mark.parametrize("text", ["1_000", "१", "0x1F", "1e999"])
def test_only_what_is_written_as_a_number_is_one(tmp_path: Path, text: str) -> None:
    assert score_number(text) is None
    table = f"run_type,inputs,outputs,feedback.good,total_cost\nchain,Q,A,{text},{text}\n"
    found = imported(tmp_path, "langsmith", "x.csv", table)
    assert rows(found)[0]["vars"] == {"run_type": "chain", "feedback.good": text, "total_cost": text}


def test_an_object_with_two_values_of_a_key_stays_text() -> None:
    assert parsed('{"a": "one", "a": "two"}') == '{"a": "one", "a": "two"}'
    assert parsed('{"a": 1, "a": 1}') == {"a": 1}


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = {"columns": ["inputs", "inputs", "outputs"], "data": [["one", "two", "A"]]}
    with pytest.raises(UserError, match="names a column more than once"):
        imported(tmp_path, "mlflow", "x.json", table)


def test_secrets_in_remarks_on_labels_are_never_copied(tmp_path: Path) -> None:
    label = {"name": "good", "annotator_kind": "HUMAN", "score": 1, "explanation": "of sk-abcd1234abcd1234abcd"}
    found = imported(tmp_path, "phoenix", "x.jsonl", {"input": "Q", "output": "A", "annotations": [label]})
    text = "".join(path.read_text(encoding="utf-8") for path in found.data.values())
    assert "of ***" in text
    assert "abcd1234" not in text


def test_objects_in_results_of_promptfoo_are_kept_as_json(tmp_path: Path) -> None:
    raw = [{"role": "user", "content": "Open?"}]
    result = {"vars": {"q": "Q"}, "provider": {"id": "p"}, "prompt": {"raw": raw}}
    failed = {**result, "error": {"code": 7}, "failureReason": 2}
    found = imported(
        tmp_path,
        "promptfoo",
        "x.jsonl",
        "\n".join(json.dumps(one) for one in ({**result, "response": {"output": "A"}}, failed)),
    )
    first, second = rows(found)
    assert first["messages"] == raw
    assert (first["metadata"]["prompt"], second["failure"]) == (json.dumps(raw, separators=(",", ":")), '{"code":7}')


def test_a_target_of_many_digits_is_text(tmp_path: Path) -> None:
    sample = {"doc_id": 1, "doc": {}, "target": "9" * 5000, "arguments": [["Q", " a"], ["Q", " b"]]}
    sample |= {"filtered_resps": [[-1.0, False], [-2.0, True]], "metrics": ["acc"], "acc": 1}
    assert rows(imported(tmp_path, "lm-eval", "x.jsonl", sample))[0]["reference"] == "9" * 5000


def test_true_is_not_an_id(tmp_path: Path) -> None:
    (case,) = rows(imported(tmp_path, "openai-evals", "x.jsonl", {"input": "Q", "ideal": "A", "id": True}))
    assert (case["id"], case["vars"]) == ("1", {"id": True})


def test_missing_numbers_in_printed_lists_do_not_cost_the_row(tmp_path: Path) -> None:
    table = 'user_input,response,retrieved_contexts,loss\nQ,A,"[\'x\' \'y\\\'s\'\n ""z""]","[0.5, nan]"\n'
    (case,) = rows(imported(tmp_path, "ragas", "x.csv", table))
    assert (case["contexts"], case["vars"]) == (["x", "y's", "z"], {"loss": [0.5, None]})


def test_prompts_and_tests_are_separated_by_line_ends_alone(tmp_path: Path) -> None:
    chat = json.dumps([{"role": "user", "content": "a\u2028b {{q}}"}], ensure_ascii=False)
    (tmp_path / "p.jsonl").write_text(f"{chat}\n", encoding="utf-8")
    long = "x" * 200_000
    (tmp_path / "t.csv").write_text(
        f"\ufeffq,__expected\r\n{long}\u2028y,contains: y\r\n", encoding="utf-8", newline=""
    )
    config = {"prompts": ["file://p.jsonl"], "providers": ["echo"], "tests": "t.csv"}
    (case,) = rows(imported(tmp_path, "promptfoo", "promptfooconfig.json", config))
    assert case["vars"] == {"q": f"{long}\u2028y"}
    assert json.loads(case["answer"]) == [{"role": "user", "content": f"a\u2028b {long}\u2028y"}]


def test_a_row_of_tests_with_too_few_cells_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("q,__expected\nx,contains: x\ny\n", encoding="utf-8")
    config = {"prompts": ["{{q}}"], "providers": ["echo"], "tests": "t.csv"}
    with pytest.raises(UserError, match=r"t.csv:3: the row has no cell for __expected"):
        imported(tmp_path, "promptfoo", "promptfooconfig.json", config)


@pytest.mark.parametrize("nothing", [{"q": None}, {"q": None, "r": None}])
def test_objects_of_nulls_say_nothing(tmp_path: Path, nothing: dict[str, None]) -> None:
    examples = [{"inputs": {"q": "Q"}, "outputs": nothing}, {"inputs": nothing, "outputs": {"a": "A"}}]
    found = imported(tmp_path, "langsmith", "x.json", examples)
    assert rows(found) == [{"id": "1", "question": "Q", "vars": {"q": "Q"}}]
    assert found.ledger.counts()["cases"] == (2, 1, 1)


def test_titles_of_passages_that_are_not_text_are_kept(tmp_path: Path) -> None:
    row = {"query": "Q", "response": "A", "context": {"citations": [{"content": "c", "title": 5, "id": "p"}]}}
    (case,) = rows(imported(tmp_path, "azure-ai", "x.jsonl", row))
    assert case["contexts"] == [{"title": 5, "id": "p", "text": "c", "path": "p"}]


def test_a_passage_of_a_turn_may_be_text(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A", "retrieval_context": "9-18"}]
    assert rows(imported(tmp_path, "deepeval", "x.json", [{"turns": turns}]))[0]["contexts"] == ["9-18"]


def test_objects_in_templates_are_written_as_json() -> None:
    assert as_text({"a": [1, None], "b": "é"}) == '{"a":[1,null],"b":"é"}'
    assert render("{{ x | dump }}", {"x": [True, None, 1.0, {"a": False}]}) == '[true,null,1,{"a":false}]'


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (0.5, "0.5"), (1e-5, "0.00001"), (1e-7, "1e-7"), (1e20, "1" + "0" * 20), (1e21, "1e+21"), (-0.0, "0")],
)
def test_numbers_are_written_as_javascript_writes_them(number: float, text: str) -> None:
    assert as_text(number) == text
