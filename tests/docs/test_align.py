"""The page on teaching a judge: its commands, in their order."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from evalflow.testing import Endpoint
from tests.cli.conftest import Program
from tests.cli.test_align import STYLES, following, style
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "align.md").read_text(encoding="utf-8")
JUDGE = "model: scripted\nbase_url: {url}\napi_key_env: null\n"


def fill(sheet: Path) -> None:
    """Grade as people do."""
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row |= {"value": str(STYLES[style(row["answer"])]), "by": "ann"}
    with sheet.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    [block] = blocks("bash", PAGE)
    rows = [
        {"id": f"c{i}", "question": f"When, {i}?", "answer": f"Said {list(STYLES)[i % 3]}: at {i}."} for i in range(90)
    ]
    Program(tmp_path).write("mine.jsonl", *rows)
    with Endpoint(following) as endpoint:
        files = {
            "dataset/mine.yaml": "# @package dataset.mine\npath: mine.jsonl\n",
            "judge/my_judge.yaml": f"defaults: [_openai, _self_]\n{JUDGE.format(url=endpoint.url)}",
        }
        for name, text in files.items():
            (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "conf" / name).write_text(text, encoding="utf-8")
        for command in block.splitlines():
            done = run(command, tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            if "--sample" in command:
                fill(tmp_path / "labels.csv")
    assert (tmp_path / "conf/metric/coherence.yaml").is_file()
