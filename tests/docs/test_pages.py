"""What all pages have in common: how they begin, and that their lists are lists on the site, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
OTHERS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "data/README.md", "data/rag_guideline.md")]
ITEM = re.compile(r"(?:[-*]|\d+\.) ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_a_title_and_a_paragraph(page: Path) -> None:
    title, _, rest = page.read_text(encoding="utf-8").partition("\n")
    assert title.startswith("# ")
    first = rest.strip().split("\n\n")[0]
    assert not first.startswith(("|", "```", "#", "- ", "!", "<")), (
        "a table, a block or a list comes before the first sentence"
    )
    assert len(first.split()) >= 15


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_list_stands_after_a_blank_line(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for block in text.split("\n\n"):
        first, *others = block.strip("\n").splitlines() or [""]
        if not ITEM.match(first) and not first.startswith((" ", "#")):
            assert not any(ITEM.match(line) for line in others), block
