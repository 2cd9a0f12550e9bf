"""The pages for those who come from another tool: their files and commands, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT, blocks, run

PAGES = sorted((ROOT / "docs").glob("from-*.md"))
_FILE = re.compile(r"^`([\w.]+)`[^\n]*:\n\n```(?:yaml|json|csv)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_works_in_the_order_of_the_page(tmp_path: Path, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    [(name, content)] = _FILE.findall(text)
    (tmp_path / name).write_text(content, encoding="utf-8")
    commands = "".join(blocks("bash", text)).splitlines()
    assert f" import {page.stem.removeprefix('from-')} {name} " in commands[0]
    for command in commands:
        done = run(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_each_page_says_what_their_words_are_called_here() -> None:
    assert len(PAGES) == 4
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("| evalflow |") == 2
        assert text.index("| evalflow |") < text.index("## One command") < text.index("## What next")
