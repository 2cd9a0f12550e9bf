"""JavaScript's patterns match the same in Python, or are refused."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalflow.addons.interop.importers.javascript.charsets import folded
from evalflow.addons.interop.importers.javascript.regex import js_pattern
from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.metrics.operations import CountOperation, PatternOperation
from tests.addons.interop.importers.conftest import Node

pytestmark = pytest.mark.slow

LETTERS = [
    *"abkKsSiIzZ059_- .\n",
    *"éÉßẞſıİσςΣяЯёЁшЩ中ǅǆµμåÅάΆᾳᾼ",
    "\u212a",
    "\u212b",
    "\u0345",
    "\u00a0",
    "\ufeff",
    "\x85",
]
LETTERS += ["👍", "😀", "\U00010428", "\U00010400", "👩\u200d👧", "\u2028", "\r"]
SETS = ["a-z", "Z-a", "0-9", "а-яё", "à-ý", "α-ω", r"\d", r"\w", r"\s", r"\S", r"\W", "-", r"\u00c4", "一-龥"]


def matches(pattern: str, flags: str, text: str) -> bool:
    return (
        PatternOperation.model_validate({"op": "regex", **js_pattern(pattern, flags).keys})
        .test("answer", text, {})
        .passed
    )


@pytest.mark.parametrize(
    ("pattern", "flags", "text", "expected"),
    [
        (r"^\d+$", "", "12", True),
        (r"^\d+$", "", "12\n", False),  # `$` is the very end
        (r"^\d+$", "m", "a\n12", True),
        (r"^\d+$", "", "١٢", False),  # ASCII alone
        (r"^\w+$", "", "é", False),
        (r"a.b", "", "a\rb", False),
        (r"a.b", "s", "a\rb", True),
        (r"a[^]b", "", "a\nb", True),
        (r"a[\s\S]b", "", "a\nb", True),
        (r"a[\S]b", "", "a\nb", False),
        (r"a\sb", "", "a\u00a0b", True),
        (r"a\sb", "", "a\x85b", False),
        (r"a[\s,]b", "", "a\ufeffb", True),
        (r"(?<year>\d{4})-\k<year>", "", "2024-2024", True),
        (r"(a)?\1b", "", "b", True),  # a group without a match is empty
        (r"a{,2}", "", "a{,2}", True),
        (r"{x}", "", "{x}", True),
        (r"\/path\-x", "", "/path-x", True),
        (r"[a&&[]", "", "&", True),
        (r"\u00e9\x41", "", "éA", True),
        (r"\p{L}", "", "p{L}", True),
        (r"[\b]", "", "\b", True),
        (r"\c", "", r"\c", True),
        ("zürich", "i", "ZÜRICH", True),
        ("молоко", "i", "Молоко", True),
        ("[а-я]", "i", "Ж", True),
        ("[^а-я]", "i", "Ж", False),
        ("λόγος", "i", "ΛΌΓΟΣ", True),  # all three forms of sigma are one letter
        ("ß", "i", "ẞ", False),
        ("ß", "iu", "ẞ", True),
        ("s", "i", "ſ", False),
        ("s", "iu", "ſ", True),
        ("k", "i", "\u212a", False),
        ("i", "i", "İ", False),
        ("i", "iu", "ı", False),
        ("^..$", "", "🙂", True),  # two UTF-16 units
        ("^.$", "u", "🙂", True),
        ("^[🙂🙁]$", "", "🙂", False),
        ("^[🙂🙁]$", "u", "🙂", True),
        ("^🙂{2}$", "", "🙂🙂", False),
        ("^🙂{2}$", "u", "🙂🙂", True),
        ("^.*🙂$", "", "🙃🙂", True),
    ],
)
def test_a_pattern_means_the_same(pattern: str, flags: str, text: str, expected: bool) -> None:
    assert matches(pattern, flags, text) == expected


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        ("(?i)abc", ""),
        ("(", ""),
        (")", ""),
        ("[a", ""),
        ("a\\", ""),
        ("(?<=a+)b", ""),
        ("a" * 10_001, ""),
        ("a++", ""),
        ("a**", ""),
        ("{2}", ""),
        ("a{3,2}", ""),
        ("[z-a]", ""),
        (r"\p{L}", "u"),
        ("a}", "u"),
        (r"\k<x>", "u"),
        ("(?<x>a)(?<x>b)", ""),
        (r"\q", "u"),
        ("[a--b]", "v"),
        ("a", "ix"),
        (r"(a)\1", "i"),
        (r"(?:(a)|b\1)+", ""),
        (r"\1(a)", ""),
    ],
)
def test_what_has_no_like_says_so(pattern: str, flags: str) -> None:
    with pytest.raises(Untranslatable, match="pattern"):
        js_pattern(pattern, flags)


def test_only_what_needs_it_counts_in_utf16() -> None:
    assert js_pattern("sk-[a-z]{20,}").keys == {"pattern": "(?a)sk-[a-z]{20,}", "normalize": None}
    assert not js_pattern("^.*[^,]*ok🙂$").utf16
    assert js_pattern(".").utf16


TOKENS = st.one_of(
    st.sampled_from(LETTERS).map(lambda one: f"\\{one}" if one in "-." else one),
    st.lists(st.sampled_from(SETS + LETTERS[:10]), max_size=3).map(lambda parts: f"[{''.join(parts)}]"),
    st.lists(st.sampled_from(SETS), max_size=2).map(lambda parts: f"[^{''.join(parts)}]"),
    st.sampled_from([".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "^", "$", r"\b", r"\B", "|", r"\n", r"\u{1F600}"]),
    st.sampled_from(["(?=a)", "(?!б)", "(?<=k)", "(?<!S)", r"(a|É)", r"(?:ß|s)+", r"(?<n>.)", r"\1", r"(?:.x){2}"]),
)
PATTERNS = st.lists(st.tuples(TOKENS, st.sampled_from(["", "", "", "*", "+", "?", "+?", "{2}"])), max_size=4).map(
    lambda terms: "".join(token + repeat for token, repeat in terms)
)
FLAGS = st.sets(st.sampled_from("imsu")).map("".join)
TEXTS = st.lists(st.lists(st.sampled_from(LETTERS), max_size=7).map("".join), min_size=3, max_size=3)


@given(st.lists(st.tuples(PATTERNS, FLAGS, TEXTS), min_size=40, max_size=40))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
def test_a_pattern_matches_what_node_matches(node: Node, cases: list[Any]) -> None:
    found = node(
        """cases => cases.map(([pattern, flags, texts]) => {
            try { new RegExp(pattern, flags) } catch { return null }
            return texts.map(text => [new RegExp(pattern, flags).test(text),
                (text.match(new RegExp(pattern, flags + "g")) || []).length])
        })""",
        cases,
    )
    for (pattern, flags, texts), expected in zip(cases, found, strict=True):
        try:
            known = js_pattern(pattern, flags)
        except Untranslatable:
            continue
        assert expected is not None, (pattern, flags)
        search = PatternOperation.model_validate({"op": "regex", **known.keys})
        count = CountOperation.model_validate({"op": "count", "min": 0, **known.keys})
        for text, (match, number) in zip(texts, expected, strict=True):
            assert search.test("answer", text, {}).passed == match, (pattern, flags, text)
            counted = count.compiled.count(count.searched(text))
            assert counted == number or not known.takes_some, (pattern, flags, text)


@pytest.mark.parametrize("unicode", [False, True])
def test_letters_are_the_same_that_are_for_node(node: Node, unicode: bool) -> None:
    """Of the letters that this Python knows: a newer Node knows more."""
    known = [chr(point) for point in range(0x20000) if unicodedata.category(chr(point)) not in ("Cn", "Cs")]
    pairs = [
        (one, other)
        for one in known
        for other in {one.upper(), one.lower(), one.casefold(), one.swapcase()} - {one}
        if len(other) == 1 and (unicode or max(one, other) <= "\uffff")
    ]
    alike = [(one, other) for one, other in pairs if same(one, other, unicode=unicode)]
    others = [pair for pair in pairs if pair not in set(alike)]
    test = "([pairs, flags]) => pairs.map(([one, other]) => new RegExp(`^${one}$`, flags).test(other))"
    flags = "iu" if unicode else "i"
    assert all(node(test, [alike, flags]))
    assert not any(node(test, [others, flags]))
    assert len(alike) > 2000
    assert all(one < other for one, other in pairwise(sorted(set(alike))))


def same(one: str, other: str, *, unicode: bool) -> bool:
    return any(low <= ord(other) <= high for low, high in folded(((ord(one), ord(one)),), unicode=unicode))
