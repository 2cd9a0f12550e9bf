"""Every command, YAML and program of the page on agents is run, and its data are what it says they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.testing import Endpoint, Request, calls, reply
from evalflow.values.trajectories import trajectory
from tests.docs.test_readme import ADDRESS, ROOT, blocks, run

PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")


def model(request: Request) -> Any:
    """Looks for a bicycle, then says what it found."""
    last = request.body["messages"][-1]
    if last["role"] == "tool":
        return reply(f"Free are: {last['content']}", as_text=True, usage=(50, 9))
    return calls(("find_bicycles", {"kind": "city", "day": "2026-07-04"}), usage=(40, 12))


@pytest.mark.slow
def test_every_command_works_in_the_order_of_the_page(tmp_path: Path) -> None:
    commands = [line for block in blocks("bash", PAGE) for line in block.splitlines()]
    assert len(commands) >= 4
    with Endpoint(model) as endpoint:
        for text in [*blocks("yaml", PAGE), *blocks("python", PAGE)]:
            name = re.match(r"# (\S+)\n", text)
            if name:
                (tmp_path / name[1]).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name[1]).write_text(text.replace(ADDRESS, endpoint.url), encoding="utf-8")
        for command in commands:
            before = endpoint.count
            done = run(command, tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            asked = "generate=true" in command and "evalflow check" not in command
            assert endpoint.count - before == (32 if asked else 0), command
    answers = [json.loads(line) for line in (tmp_path / "outputs/latest/answers.jsonl").read_text().splitlines()]
    assert {answer["answer"] for answer in answers} == {'Free are: {"free":["C12","C19"]}'}
    assert [step["role"] for step in answers[0]["actual"]] == ["assistant", "tool", "assistant"]
    assert {(one["requests"], one["usage"]["input_tokens"], one["usage"]["output_tokens"]) for one in answers} == {
        (2, 90, 21)
    }


def test_the_metric_on_the_page_can_be_built() -> None:
    (values,) = [yaml.safe_load(text) for text in blocks("yaml", PAGE) if "kind: trajectory" in text]
    build_metric("bookings", METRIC_KINDS.config(values["kind"]).model_validate(values), Prompts([]))


def test_forms_of_calls_on_the_page_are_one_call() -> None:
    forms, messages = blocks("json", PAGE)
    found = [trajectory([json.loads(line)]).calls[0] for line in forms.splitlines()]
    assert {(call.name, str(call.arguments)) for call in found} == {(found[0].name, str(found[0].arguments))}
    case = json.loads(messages)
    assert [call.name for call in trajectory(case["actual"]).calls] == ["find_bicycles", "book"]
    assert list(trajectory(case["actual"]).flaws()) == []
    assert [call.name for call in trajectory(case["expected"]).calls] == ["find_bicycles", "book"]
