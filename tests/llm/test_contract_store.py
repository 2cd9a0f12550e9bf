from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from pydantic import BaseModel, Field

from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.llm.contract import PreparedContract, ReplyMode, prepare, prepared
from evalflow.llm.judge import OpenAIJudge
from evalflow.records import Ask, Message
from evalflow.testing import Endpoint

ROOT = Path(__file__).parents[2]
MODES: tuple[ReplyMode, ...] = get_args(ReplyMode)


class Verdict(BaseModel):
    reason: str
    verdict: Literal["ja", "nein", "weiß nicht"]
    grade: int = Field(ge=1, le=5)


class Other(Verdict):
    pass


def never(*_: Any) -> PreparedContract:
    raise AssertionError("it is there already")


@pytest.mark.parametrize("mode", MODES)
def test_what_is_kept_is_what_was_made(mode: ReplyMode, tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    made = prepared(folder, Verdict, mode, False)
    assert made == prepare(Verdict, mode, False)
    assert prepared(folder, Verdict, mode, False, never) == made


def test_each_model_mode_and_strictness_has_its_own(tmp_path: Path) -> None:
    for mode in MODES:
        prepared(tmp_path, Verdict, mode, False)
    prepared(tmp_path, Verdict, "json_schema", True)
    prepared(tmp_path, Other, "json_schema", True)
    assert len(list(tmp_path.glob("*.json"))) == len(MODES) + 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("weiß", "weiss").replace("wei\\u00df", "weiss"),
        lambda _: "[]",
        lambda text: json.dumps({"sha256": json.loads(text)["sha256"]}),
    ],
)
def test_a_damaged_one_is_made_again(damage: Any, tmp_path: Path) -> None:
    made = prepared(tmp_path, Verdict, "json", False)
    (path,) = tmp_path.iterdir()
    text = path.read_text(encoding="utf-8")
    path.write_text(damage(text), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text
    assert prepared(tmp_path, Verdict, "json", False) == made
    assert prepared(tmp_path, Verdict, "json", False, never) == made


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = prepared(tmp_path / "file", Verdict, "tools", False)
    assert made == prepare(Verdict, "tools", False)


SECOND_RUN = """
import asyncio, sys
from pathlib import Path
from tests.llm.test_contract_store import ask
asyncio.run(ask(sys.argv[1], Path(sys.argv[2])))
print(*sorted({"instructor", "openai"} & {*sys.modules}))
"""


async def ask(url: str, folder: Path) -> None:
    config = OpenAIJudgeConfig(kind="openai", model="m", base_url=url, api_key_env=None)
    judge = OpenAIJudge(config, "judge", contracts=folder)
    question = (Message("user", "?"),)
    await judge.ask(Ask(metric="m", step="s", task=None, messages=question, reply_model=Verdict, variables={}))
    await judge.close()


@pytest.mark.slow
def test_a_second_run_imports_neither_instructor_nor_openai(tmp_path: Path) -> None:
    loaded: list[str] = []
    with Endpoint() as endpoint:
        for _ in range(2):
            command = [sys.executable, "-c", SECOND_RUN, endpoint.url, str(tmp_path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            loaded.append(done.stdout.strip())
    assert loaded == ["instructor openai", ""]
    first, second = endpoint.requests
    assert first.body == second.body
