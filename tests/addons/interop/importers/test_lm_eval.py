"""Samples and results of lm-evaluation-harness."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.lm_eval import read_lm_eval
from evalflow.errors import UserError
from tests.addons.interop.importers.conftest import counts

DATE = "2026-01-02T03-04-05.678901"
CHOICE: dict[str, Any] = {
    "doc_id": 3,
    "doc": {"q": "Capital of Spain?", "choices": ["Paris", "Madrid"]},
    "target": "1",
    "arguments": {
        "gen_args_0": {"arg_0": "Q: Capital of Spain?\nA:", "arg_1": " Paris"},
        "gen_args_1": {"arg_0": "Q: Capital of Spain?\nA:", "arg_1": " Madrid"},
    },
    "resps": [[["-3.5", "False"]], [["-0.5", "True"]]],
    "filtered_resps": [["-3.5", "False"], ["-0.5", "True"]],
    "filter": "none",
    "metrics": ["acc", "acc_norm"],
    "doc_hash": "x",
    "acc": 1.0,
    "acc_norm": 0.0,
}
TEXT: dict[str, Any] = {
    "doc_id": 0,
    "doc": {"question": "1+1?"},
    "target": "2",
    "filter": "strict-match",
    "metrics": ["exact_match"],
    "arguments": {"gen_args_0": {"arg_0": "Q: 1+1?", "arg_1": {"until": ["\n"]}}},
    "resps": [["It is 2."]],
    "filtered_resps": ["2"],
    "exact_match": 1.0,
}
ROLLING = {
    "doc_id": 0,
    "doc": {"page": "x"},
    "target": "x",
    "arguments": [["x"]],
    "resps": [["-4.0"]],
    "filtered_resps": ["-4.0"],
    "word_perplexity": [-4.0, 1],
    "bits_per_byte": 0.5,
}


def write(folder: Path, samples: dict[str, list[Any]], results: Any = None) -> Path:
    for task, rows in samples.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"samples_{task}_{DATE}.jsonl").write_text(text, encoding="utf-8")
    path = folder / f"results_{DATE}.json"
    if results is not None:
        path.write_text(json.dumps(results), encoding="utf-8")
    return path


def read(path: Path) -> ImportedConfig:
    scratch = Path(mkdtemp(dir=path.parent))
    found = read_lm_eval(ImportSource(path, "old", scratch))
    found.ledger.expect_balanced()
    return found


def cases(found: ImportedConfig, key: str = "old") -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data[f"{key}.jsonl"].read_text(encoding="utf-8").splitlines()]


def test_a_choice_is_the_likeliest_continuation(tmp_path: Path) -> None:
    write(tmp_path, {"capitals": [CHOICE]})
    found = read(tmp_path / f"samples_capitals_{DATE}.jsonl")
    assert cases(found) == [
        {
            "id": "3",
            "group": "3",
            "question": "Q: Capital of Spain?\nA:",
            "answer": "Madrid",
            "reference": "Madrid",
            "vars": {
                **CHOICE["doc"],
                "options": ["Paris", "Madrid"],
                **{name: CHOICE[name] for name in ("resps", "filtered_resps", "doc_hash") if name in CHOICE},
            },
            "lm_eval": {"acc": 1.0, "acc_norm": 0.0},
        }
    ]
    assert counts(found) == {"tasks": (1, 1, 0), "cases": (1, 1, 0), "scores": (2, 2, 0)}
    assert found.experiments["old"].generate is False


def test_filters_are_cases_of_one_group(tmp_path: Path) -> None:
    chat = json.dumps([{"role": "user", "content": "Q: 1+1?"}])
    loose = {**TEXT, "filter": "loose", "filtered_resps": ["It is 2."], "arguments": [[chat, {}]]}
    write(tmp_path, {"sums": [TEXT, loose]})
    first, second = cases(read(tmp_path / f"samples_sums_{DATE}.jsonl"))
    assert (first["group"], second["group"], first["tags"]) == ("0", "0", ["strict-match"])
    assert (first["answer"], first["metadata"], first["reference"]) == ("2", {"response": "It is 2."}, "2")
    assert (first["lm_eval"], second["lm_eval"]) == ({"exact_match_strict_match": 1.0}, {"exact_match_loose": 1.0})
    assert second["messages"] == [{"role": "user", "content": "Q: 1+1?"}]
    assert "metadata" not in second


def test_further_answers_to_one_prompt_are_listed(tmp_path: Path) -> None:
    write(tmp_path, {"sums": [{**TEXT, "filtered_resps": [["2", "3", "2"]]}]})
    found = read(tmp_path / f"samples_sums_{DATE}.jsonl")
    assert cases(found)[0]["answer"] == "2"
    assert counts(found)["answers"] == (3, 1, 2)
    assert any("2 more answers" in one.what for one in found.ledger.left_out)


def test_several_targets_are_several_references(tmp_path: Path) -> None:
    write(tmp_path, {"sums": [{**TEXT, "target": ["4", "four"]}, {**TEXT, "doc_id": 9, "target": {"text": ["4"]}}]})
    found = read(tmp_path / f"samples_sums_{DATE}.jsonl")
    first, second = cases(found)
    assert first["reference"] == ["4", "four"]
    assert (second["vars"]["target"], "reference" in second) == ({"text": ["4"]}, False)
    assert any(one.what == "target" for one in found.ledger.left_out)


def test_results_lead_to_the_samples_of_their_tasks(tmp_path: Path) -> None:
    better = {"capitals": {"acc": True, "acc_norm": False}}
    results = {"results": {"capitals": {"acc,none": 1}, "sums": {}, "all": {}}, "higher_is_better": better}
    write(tmp_path, {"capitals": [CHOICE], "sums": [TEXT]}, results)
    for path in (tmp_path / f"results_{DATE}.json", tmp_path):
        found = read(path)
        assert list(found.datasets) == ["old_capitals", "old_sums"]
        assert found.metrics["old_capitals_acc_norm"]["direction"] == "lower_is_better"
        assert found.metrics["old_capitals_acc"]["direction"] == "higher_is_better"
        assert counts(found)["tasks"] == (3, 2, 1)


def test_likelihoods_of_one_text_are_no_answers(tmp_path: Path) -> None:
    one = {**CHOICE, "arguments": [["The sea is", " blue"]], "filtered_resps": [[-0.5, True]], "target": "blue"}
    write(tmp_path, {"last": [one], "pages": [ROLLING]})
    found = read(tmp_path / f"samples_last_{DATE}.jsonl")
    assert "answer" not in cases(found)[0]
    found = read(tmp_path / f"samples_pages_{DATE}.jsonl")
    assert "answer" not in cases(found)[0]
    assert cases(found)[0]["lm_eval"] == {"bits_per_byte": 0.5}
    assert found.metrics["old_bits_per_byte"]["direction"] == "lower_is_better"
    assert "lower is taken as better for bits_per_byte: else set `direction` in conf/metric/" in found.notes
    assert (counts(found)["scores"], found.experiments["old"].generate) == ((2, 1, 1), False)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (f"samples_x_{DATE}.jsonl", "", "the file is empty"),
        (f"samples_x_{DATE}.jsonl", json.dumps(TEXT)[:-9], "broken JSON"),
        (f"samples_x_{DATE}.jsonl", '{"a": 1}', "it is not a sample"),
        (f"results_{DATE}.json", '{"results": {"x": {}}}', "only means"),
        (f"results_{DATE}.json", '{"results": {"x"', "broken JSON"),
        (f"results_{DATE}.json", "[1]", "not a results_DATE.json"),
        ("results.json", '{"results": {"x": {}}}', "only means"),
        ("samples.txt", "x", "unknown kind of file"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        read(tmp_path / name)


def test_folders_and_encodings_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="0 files results_DATE"):
        read(tmp_path)
    path = tmp_path / f"samples_x_{DATE}.jsonl"
    path.write_bytes(json.dumps(TEXT).encode("utf-16"))
    with pytest.raises(UserError, match="UTF-16"):
        read(path)
    with pytest.raises(UserError, match="no such file"):
        read(tmp_path / "nothing.jsonl")
