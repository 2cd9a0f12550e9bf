"""What two texts do not share, word by word."""

from __future__ import annotations

import pytest

from evalflow.report.word_changes import Stretch, word_changes


def _changed(stretches: list[Stretch]) -> list[str]:
    return [one.content for one in stretches if one.is_changed]


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ("It costs 3 pounds.", "It costs 4 pounds, sorry.", ["3"], ["4", ", sorry"]),
        ("", "new", [], ["new"]),
        ("a b", "a  b\n", [], []),
        ("日本語の文", "日本の文章", ["語"], ["章"]),
        ("so " * 3000 + "a", "very " * 3000 + "a", [("so " * 3000).strip()], [("very " * 3000).strip()]),
    ],
)
def test_words_of_one_text_alone_are_marked_and_no_sign_is_lost(
    before: str, after: str, removed: list[str], added: list[str]
) -> None:
    one, other = word_changes(before, after)
    assert ("".join(s.content for s in one), "".join(s.content for s in other)) == (before, after)
    assert (_changed(list(one)), _changed(list(other))) == (removed, added)
