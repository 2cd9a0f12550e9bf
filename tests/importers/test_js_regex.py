"""JavaScript's patterns mean the same in Python."""

from __future__ import annotations

import re

import pytest

from evalflow.importers.js_regex import python_regex
from evalflow.importers.ledger import Untranslatable


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"^\d+$", "12", True),
        (r"^\d+$", "12\n", False),  # `$` is the very end
        (r"^\d+$", "١٢", False),  # ASCII alone
        (r"^\w+$", "é", False),
        (r"a.b", "a\rb", False),
        (r"a[^]b", "a\nb", True),
        (r"a[\s\S]b", "a\nb", True),
        (r"a\sb", "a\u00a0b", True),
        (r"a[\s,]b", "a\ufeffb", True),
        (r"(?<year>\d{4})-\k<year>", "2024-2024", True),
        (r"a{,2}", "a{,2}", True),
        (r"{x}", "{x}", True),
        (r"\/path\-x", "/path-x", True),
        (r"[a&&[]", "&", True),
        (r"\u00e9\x41", "éA", True),
        (r"\p{L}", "p{L}", True),
        (r"[\b]", "\b", True),
    ],
)
def test_a_pattern_means_the_same(pattern: str, text: str, matches: bool) -> None:
    assert (re.search(python_regex(pattern), text) is not None) == matches


@pytest.mark.parametrize("pattern", ["(?i)abc", "(", "[a", "a\\", "(?<=a+)b", "a" * 10_001, r"[\S]"])
def test_what_has_no_like_says_so(pattern: str) -> None:
    with pytest.raises(Untranslatable, match="pattern"):
        python_regex(pattern)
