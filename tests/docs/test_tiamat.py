"""The page on Tiamat tests: its files and its commands."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from evalflow.testing import Endpoint
from tests.addons.interop.test_tiamat_verb import bot, script
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "tiamat.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    for name, text in re.findall(r"^`(\w+\.json)`:\n\n```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = "".join(blocks("bash", PAGE)).splitlines()
    assert len(commands) == 2
    with Endpoint(script) as endpoint:
        at = [*bot(endpoint.url), f"judge.base_url={endpoint.url}", "judge.api_key_env=null"]
        words = commands[0].replace("my-bot", "bot").replace("my-judge", "scripted")
        done = run(" ".join([words, *at]), tmp_path)
    assert done.returncode == 0, done.stderr
    scores = pl.read_parquet(tmp_path / "outputs" / "latest" / "scores.parquet")
    assert sorted(scores["metric"]) == ["Correctness", "Correctness", "Memory"]
    assert run(commands[1], tmp_path).returncode == 0
