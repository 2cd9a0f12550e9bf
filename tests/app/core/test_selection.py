"""What a run took of its datasets, by its manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalflow.app.core.selection import taken_cases
from evalflow.cli import run_command
from evalflow.engine.folder import RunFolder

pytestmark = pytest.mark.slow

ROWS = [{"id": f"c{i}", "question": "?", "answer": "5", "expected": "5", "tags": ["a"] if i else []} for i in range(6)]


@pytest.mark.parametrize(
    ("choice", "words", "is_part"),
    [
        ([], "", False),
        (["limit=4"], "the first 4 cases", True),
        (["limit=60"], "", False),
        (["sample=4"], "random sample of 4 cases", False),
        (["dataset.rag.tags=[a]", "sample=2"], "only cases tagged a, random sample of 2 cases", True),
        (["dataset.rag.ids=[c1,c2]"], "2 picked cases", True),
        (["dataset.rag.tags=null", "dataset.rag.ids=null"], "", False),
    ],
)
def test_what_a_command_line_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: list[str], words: str, is_part: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    own = ["dataset=rag", "dataset.rag.path=mine.jsonl", "dataset.rag.fields=null", "metric=exact_match"]
    assert run_command([*own, *choice]) == 0
    manifest = RunFolder(Path("outputs/latest").resolve()).read_manifest()
    taken = taken_cases(manifest)
    assert (taken.in_words, taken.is_part) == (words, is_part)
    early = taken_cases(manifest.model_copy(update={"asked": {"rag": 1}}))
    if sum(facts.cases for facts in manifest.datasets.values()) > 1:
        assert (early.in_words.endswith("ended early"), early.is_part) == (True, True)
        stopped = taken_cases(manifest.model_copy(update={"asked": {"rag": 1}, "stopped": "decided"}))
        assert (stopped.in_words.endswith("stopped early"), stopped.is_part) == (True, is_part)


def test_tags_that_a_dataset_declares_are_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    file = Path("conf/dataset/tagged.yaml")
    file.parent.mkdir(parents=True)
    file.write_text("# @package dataset.tagged\npath: mine.jsonl\ntags: [a]\n", encoding="utf-8")
    assert run_command(["dataset=tagged", "metric=exact_match"]) == 0
    taken = taken_cases(RunFolder(Path("outputs/latest").resolve()).read_manifest())
    assert (taken.in_words, taken.is_part) == ("", False)
