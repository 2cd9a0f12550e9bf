"""ragas' tables: samples, conversations, test sets and results, in the forms that it and pandas write."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import polars as pl
import pytest

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.ragas import read_ragas
from evalflow.errors import UserError
from tests.addons.interop.importers.conftest import counts

CONTEXTS = ['Pool: 9-18, it\'s "open"', "Gym | 8"]
SAMPLES: list[dict[str, Any]] = [
    {
        "user_input": "When does the pool open?",
        "retrieved_contexts": CONTEXTS,
        "reference_contexts": ["Opens at 9."],
        "response": "At nine.",
        "reference": "At 9.",
        "faithfulness": 0.5,
        "tone": 1.0,
    },
    {
        "user_input": "Where?",
        "retrieved_contexts": ["Hall 2"],
        "reference_contexts": None,
        "response": "Hall 2.",
        "reference": "In hall 2.",
        "faithfulness": None,
        "tone": 0.0,
    },
]
CASES = [
    {
        "id": "1",
        "question": "When does the pool open?",
        "answer": "At nine.",
        "reference": "At 9.",
        "contexts": CONTEXTS,
        "ideal_contexts": ["Opens at 9."],
        "ragas": {"faithfulness": 0.5, "tone": 1.0},
    },
    {
        "id": "2",
        "question": "Where?",
        "answer": "Hall 2.",
        "reference": "In hall 2.",
        "contexts": ["Hall 2"],
        "ragas": {"tone": 0.0},
    },
]


def read(path: Path) -> ImportedConfig:
    found = read_ragas(ImportSource(path, "old", Path(mkdtemp(dir=path.parent))))
    found.ledger.expect_balanced()
    return found


def rows(found: ImportedConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data["old.jsonl"].read_text(encoding="utf-8").splitlines()]


def lines(path: Path, *samples: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
    return path


def table(path: Path, cell: Any) -> Path:
    """CSV with an index, as pandas writes it; `cell` writes a value."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", *SAMPLES[0]])
        for number, sample in enumerate(SAMPLES):
            writer.writerow([number, *(cell(value) for value in sample.values())])
    return path


def written(folder: Path, form: str) -> Path:
    path = folder / f"table.{form.partition(' ')[0]}"
    if form == "parquet":
        missing = [{**one, "faithfulness": one["faithfulness"] or float("nan")} for one in SAMPLES]
        pl.DataFrame(missing).write_parquet(path)
    elif form == "csv of lists":
        table(path, lambda value: "" if value is None else value)
    elif form == "csv of arrays":  # NumPy writes no commas between texts
        table(path, lambda value: f"[{' '.join(map(repr, value))}]" if isinstance(value, list) else value)
    elif form == "json of columns":
        columns = {name: {str(number): one[name] for number, one in enumerate(SAMPLES)} for name in SAMPLES[0]}
        path.write_text(json.dumps(columns, separators=(",", ":")))
    elif form == "json of rows":
        path.write_text(json.dumps(SAMPLES))
    else:  # datasets calls JSON lines .json
        lines(path, *SAMPLES)
    return path


@pytest.mark.parametrize(
    "form", ["csv of lists", "csv of arrays", "parquet", "json of columns", "json of rows", "json of lines", "jsonl"]
)
def test_every_form_gives_the_same_cases(tmp_path: Path, form: str) -> None:
    found = read(written(tmp_path, form))
    assert rows(found) == CASES
    known = counts(found)
    assert known.pop("columns", (8, 7, 1)) == (8, 7, 1)  # the numbers that pandas writes before each row
    assert known == {"cases": (2, 2, 0), "scores": (4, 3, 1), "metrics": (2, 1, 1)}
    assert found.experiments["old"].metrics == ["faithfulness", "old_faithfulness", "old_tone"]


