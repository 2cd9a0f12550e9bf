"""deepeval's goldens, conversations and runs."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.addons.interop.importers.deepeval import read_deepeval
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.errors import UserError
from evalflow.values.jsonvalues import as_map
from tests.addons.interop.importers.conftest import counts

GOLDEN: dict[str, Any] = {
    "input": "When does the pool open?",
    "actual_output": "At nine.",
    "expected_output": "At 9.",
    "retrieval_context": ["Pool: 9-18"],
    "context": ["The pool opens at 9."],
    "name": None,
    "source_file": "pool.md",
    "tools_called": [{"name": "search", "type": "FUNCTION", "inputParameters": {"q": "pool"}}],
    "expected_tools": [{"name": "search"}],
    "additional_metadata": {"lang": "en"},
    "custom_column_key_values": {"tier": "gold"},
}
CASE = {
    "question": "When does the pool open?",
    "answer": "At nine.",
    "reference": "At 9.",
    "contexts": ["Pool: 9-18"],
    "ideal_contexts": ["The pool opens at 9."],
    "actual": [{"name": "search", "arguments": {"q": "pool"}}],
    "expected": [{"name": "search"}],
    "metadata": {"lang": "en"},
    "group": "pool.md",
    "vars": {"tier": "gold"},
}


def read(folder: Path, content: Any, name: str = "goldens.json") -> ImportedConfig:
    scratch = Path(mkdtemp(dir=folder))
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    found = read_deepeval(ImportSource(path, "old", scratch))
    found.ledger.expect_balanced()
    return found


def rows(found: ImportedConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data["old.jsonl"].read_text(encoding="utf-8").splitlines()]


def run(**case: Any) -> dict[str, Any]:
    return {"testCases": [{"input": "Q", "actualOutput": "A", **case}], "conversationalTestCases": []}


def metric(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "threshold": 0.7, "score": 0.5, "success": False, **changes}


def test_goldens_are_cases(tmp_path: Path) -> None:
    found = read(tmp_path, [GOLDEN])
    assert rows(found) == [{"id": "1", **CASE}]
    assert found.experiments["old"].generate is False


def test_lines_and_csv_join_lists(tmp_path: Path) -> None:
    joined = GOLDEN | {"retrieval_context": "Pool: 9-18", "context": "The pool opens at 9."}
    assert rows(read(tmp_path, json.dumps(joined), "goldens.jsonl"))[0] == {"id": "1", **CASE}
    header = "input,actual_output,expected_output,retrieval_context,tools_called\n"
    found = read(tmp_path, header + 'Q,A,,a|b,"[{""name"": ""x""}]"\nR,,,,f;g\n', "goldens.csv")
    assert rows(found) == [
        {"id": "1", "question": "Q", "answer": "A", "contexts": ["a", "b"], "actual": [{"name": "x"}]},
        {"id": "2", "question": "R", "actual": [{"name": "f"}, {"name": "g"}]},
    ]
    assert found.experiments["old"].generate == "missing"


def test_turns_are_messages(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "A ticket"}, {"role": "assistant", "content": "Which?"}]
    found = read(
        tmp_path,
        [
            {"scenario": "Buy", "turns": turns},
            {"scenario": "x", "turns": json.dumps(turns[:1])},
            {"scenario": "none", "turns": turns[1:]},
        ],
    )
    assert [(case["messages"], case.get("answer")) for case in rows(found)] == [
        (turns[:1], "Which?"),
        (turns[:1], None),
    ]
    assert counts(found)["cases"] == (3, 2, 1)


def test_what_was_retrieved_for_a_turn_stays_with_it(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "Open?"},
        {"role": "assistant", "content": "No.", "retrieval_context": ["a"]},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Winter.", "retrieval_context": ["b"]},
    ]
    (case,) = rows(read(tmp_path, [{"scenario": "x", "turns": turns}]))
    assert [message.get("metadata") for message in case["messages"]] == [None, {"contexts": ["a"]}, None]
    assert case["contexts"] == ["b"]


def test_a_scenario_without_turns_is_one_for_a_simulated_user(tmp_path: Path) -> None:
    golden = {"scenario": "Buy a ticket", "user_description": "In a hurry", "expected_outcome": "Has one", "name": "n"}
    (case,) = rows(read(tmp_path, [golden]))
    kept = {name: case[name] for name in ("scenario", "persona", "goal")}
    assert kept == {"scenario": "Buy a ticket", "persona": "In a hurry", "goal": "Has one"}
    assert "vars" not in case


def test_a_run_has_scores_and_metrics_like_its_own(tmp_path: Path) -> None:
    scores = [
        metric("Faithfulness"),
        metric("Tone [GEval]"),
        metric("Bias", score=0.2, success=True),
        metric("Toxicity", score=None),
    ]
    found = read(tmp_path, run(retrievalContext=["c"], metricsData=scores), ".latest_run_full.json")
    [case] = rows(found)
    assert case["deepeval"] == {"faithfulness": 0.5, "tone_geval": 0.5, "bias": 0.2}
    assert counts(found)["scores"] == (4, 3, 1)
    assert counts(found)["metrics"] == (4, 3, 1)
    experiment = found.experiments["old"]
    assert as_map(experiment.more["metric"])["faithfulness_lenient"] == {"threshold": 0.7}
    assert found.metrics["old_faithfulness"]["field"] == "deepeval.faithfulness"
    assert found.metrics["old_bias"]["direction"] == "lower_is_better"
    assert "docs/g-eval.md" in found.ledger.left_out[-1].hint


@pytest.mark.parametrize(
    ("name", "scores", "direction"),
    [
        ("PII Leakage", [(1.0, 0.5, True), (0.0, 0.5, False)], "higher_is_better"),
        ("Misuse", [(1.0, 0.5, False), (0.0, 0.5, True)], "lower_is_better"),
        ("Toxicity", [(0.2, 0.5, True), (0.8, 0.5, False)], "lower_is_better"),  # until version 3
        ("Toxicity", [(0.2, 0.5, False), (0.8, 0.5, True)], "higher_is_better"),  # since version 4
        ("Bias", [(0.0, 0.0, True), (1.0, 0.0, False)], "lower_is_better"),  # strict
        ("Tone [GEval]", [(0.2, 0.5, False), (1.0, 0.5, True)], "higher_is_better"),
        ("Role Violation", [(1.0, 0.5, True), (0.0, 0.5, False)], "higher_is_better"),
        ("Non-Advice", [(1.0, 0.5, True), (0.0, 0.5, False)], "higher_is_better"),
        ("Hallucination", [(0.0, 0.5, True)], "lower_is_better"),
    ],
)
def test_scores_pass_exactly_if_deepeval_let_them_pass(
    tmp_path: Path, name: str, scores: list[tuple[float, float, bool]], direction: str
) -> None:
    made = [metric(name, score=score, threshold=limit, success=success) for score, limit, success in scores]
    found = read(tmp_path, {"testCases": [{"input": "Q", "actualOutput": "A", "metricsData": [one]} for one in made]})
    [option] = found.metrics.values()
    assert (option["direction"], option["threshold"]) == (direction, scores[0][1])
    assert not [one for one in found.ledger.left_out if one.part == "thresholds"]


@pytest.mark.parametrize("name", ["turns", "conversationalTestCases"])
def test_conversations_of_a_run_are_scored_alike(tmp_path: Path, name: str) -> None:
    turns = [{"role": "user", "content": "Q", "order": 0}, {"role": "assistant", "content": "A", "order": 1}]
    judged = metric("Turn Relevancy", score=0.9, threshold=0.5, success=True)
    case = {"name": "c", "success": False, "metricsData": [judged], "turns": turns}
    found = read(tmp_path, [case] if name == "turns" else {"testCases": [], name: [case], "hyperparameters": {"a": 1}})
    [row] = rows(found)
    assert (row["answer"], row["deepeval"], row["vars"]["success"]) == ("A", {"turn_relevancy": 0.9}, False)
    assert found.metrics["old_turn_relevancy"]["threshold"] == 0.5
    listed = [one.what for one in found.ledger.left_out if one.part == "columns"]
    assert listed == ([] if name == "turns" else ["column hyperparameters"])


def test_verdicts_that_contradict_each_other_leave_no_threshold(tmp_path: Path) -> None:
    made = [metric("Faithfulness", score=0.6, threshold=0.5, success=one) for one in (True, False)]
    found = read(tmp_path, {"testCases": [{"input": "Q", "metricsData": [one]} for one in made]})
    assert found.metrics["old_faithfulness"]["threshold"] is None
    [entry] = [one for one in found.ledger.left_out if one.part == "thresholds"]
    assert "(score 0.6, threshold 0.5, success false)" in entry.where
    unknown = read(tmp_path, run(metricsData=[{"name": "Toxicity", "score": 0.4, "threshold": 0.5}]), "run.json")
    assert unknown.metrics["old_toxicity"]["threshold"] is None  # its direction depends on the version


def test_turns_without_a_text_keep_their_calls(tmp_path: Path) -> None:
    call = {"name": "price", "input_parameters": {"item": "pass"}, "output": 84}
    turns = [
        {"role": "user", "content": "What does it cost?"},
        {"role": "assistant", "content": None, "tools_called": [call]},
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "84 euros."},
    ]
    [case] = rows(read(tmp_path, [{"scenario": None, "turns": turns}]))
    asked = case["messages"][1]
    assert asked["tool_calls"][0]["function"] == {"name": "price", "arguments": '{"item": "pass"}'}
    assert (asked["content"], asked["metadata"]) == ("", {"tools_called": [call]})
    assert case["actual"] == [{"name": "price", "arguments": {"item": "pass"}}]
    silent = [turns[0], {"role": "assistant", "content": None}, *turns[2:]]
    found = read(tmp_path, [{"turns": silent}], "silent.json")
    assert [one["role"] for one in rows(found)[0]["messages"]] == ["user", "user"]
    assert found.ledger.counts()["messages"] == (4, 3, 1)


def test_tables_in_a_cell_are_not_cut_into_passages(tmp_path: Path) -> None:
    table = "| Plan | Price |\n| --- | --- |\n| Pro | $20 |"
    found = read(tmp_path, f'input,retrieval_context\nQ,"{table}"\nR,one|two\n', "goldens.csv")
    assert [case["contexts"] for case in rows(found)] == [[table], ["one", "two"]]
    assert any("contexts of 2 rows" in note and "JSON" in note for note in found.notes)
    passages = [
        "deepeval_source=a.md,deepeval_context=Text",
        {"context": "x", "source": "y"},
        {"text": "z", "source": ""},
    ]
    marked = read(tmp_path, [{"input": "Q", "retrieval_context": passages}], "marked.json")
    assert rows(marked)[0]["contexts"] == [
        {"text": "Text", "path": "a.md"},
        {"text": "x", "path": "y"},
        {"text": "z"},
    ]


def test_keys_that_are_not_deepeval_s_are_kept(tmp_path: Path) -> None:
    golden = {"id": "g-1", "input": "Hours?", "expected": "9 to 5", "category": "faq", "retrieval_context": []}
    assert rows(read(tmp_path, [golden])) == [
        {"id": "g-1", "question": "Hours?", "reference": "9 to 5", "contexts": [], "vars": {"category": "faq"}}
    ]


def test_a_metric_without_its_fields_is_listed(tmp_path: Path) -> None:
    found = read(tmp_path, run(metricsData=[metric("Contextual Recall")]))
    [entry] = found.ledger.left_out
    assert entry.reason == "no case has contexts, reference"


@pytest.mark.slow
def test_a_large_file_needs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"input": f"Q{n}" * 20, "x": "y" * 30_000}) + "\n" for n in range(360)))
    (tmp_path / "scratch").mkdir()
    tracemalloc.start()
    try:
        read_deepeval(ImportSource(path, "old", tmp_path / "scratch"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 10_000_000 > 4 * peak


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("goldens.json", "", "the file is empty"),
        ("goldens.json", "[]", "the file has no rows"),
        ("goldens.json", json.dumps([GOLDEN])[:-20], "broken JSON"),
        ("goldens.json", '{"a": 1}', "it is not a run of deepeval"),
        ("goldens.json", '{"testRunLink": "https://app"}', "only a link to a run"),
        ("goldens.json", [{"output": "x"}], "`input` is not text"),
        ("goldens.jsonl", '{"input": "a"}\n{"input": ', "goldens.jsonl:2: broken JSON"),
        ("goldens.csv", 'input\n"open', "csv"),
        ("goldens.xlsx", "x", "unknown kind of file"),
        ("run.json", json.dumps(run())[:-40], "broken JSON"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, name: str, content: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(tmp_path, content, name)


def test_other_encodings_are_refused_in_words(tmp_path: Path) -> None:
    for name in ("g.json", "g.jsonl", "g.csv"):
        (tmp_path / name).write_bytes('[{"input": "é"}]'.encode("utf-16"))
        with pytest.raises(UserError, match=r"UTF|broken JSON"):
            read_deepeval(ImportSource(tmp_path / name, "old", Path(mkdtemp(dir=tmp_path))))


def test_a_conversation_whose_turns_do_not_alternate_can_be_run(tmp_path: Path) -> None:
    said = [
        ("user", "Hello?"),
        ("assistant", "Hello."),
        ("assistant", "Well?"),
        ("user", "When?"),
        ("assistant", "At 9."),
    ]
    turns = [{"role": role, "content": text} for role, text in said]
    found = read(tmp_path, [{"scenario": "s", "turns": turns}])
    assert found.datasets["old"]["allow_irregular"] is True
    assert "allow_irregular" not in read(tmp_path, [{"scenario": "s", "turns": turns[:1] + turns[4:]}]).datasets["old"]


def test_a_cell_that_no_parser_can_nest_is_a_text(tmp_path: Path) -> None:
    deep = "[" * 100_000
    row = json.dumps({"input": "Q", "retrieval_context": deep})
    assert rows(read(tmp_path, row, "goldens.jsonl"))[0]["contexts"] == [deep]
