"""The page on ranks: its commands, in the order of the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "ranking.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    [bots] = blocks("python", PAGE)
    (tmp_path / "bots.py").write_text(bots, encoding="utf-8")
    said: dict[str, str] = {}
    for command in "".join(blocks("bash", PAGE)).splitlines():
        done = run(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        said[command.partition(" rank")[2]] = " ".join(done.stdout.split())
    mean, pairs = json.loads(said[" --pairwise --metric faithfulness --json"])["rankings"]
    for method in (mean["method"], pairs["method"], "davidson_max_t"):
        assert f"`{method}`" in PAGE
    assert "of 60 cases separate the 5 runs" in said[" 'outputs/runs/*' --items"]
    assert "short set of 15 of 60 cases" in said[" 'outputs/runs/*' --short 15 --out quick"]
    [items] = tmp_path.glob("outputs/runs/*/items.csv")
    for column in items.read_text(encoding="utf-8").splitlines()[0].split(","):
        assert f"`{column}`" in PAGE or column in (
            "dataset",
            "metric",
            "case_id",
            "ci_low",
            "ci_high",
            "p_adjusted",
            "kind",
        )
