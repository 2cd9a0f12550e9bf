"""The page on experiments: its files and commands, in the order of the page, pasted whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, named_files, run

PAGE = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
UNDECIDED = 3


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    files = dict(named_files(PAGE))
    assert len(files) == 4
    done = dict[str, str]()
    for language, block in re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL):
        if language == "yaml":
            for name in (name for name, text in files.items() if text == block):
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(block, encoding="utf-8")
        for command in block.splitlines() if language == "bash" else ():
            ended = run(command, tmp_path)
            gated = "experiment=release" in command or "against_release" in command
            assert ended.returncode in ((0, UNDECIDED) if gated else (0,)), f"{command}\n{ended.stdout}\n{ended.stderr}"
            done[command] = ended.stdout
    assert (tmp_path / "conf" / "experiment" / "nightly.yaml").is_file()
    assert "not worse" in done["python -m evalflow experiment=against_release"]


@pytest.mark.parametrize(
    "page",
    [page for page in (*(ROOT / "docs").glob("*.md"), ROOT / "data" / "README.md") if page.stem != "experiments"],
    ids=lambda page: page.stem,
)
def test_every_page_that_runs_an_experiment_leads_to_this_one(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "experiments.md" in text or not re.search(r"\bexperiment=|conf/experiment", text)
