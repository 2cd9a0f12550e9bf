"""What all pages have in common: the first screen says in a sentence what the reader gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_readme import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_a_title_and_a_paragraph(page: Path) -> None:
    title, _, rest = page.read_text(encoding="utf-8").partition("\n")
    assert title.startswith("# ")
    first = rest.strip().split("\n\n")[0]
    assert not first.startswith(("|", "```", "#", "- ", "!", "<")), (
        "a table, a block or a list comes before the first sentence"
    )
    assert len(first.split()) >= 15
