"""The page on ranks: its commands, in the order of the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "ranking.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    said = []
    for command in "".join(blocks("bash", PAGE)).splitlines():
        done = run(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        said.append(done.stdout)
    mean, pairs = json.loads(said[-1])["rankings"]
    for method in (mean["method"], pairs["method"], "davidson_max_t"):
        assert f"`{method.removeprefix('cr2_')}`" in PAGE
