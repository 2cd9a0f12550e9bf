"""What an unknown name of a group was meant to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.config.faults import no_option
from evalflow.errors import Meant

METRICS = ["faithfulness", "relevance", "exact_match", "answer_relevancy"]
JUDGES = ["_openai", "anthropic", "embedded", "gemini", "openai", "vllm"]


@pytest.mark.parametrize(
    ("given", "right"),
    [("relevence", "relevance"), ("exactmatch", "exact_match"), ("groundedness", "faithfulness")],
)
def test_the_nearest_name_or_that_of_another_tool(given: str, right: str) -> None:
    problem = no_option("metric", given, METRICS, [])
    assert problem.meant == Meant((f"metric={given}",), (f"metric={right}",))
    assert right in problem.hint


def test_nothing_is_near() -> None:
    problem = no_option("judge", "zzz", JUDGES, [])
    assert problem.meant is None
    assert problem.hint == "known: anthropic, embedded, gemini, openai, vllm"  # not what files share
    assert no_option("judge", "", JUDGES, []).what == "judge has no value"
    assert "hydra-zzz-sweeper" in no_option("hydra/sweeper", "zzz", [], []).hint


@pytest.mark.parametrize(
    ("given", "judge"),
    [("gpt-4o", "openai"), ("o3-mini", "openai"), ("claude-sonnet-4", "anthropic"), ("gemini-2.5-pro", "gemini")],
)
def test_the_name_of_a_model_goes_with_its_judge(given: str, judge: str) -> None:
    problem = no_option("judge", given, JUDGES, [])
    assert problem.meant == Meant((f"judge={given}",), (f"judge={judge}", f"judge.model={given}"))
    assert no_option("judge", given, ["vllm"], []).meant is None


def test_a_file_instead_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("conf/dataset").mkdir(parents=True)
    Path("conf/dataset/mine.yaml").write_text("path: cases.csv\n", encoding="utf-8")
    for name in ("cases.csv", "new.csv"):
        Path(name).write_text("question\nWhy?\n", encoding="utf-8")

    def meant(given: str) -> Meant | None:
        return no_option("dataset", given, ["mine", "rag"], [Path("conf")]).meant

    assert meant("conf/dataset/mine.yaml") == Meant(("dataset=conf/dataset/mine.yaml",), ("dataset=mine",))
    assert meant("cases.csv") == Meant(("dataset=cases.csv",), ("dataset=mine",))
    assert meant("new.csv") == Meant(None, ("new", "dataset", "new", "--path", "new.csv"))
    assert meant("nwe.csv") == Meant(("dataset=nwe.csv",), ("dataset=new.csv",))
    assert meant("none/at/all.csv") is None
