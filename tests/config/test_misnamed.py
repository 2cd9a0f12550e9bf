"""What an unknown name of a group was meant to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.config.keys_elsewhere import key_elsewhere
from evalflow.config.misnamed import no_option
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


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("n=5", ("limit=5",)),
        ("+n=5", ("limit=5",)),
        ("model.temperature=0.2", ("judge.temperature=0.2",)),
        ("temperature=0", ("judge.temperature=0",)),
        ("workers=3", ("judge.concurrency.max=3",)),
        ("threshold=0.5", ("metric.bias.threshold=0.5",)),
        ("out=results", ("hydra.run.dir=results",)),
        ("report=html", ()),
        ("report.format=html", ()),
    ],
)
def test_a_key_that_other_tools_have(typed: str, right: tuple[str, ...]) -> None:
    values = {
        "judge": {"model": "m", "temperature": 0, "concurrency": {"max": 1}},
        "target": {},
        "metric": {"bias": {"threshold": 1}},
    }
    problem = key_elsewhere(typed, values)
    assert problem is not None
    assert problem.meant == Meant((typed,), right)
    assert all(word in problem.hint or word.startswith("hydra") for word in right)


def test_a_key_of_a_model_that_no_part_of_the_run_has() -> None:
    problem = key_elsewhere("api_key=sk-secret", {"judge": {"kind": "embedded"}})
    assert problem is not None
    assert problem.meant is None
    assert "judge.api_key_env=VARIABLE" in problem.hint
    assert "secret" not in problem.hint
    assert key_elsewhere("sed=1", {}) is None


@pytest.mark.parametrize(
    ("typed", "right"),
    [("judge.max_retries=2", "judge.attempts=2"), ("target.workers=4", "target.concurrency.max=4")],
)
def test_a_key_of_other_tools_inside_a_part_is_no_misspelling(typed: str, right: str) -> None:
    keys = {"attempts": 5, "max_tokens": 9, "concurrency": {"max": 8}, "api_key_env": None}
    problem = key_elsewhere(typed, {"judge": keys, "target": keys})
    assert problem is not None
    assert problem.meant == Meant((typed,), (right,))
    secret = key_elsewhere("judge.api_key=sk-secret", {"judge": keys})
    assert secret is not None
    assert (secret.meant, secret.hint) == (None, "write judge.api_key_env=VARIABLE")


def test_a_key_is_not_placed_by_a_guess() -> None:
    metrics = {name: {"threshold": 1, "kind": "number", "scale": {"min": 1}} for name in ("bias", "tone", "recall")}
    for typed in ("kind=x", "name=x", "version=2", "threshold=1", "scale.wrong=1"):
        assert key_elsewhere(typed, {"judge": {"kind": "model", "name": "m", "version": 1}, "metric": metrics}) is None
    for value in ("abc", "2.5", ""):
        problem = key_elsewhere(f"n={value}", {})
        assert problem is not None
        assert (problem.meant, problem.hint) == (None, "write limit=NUMBER")


def test_the_name_of_a_variable_is_shown_but_no_key_is() -> None:
    values = {"judge": {"model": "m", "api_key_env": None}}
    named, secret = (key_elsewhere(typed, values) for typed in ("api_key_env=OURS", "model.api_key=sk-secret"))
    assert named is not None
    assert named.meant == Meant(("api_key_env=OURS",), ("judge.api_key_env=OURS",))
    assert secret is not None
    assert (secret.meant, secret.hint) == (None, "it is a key of a part of the run: judge.api_key_env=VARIABLE")
