"""Every command and YAML of the page on simulated users is run, and its data are what it says they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from evalflow import datasets
from evalflow.config.schema import DatasetConfig
from evalflow.config.simulators import OpenAISimulatorConfig
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.targets.simulated import Ending
from evalflow.testing import Endpoint, Request, numbered_results, reply
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "simulated_users.md").read_text(encoding="utf-8")
VLLM = "defaults: [_openai, _self_]\nmodel: ???\nbase_url: {}\n"


def model(request: Request) -> Any:
    """A user who is content after two answers, a bot, and a judge who finds every turn in the role."""
    match request.schema_name:
        case "UserTurn":
            asked = request.text.count("User (you)")
            brief = re.findall(r"<brief id=(\w+)>", request.text)[0]
            state = "goal_reached" if asked >= 2 else "goes_on"
            return {"reason": "r", "state": state, "message": f"And {brief} {asked}?"}
        case None:
            return reply("It costs 40.", as_text=True)
        case _ if "<brief id=" in request.text:
            turns = len(re.findall(r"^User, turn", request.text, re.MULTILINE))
            return numbered_results([{"reason": "r", "verdict": "in_role"}] * turns)
        case _:
            return None


@pytest.mark.slow
def test_every_command_works_in_the_order_of_the_page(tmp_path: Path) -> None:
    commands = [line for block in blocks("bash", PAGE) for line in block.splitlines()]
    assert len(commands) == 5
    sent: list[int] = []
    with Endpoint(model) as endpoint:
        for group in ("target", "simulator", "judge"):
            (tmp_path / "conf" / group).mkdir(parents=True)
            (tmp_path / "conf" / group / "vllm.yaml").write_text(VLLM.format(endpoint.url), encoding="utf-8")
        for command in commands:
            before = endpoint.count
            done = run(command, tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            sent.append(endpoint.count - before)
        # In each conversation 2 answers, 3 turns of the user and 3 calls of the judge; a script is the same in all
        # cases but the one with an opening.
        assert sent == [0, 3 * (2 + 3 + 3), 0, 2 * 2, 0]
    assert "of 8 conversations 8 came to the end of the script" in done.stdout


def test_the_files_on_the_page_are_valid() -> None:
    limits, metric = [yaml.safe_load(text) for text in blocks("yaml", PAGE)]
    values = {key: value for key, value in limits.items() if key != "defaults"}
    OpenAISimulatorConfig.model_validate({"kind": "openai", **values})
    build_metric("goal_reached", METRIC_KINDS.config("check").model_validate(metric), Prompts([]))


def test_the_case_on_the_page_is_one_of_the_sample(tmp_path: Path) -> None:
    (text,) = blocks("json", PAGE)
    (tmp_path / "case.json").write_text(text, encoding="utf-8")
    (case,) = datasets.read("d", DatasetConfig(path=str(tmp_path / "case.json")))
    sample = {one.id: one for one in datasets.read("s", DatasetConfig(path=str(ROOT / "data" / "scenarios.jsonl")))}
    known = sample[case.id]
    assert (case.scenario, case.persona, case.goal) == (known.scenario, known.persona, known.goal)
    assert set(case.facts or ()) <= set(known.facts or ())
    assert len(sample) == 8


def test_the_endings_on_the_page_are_those_that_there_are() -> None:
    table = PAGE.partition("## How it ended")[2].partition("## ")[0]
    told = [name for line in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)]
    assert sorted(name for name in told if name != "ended") == sorted(get_args(Ending))
