"""The page on G-Eval: its metric, its cases and its commands, in the order of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.docs.test_readme import ADDRESS, ROOT, blocks, run

PAGE = (ROOT / "docs" / "g-eval.md").read_text(encoding="utf-8")


def model(request: Request) -> Any:
    """Bot and judge in one."""
    if request.schema_name == "Steps":
        return {"steps": ["Read the context.", "Compare."]}
    if request.schema_name == "Score":
        likely = {"9": {"9": 0.7, "8": 0.25, "The": 0.05}}
        return reply({"reason": "It agrees.", "score": 9}, alternatives=likely)
    return "Twenty cents a day."


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    for name, text in re.findall(r"^`([\w/]+\.\w+)`[^\n]*:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = "".join(blocks("bash", PAGE)).splitlines()
    with Endpoint(model, models=["my-bot", "my-judge"]) as endpoint:
        done = [run(command.replace(ADDRESS, endpoint.url), tmp_path) for command in commands]
        scored = [request for request in endpoint.requests if request.schema_name == "Score"]
        written = [request for request in endpoint.requests if request.schema_name == "Steps"]
    for command, one in zip(commands, done, strict=True):
        assert one.returncode == 0, f"{command}\n{one.stderr}"
    assert "1 of them to prepare" in done[1].stdout
    assert "self-preference" in done[1].stdout
    assert "self-preference" in done[2].stderr
    assert "self-preference" not in done[3].stderr
    assert 'steps:\n  - "Read the context."' in done[2].stderr
    assert len(written) == 1
    assert len(scored) == 4
    assert all("<vars.audience" in request.text and "2. Compare." in request.text for request in scored)
    scores = pl.read_parquet(tmp_path / "outputs" / "latest" / "scores.parquet")
    assert scores["judge"].unique().to_list() == ["vllm:my-judge"]
    expected = (9 * 0.7 + 8 * 0.25) / 0.95
    assert abs(scores["score"][0] - (expected - 1) / 9) < 1e-9
    endings = re.findall(r"`(\[.*?\])`", PAGE)
    assert scores["reason"][0].removeprefix("It agrees. ") in endings
    (entry,) = json.loads((tmp_path / "outputs" / "latest" / "prepared.json").read_text()).values()
    assert entry["copied_from"] == "outputs/latest"
    assert "It agrees." in done[5].stdout
