"""The page on panels and cascades: its files and its commands, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest

from evalflow.config.judges import PanelConfig
from evalflow.testing import Endpoint, Request
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "panels.md").read_text(encoding="utf-8")


def model(request: Request) -> Any:
    return {"reason": "so it seems", "score": 4 if request.body["model"] == "my-model" else 5}


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    for name, text in re.findall(r"^`([\w/]+\.yaml)`:\n\n```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    check, panel, cascade = "".join(blocks("bash", PAGE)).splitlines()
    with Endpoint(model) as endpoint:

        def done(command: str, *members: str) -> None:
            there = "".join(f" judge.members.{member}.base_url={endpoint.url}" for member in members)
            found = run(f"{command}{there} limit=4", tmp_path)
            assert found.returncode == 0, f"{command}\n{found.stderr}"

        done(check, "first", "second")
        assert endpoint.count == 0
        done(panel, "first", "second")
        assert endpoint.count == 8
        done(cascade, "large", "small")
        assert endpoint.count == 8 + 4  # five samples in one request
    scores = pl.read_parquet(tmp_path / "outputs" / "latest" / "scores.parquet")
    assert scores["judge"].unique(maintain_order=True).to_list() == ["my_cascade", "small:my-other-model"]
    assert "small:my-other-model decides, confident enough (p 1.00)" in scores["reason"][0]


def test_every_vote_is_on_the_page() -> None:
    votes = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert votes[1:] == [*get_args(PanelConfig.model_fields["vote"].annotation)]
