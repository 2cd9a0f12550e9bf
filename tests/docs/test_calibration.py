"""The page on calibration: its commands, and the labels that ship with the sample answers."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, blocks, run

JUDGES = (ROOT / "docs" / "judges.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
LABELS = [json.loads(line) for line in (ROOT / "data" / "rag_labels.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_the_page_runs_and_its_labels_are_those_that_were_drawn(tmp_path: Path) -> None:
    [block] = blocks("bash", PAGE)
    said = []
    for command in block.splitlines():
        done = run(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        said.append(done.stdout)
    with (tmp_path / "labels.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["answer_hash"] for row in rows[:40] for _ in range(2)] == [label["answer_hash"] for label in LABELS]
    header = re.findall(r"^\| `([\w`, ]+) \|", PAGE, re.MULTILINE)
    named = {name.strip("` ") for cell in header for name in cell.split(",")}
    assert named <= set(rows[0])
    assert {"value", "by", "comment"} <= named
    [row] = json.loads(said[3])["rows"]
    assert (row["n_labels"], row["n_unlabelled"]) == (40, 20)
    assert not row["warnings"]
    data = [json.loads(line) for line in (ROOT / "data" / "rag.jsonl").read_text(encoding="utf-8").splitlines()]
    known = {(case["id"], label["by"]): label["value"] for case in data for label in case["labels"]["faithfulness"]}
    assert all(label["value"] == known[label["case_id"], label["by"]] for label in LABELS)
    mean = sum(known.values()) / len(known)
    corrected, judges = row["corrected"], " ".join(JUDGES.split())
    assert corrected["ci_low"] < corrected["estimate"] < corrected["ci_high"]
    assert corrected["ci_low"] < mean < corrected["ci_high"]
    assert f"{corrected['estimate']:.2f} ({corrected['ci_low']:.2f} to {corrected['ci_high']:.2f})" in judges
    assert f"{row['judge_mean']:.2f} ({row['judge_ci_low']:.2f} to {row['judge_ci_high']:.2f})" in judges
    assert row["agreement"]["spearman"]["ci_low"] < 0 < row["agreement"]["spearman"]["ci_high"]
    assert "The labels do not show that this judge agrees with the readers" in judges
    assert corrected["lambda"] == 0
    assert f"all {len(data)} labelled answers, which are part of the sample data, say {mean:.2f}" in judges


def test_the_page_on_judges_walks_the_same_way() -> None:
    walk = blocks("bash", PAGE)[0].splitlines()[:3]
    assert "\n".join(walk) in JUDGES
