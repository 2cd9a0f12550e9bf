"""Answers and replies that are hard to hold or to check: one of them never ends a run, nor what is made of the run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.cli import run_command
from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import judge_arguments

pytestmark = pytest.mark.slow

HALF = "cut off in \ud83d"
DEEP = '{"a":' * 400 + "1" + "}" * 400
FILES = "run.json scores.parquet results.csv cases.jsonl report.html junit.xml summary.json summary.csv summary.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def write(name: str, *rows: dict[str, Any]) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


def latest() -> Path:
    return Path("outputs/latest").resolve()


def states() -> dict[tuple[str, str], str]:
    frame = pl.read_parquet(latest() / "scores.parquet")
    return {(case, metric): status for case, metric, status in frame.select("case_id", "metric", "status").iter_rows()}


def ends(code: int, *words: str) -> None:
    """The run ends with this code and all its files, and all that can be done with it works."""
    assert run_command([*words]) == code
    first = str(latest())
    for name in FILES.split():
        assert (latest() / name).is_file(), name
    before = states()
    assert run_command(["report"]) == 0
    assert run_command(["resume"]) == code
    assert states() == before
    assert run_command(["resume", "--retry-errors"]) == code
    assert run_command(["cases", "--limit", "0"]) == 0
    assert run_command(["cases", "--json"]) == 0
    assert run_command([*words]) == code
    assert run_command(["compare", first, "outputs/latest"]) == 0


def demo(*cases: tuple[str, Any, dict[str, Any]]) -> list[str]:
    """Arguments of a run over answers that are each checked by a JSON Schema, or by what else the case asks."""
    rows = [
        {
            "id": name,
            "messages": [{"role": "user", "content": "?"}],
            "demo_output": answer,
            "checks": [check if "identifier" in check else {"identifier": "json_schema", "params": {"schema": check}}],
        }
        for name, answer, check in cases
    ]
    path = write("demo.jsonl", *rows)
    return [
        "dataset=conversations",
        f"dataset.conversations.path={path}",
        "generate=demo",
        "metric=checks",
    ]


def test_answers_that_a_check_cannot_decide_are_errors_of_their_scores() -> None:
    rules = {"json_path_rules": [{"json_path": "$..a", "expected_value": "x"}]}
    endless: dict[str, Any] = {"$ref": "#"}
    arguments = demo(
        ("fine", '{"a": 0.3}', {"properties": {"a": {"type": "number"}}}),
        ("infinite", '{"a": 1e999}', {"properties": {"a": {"multipleOf": 3}}}),
        ("digits", "9" * 400, {"multipleOf": 0.01}),
        ("more digits", "9" * 5000, {"type": "integer"}),
        ("endless", "{}", endless),
        ("deep", DEEP, {"properties": {"a": {"$ref": "#"}}}),
        ("half", json.dumps(HALF), {"type": "integer"}),
        ("half in metadata", {"role": "assistant", "content": "x"}, {"identifier": "metadata", "params": rules}),
    )
    ends(3, *arguments)
    assert {case: status for (case, _), status in states().items()} == {
        "fine": "scored",
        "infinite": "error",
        "digits": "error",
        "more digits": "error",
        "endless": "error",
        "deep": "error",
        "half": "scored",
        "half in metadata": "scored",
    }


def scripted(replies: Sequence[str]) -> Callable[[Request], Any]:
    """To what is said of `case 3`, the fourth reply."""
    return lambda request: reply(next(text for i, text in enumerate(replies) if f"case {i}." in request.text))


def test_a_judges_bad_reply_is_its_scores_alone() -> None:
    replies = {
        '{"reason": "good", "score": 3}': "scored",
        HALF: "error",
        json.dumps({"reason": HALF, "score": 3}): "scored",
        '{"reason": "so", "score": 1e999}': "error",
        '{"reason": "so", "score": ' + "9" * 400 + "}": "error",
        f'{{"reason": {DEEP}, "score": 3}}': "error",
    }
    path = write("mine.jsonl", *({"id": f"c{i}", "question": "?", "answer": f"case {i}."} for i in range(6)))
    with Endpoint(scripted(list(replies))) as endpoint:
        ends(
            3,
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=coherence",
            *judge_arguments(endpoint.url),
        )
    assert list(states().values()) == list(replies.values())


def test_a_models_bad_prediction_is_its_cases_alone() -> None:
    replies = ["true", HALF, json.dumps(HALF), "1e999", "9" * 400, DEEP, "[" * 100_000]
    path = write("mine.jsonl", *({"id": f"c{i}", "question": f"case {i}.", "expected_outcome": True} for i in range(7)))
    with Endpoint(scripted(replies)) as endpoint:
        ends(
            0,
            "dataset=jailbreak_guardrails",
            f"dataset.jailbreak_guardrails.path={path}",
            "metric=jailbreak_guardrails",
            "generate=true",
            "target=openai",
            "target.model=bot",
            f"target.base_url={endpoint.url}",
            "target.api_key_env=null",
        )
    assert list(states().values()) == ["scored"] * 7  # what is neither true nor false is a wrong prediction


BOT = """import sys
asked = sys.stdin.read()
bad = [r'"\\ud83d"', "1e999", "9" * 400, '{"a":' * 70 + "1" + "}" * 70]
number = next(i for i in range(4) if f"case {i}." in asked)
print('{"answer": "good", "metadata": {"said": %s}}' % bad[number])
"""


def test_a_programs_bad_reply_is_its_cases_alone() -> None:
    Path("bot.py").write_text(BOT)
    path = write("mine.jsonl", *({"id": f"c{i}", "question": f"case {i}.", "reference": "good"} for i in range(4)))
    ends(
        3,
        "dataset=rag",
        f"dataset.rag.path={path}",
        "dataset.rag.fields=null",
        "metric=exact_match",
        "generate=true",
        "target=command",
        f"target.argv=[{sys.executable},bot.py]",
    )
    assert list(states().values()) == ["scored", "error", "scored", "error"]
