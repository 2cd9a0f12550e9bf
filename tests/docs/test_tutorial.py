"""The tutorial: its files and commands, in the order of the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, blocks, named_files, run

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    for name, cases in zip(("cases.jsonl", "cases_now.jsonl"), blocks("json", PAGE), strict=True):
        assert [json.loads(line)["id"] for line in cases.splitlines()] == ["loan", "late", "card"]
        assert f"`{name}`" in PAGE
        (tmp_path / name).write_text(cases, encoding="utf-8")
    for name, text in named_files(PAGE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    said: list[str] = []
    for command in "".join(blocks("bash", PAGE)).splitlines():
        done = run(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout)
    assert "names_a_number" in said[6]
    assert "faithfulness" in said[-1]