def test_conversations_have_messages_and_calls(tmp_path: Path) -> None:
    call = {"name": "weather", "args": {"city": "Rome", "day": None}}
    turns = [
        {"content": "Weather in Rome?", "type": "human"},
        {"content": "I look.", "type": "ai", "tool_calls": [call]},
        {"content": "20 C", "type": "tool"},
        {"content": "It is 20 C.", "type": "ai"},
        {"content": "And Oslo?", "type": "human"},
        {"content": "5 C.", "type": "ai"},
    ]
    path = lines(tmp_path / "t.jsonl", {"user_input": turns, "reference_tool_calls": [call], "tool_call_accuracy": 1})
    found = read(path)
    [case] = rows(found)
    assert [one["role"] for one in case["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert case["answer"] == "5 C."
    assert case["actual"] == case["expected"] == [{"name": "weather", "arguments": {"city": "Rome"}}]
    [called] = case["messages"][1]["tool_calls"]
    assert (case["messages"][2]["tool_call_id"], case["messages"][2]["content"]) == (called["id"], "20 C")
    assert "allow_irregular" not in found.datasets["old"]
    assert found.ledger.counts()["messages"] == (6, 6, 0)
    assert "metric=tool_correctness" in found.ledger.left_out[-1].hint


def test_a_test_set_is_to_be_answered(tmp_path: Path) -> None:
    sample = {
        "user_input": "Q",
        "reference_contexts": ["c"],
        "reference": "R",
        "persona_name": "Ana",
        "synthesizer_name": "single_hop",
    }
    found = read(lines(tmp_path / "t.jsonl", sample))
    expected = {"question": "Q", "reference": "R", "ideal_contexts": ["c"], "tags": ["single_hop"]}
    assert rows(found) == [{"id": "1", **expected, "vars": {"persona_name": "Ana"}}]
    assert found.experiments["old"].generate is True


def test_older_names_and_modes_are_known(tmp_path: Path) -> None:
    old = {
        "question": "Q",
        "answer": "A",
        "contexts": ["c"],
        "ground_truths": ["R"],
        "noise_sensitivity": 0.25,
        "factual_correctness(mode=recall)": 0.5,
    }
    found = read(lines(tmp_path / "t.jsonl", old))
    assert rows(found)[0]["reference"] == "R"
    metrics = found.experiments["old"].metrics
    assert metrics[:2] == ["noise_sensitivity_relevant", "factual_recall"]
    assert found.metrics["old_noise_sensitivity"]["direction"] == "lower_is_better"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_score_that_is_nan_is_listed_and_an_empty_list_stays(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"t.{form}"
    if form == "csv":
        path.write_text("id,user_input,retrieved_contexts,tone\na,Q,[],0.25\nb,R,\"['c']\",nan\n")
    else:
        row = {"id": "a", "user_input": "Q", "retrieved_contexts": [], "tone": 0.25}
        path.write_text(
            json.dumps(row) + "\n{" + json.dumps({**row, "id": "b", "tone": float("nan")})[1:] + "\n{broken\n"
        )
    found = read(path)
    first, second = rows(found)
    assert (first["id"], first["contexts"], first["ragas"], second["id"]) == ("a", [], {"tone": 0.25}, "b")
    assert "ragas" not in second
    reasons = [one.reason for one in found.ledger.left_out if one.part != "metrics"]
    assert [reason for reason in reasons if "broken JSON" not in reason] == ["it has no value"]
    assert counts(found)["cases"] == ((2, 2, 0) if form == "csv" else (3, 2, 1))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "", "the file is empty"),
        ("t.csv", "a,b\n1,2\n", "it has none of user_input"),
        ("t.csv", 'user_input,contexts\nQ,"[1, (\'"\n', "cannot be read as a list"),
        ("t.csv", "user_input\n\"[{'content': array()}]\"\n", "no turn of a user"),
        ("t.jsonl", '{"user_input": [{"type": "ai", "content": "A"}]}', "no turn of a user"),
        ("t.jsonl", '{"user_', "t.jsonl:1: row: broken JSON"),
        ("t.parquet", "PAR1", "broken Parquet"),
        ("t.xlsx", "x", "unknown kind of file"),
        ("t.json", '{"scores": {"0": 1}}', "it has none of user_input"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        read(tmp_path / name)
    with pytest.raises(UserError, match="it is a folder"):
        read(tmp_path)
