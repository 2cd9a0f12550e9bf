"""Every command, YAML and program of the page on targets is run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from evalflow.testing import Endpoint, Request
from evalflow.testing.replies import Answering
from evalflow.values.trajectories import trajectory
from tests.docs.test_readme import ROOT, blocks, run
from tests.targets.opengpts import OpenGPTs
from tests.traces.otlp import request as traced
from tests.traces.otlp import span

PAGE = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
SERVER = "http://127.0.0.1:8100"
SERVED = ("opengpts", "streaming", "background")
ADDRESSES = ("http://127.0.0.1:8000/ask", "http://127.0.0.1:8000/agent")


@dataclass(frozen=True, kw_only=True)
class Guarded(Answering):
    """The service of the page."""

    def body(self, request: Request) -> Mapping[str, Any]:
        document = {"body": f"About {request.body['input']}", "name": "A page", "source": {"url": "/a"}}
        return {
            "output": {"text": "You asked."},
            "guard": {"status": "fail" if "ignore" in request.body["input"].lower() else "pass"},
            "documents": [document] * request.body["top_k"],
            "details": {"turns": len(request.body["history"])},
        }


@dataclass(frozen=True, kw_only=True)
class Traced(Answering):
    """The agent of the page."""

    def body(self, request: Request) -> Mapping[str, Any]:
        known = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_bicycles"}
        return {"answer": "C12 is free.", "telemetry": traced(span("tool", says=known))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for text in [*blocks("yaml", PAGE), *blocks("python", PAGE)]:
        name = re.match(r"# (\S+)\n", text)
        assert name
        (tmp_path / name[1]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name[1]).write_text(text, encoding="utf-8")
    return tmp_path


@contextmanager
def _opengpts() -> Iterator[OpenGPTs]:
    """The bots of the page, served by another thread."""
    bots = OpenGPTs()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(bots.serving()):
        yield bots


@pytest.mark.slow
def test_every_command_works(folder: Path) -> None:
    commands = [line for block in blocks("bash", PAGE) for line in block.splitlines()]
    assert len(commands) == 10 + 3
    with _opengpts() as bots:
        for name in ("opengpts", "streaming", "background"):
            config = folder / "conf" / "target" / f"{name}.yaml"
            config.write_text(config.read_text().replace(SERVER, bots.url))
        for command in [line for line in commands if any(f"target={name}" in line for name in SERVED)]:
            done = run(command, folder)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            answers = _answers(folder)
            assert [answer["answer"].endswith("after 0") for answer in answers] == [True] * 3, command
            commands.remove(command)
        assert len(bots.threads) == 6
    with Endpoint(lambda request: Guarded() if "input" in request.body else Traced()) as endpoint:
        for address, name in zip(ADDRESSES, ("guarded", "traced"), strict=True):
            config = folder / "conf" / "target" / f"{name}.yaml"
            assert address in config.read_text()
            config.write_text(config.read_text().replace(address, f"{endpoint.url}/chat/completions"))
        for command in commands:
            before = endpoint.count
            done = run(command, folder)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            if "target=choices" in command:
                assert "my-model at http://127.0.0.1:8000/v1" in done.stdout
                continue
            if "generate=true" not in command:
                continue
            if "evalflow check" in command:
                assert endpoint.count == before
                assert f"guarded · POST {endpoint.url}/chat/completions" in done.stdout
                continue
            answers = _answers(folder)
            assert all(answer["status"] == "answered" for answer in answers), command
            if "guarded" in command and "rag" in command:
                assert [len(answer["contexts"]) for answer in answers] == [5, 5, 5]
                assert answers[0]["metadata"] == {"turns": 0}
            elif "traced" in command:
                assert {call.name for answer in answers for call in trajectory(answer["actual"]).calls} == {
                    "look_up" if "traced_bot" in command else "find_bicycles"
                }
                assert len({answer["metadata"]["trace_id"] for answer in answers}) == (3 if "bot" in command else 1)
            elif "guarded" in command:
                assert {answer["actual"] for answer in answers} == {True, False}


def test_the_page_names_every_key(folder: Path) -> None:
    words = set(re.findall(r"\w+", PAGE))
    for name in ("_service", "http", "command", "python"):
        text = (ROOT / "conf" / "target" / f"{name}.yaml").read_text()
        keys = set(re.findall(r"^(\w+):", text, re.MULTILINE)) - {"defaults", "kind", "name", "method"}
        assert keys <= words, name


def _answers(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "outputs" / "latest" / "answers.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
