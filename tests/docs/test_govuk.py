"""The page on GOV.UK Chat Evaluation: its files and its commands."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from evalflow.app.catalogue import options
from evalflow.testing import Endpoint
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "govuk.md").read_text(encoding="utf-8")


def test_the_page_runs(tmp_path: Path) -> None:
    for name, text in re.findall(r"^`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = "".join(blocks("bash", PAGE)).splitlines()
    assert len(commands) == 9
    with Endpoint() as endpoint:
        at = f" judge.base_url={endpoint.url} judge.api_key_env=null"
        for command in commands:
            done = run(command + (at if "govuk_rag_answers" in command else ""), tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        models = {request.body["model"] for request in endpoint.requests}
    assert models == {"gpt-4o", "gpt-4o-mini"}
    scores = pl.read_parquet(tmp_path / "outputs" / "latest" / "scores.parquet")
    assert sorted(zip(scores["metric"], scores["repeat"], strict=True)) == [
        (metric, repeat) for metric in ("coherence", "factual_precision", "faithfulness") for repeat in (0, 1)
    ]
    assert set(scores["threshold"]) == {0.8, 1.0}


def test_the_page_names_what_ships() -> None:
    names = {option.name for option in options(None, "metric")} | {option.name for option in options(None, "dataset")}
    rows = re.findall(r"^\| \w+ \| .*\|$", PAGE, re.MULTILINE)
    said = {name for row in rows[1:] for name in re.findall(r"`(\w+)`", row)}
    assert len(said) > 15
    assert said <= names
