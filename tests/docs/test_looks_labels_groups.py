"""The page on looks, labels and groups: its commands, its numbers, and its pictures."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "looks-labels-groups.md").read_text(encoding="utf-8")
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))


def test_every_picture_is_shown_with_what_it_says_in_words():
    shown = dict(re.findall(r"^!\[(.*)\]\(pictures/(.*)\.svg\)$", PAGE, re.MULTILINE))
    drawn = {ElementTree.parse(path).getroot().attrib["aria-label"]: path.stem for path in PICTURES}
    assert shown == drawn


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_has_the_colours_of_reports_in_light_and_dark(picture: Path):
    text = picture.read_text(encoding="utf-8")
    palette = (ROOT / "evalflow" / "report" / "templates" / "page.css").read_text(encoding="utf-8")
    for name in set(re.findall(r"var\((--\w+)\)", text)):
        values = re.findall(rf"{name}: ([^;]+);", palette)
        assert values
        assert re.findall(rf"{name}: ([^;]+);", text) == values
    assert "prefers-color-scheme: dark" in text


@pytest.mark.slow
def test_every_command_works_and_shows_what_the_page_says(tmp_path: Path):
    said = []
    for block in blocks("bash", PAGE):
        for command in block.splitlines():
            done = run(command, tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            said.append(done.stderr + done.stdout)
    [shown] = blocks("text", PAGE)
    assert shown.strip() in said[0]
    alone, grouped = (next(iter(re.findall(r"^ +1 +1 +(\d+)", text, re.MULTILINE))) for text in said[-2:])
    assert f"it takes {alone} cases on their own, and {grouped} in groups of five" in PAGE.replace("\n", " ")


def test_every_link_leads_somewhere():
    headings = {
        path.name: {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in lines}
        for path in [*(ROOT / "docs").glob("*.md"), ROOT / "bench" / "README.md"]
        if (lines := re.findall(r"^#+ .*", path.read_text(encoding="utf-8"), re.MULTILINE))
    }
    for link, anchor in re.findall(r"\]\(([^)#]+)#?([^)]*)\)", PAGE):
        assert (ROOT / "docs" / link).is_file(), link
        assert not anchor or anchor in headings[Path(link).name], anchor
