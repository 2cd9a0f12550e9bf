"""Markdown of strangers is drawn without running, loading or styling anything, and marks do not break it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.studio.web.ui.markdown import LONGEST, Mark, Prose, compared, first_sentence

SAFE = {
    *("p", "br", "strong", "em", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "a", "div"),
    *("table", "thead", "tbody", "tr", "th", "td", "del", "ins", "mark"),
}
ATTACKS = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](  JaVaScRiPt:alert(1))",
    "[a](java&#115;cript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "![a](data:image/svg+xml;base64,PHN2Zz4=)",
    "<javascript:alert(1)>",
    "[a](/projects/default)",
    "[a](//evil.example)",
    "![p](https://tracker.example/p.png)",
    '[a](https://e.example "x\\" onmouseover=alert(1)")',
    '![x" onerror="alert(1)](https://e.example)',
    "<style>* { display: none }</style>",
    '<p style="position: fixed">',
    "<!-- --><svg onload=alert(1)>",
    "[a]: javascript:alert(1)\n\n[a]",
    "|a|\n|-|\n|<iframe src=https://e.example>|",
    "```<script>\nx</code></pre><script>\n```",
    "`</code><script>`",
]


class _Read(HTMLParser):
    """The elements with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.said = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def assert_safe(html: str) -> _Read:
    read = _Read(html)
    for tag, attributes in read.tags:
        assert tag in SAFE
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "id")]
        if tag == "a":
            assert re.match(r"(https?|mailto):", str(attributes["href"]))
            assert attributes["rel"] == "noopener noreferrer nofollow"
    return read


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_text(attack: str) -> None:
    assert_safe(str(Prose(attack).marked()))


@given(st.lists(st.sampled_from([*ATTACKS, *"*_`[]()<>|\n&\"' ", "a", "- ", "> ", "# ", "1. ", "```\n"]), max_size=12))
def test_whatever_is_written_is_safe_and_says_all_of_its_text(parts: list[str]) -> None:
    prose = Prose("".join(parts))
    whole = assert_safe(str(prose.marked())).said
    ends = sorted({0, len(prose.plain) // 3, len(prose.plain) // 2, len(prose.plain)})
    marks = [Mark(low, high, "mark") for low, high in pairwise(ends)]
    assert assert_safe(str(prose.marked(marks))).said == whole


def test_a_picture_is_a_link() -> None:
    (_, link) = _Read(str(Prose("![plan](https://e.example/p.png)").marked())).tags
    assert link[0] == "a"
    assert link[1]["href"] == "https://e.example/p.png"


def test_what_differs_is_marked_across_signs_tables_and_code() -> None:
    before, after = Prose("It is **40** pounds.\n\n|a|\n|-|\n|`x`|"), Prose("It is **50** pounds.\n\n|a|\n|-|\n|`y`|")
    found = compared(before, after)
    drawn = str(before.marked(found.before)), str(after.marked(found.after))
    assert "<strong><del>40</del></strong>" in drawn[0]
    assert "<code><del>x</del></code>" in drawn[0]
    assert "<strong><ins>50</ins></strong>" in drawn[1]
    assert 0 < found.share < 0.5


def test_quotes_are_found_however_they_are_spaced() -> None:
    prose = Prose("First. The fee is\n**4 pounds** a day. Last.")
    drawn = str(prose.marked(prose.quoted(["the fee is 4  pounds a day.", "First.", "absent from it altogether"])))
    assert "".join(re.findall("<mark>(.*?)</mark>", drawn)) == "The fee is4 pounds a day."


def test_a_text_that_is_too_long_is_shown_as_it_is() -> None:
    prose = Prose("**a** <b>\n" * LONGEST)
    assert str(prose.marked()).startswith('<div class="as-is" dir="auto">**a** &lt;b&gt;')


@pytest.mark.parametrize(
    ("content", "first"),
    [
        ("It is **3.5** pounds, e.g. here. It is right.", "It is 3.5 pounds, e.g. here."),
        ("\n\n# Title\n\nMore.", "Title"),
        ("費用は四ポンドです。次。", "費用は四ポンドです。"),
        ("", ""),
    ],
)
def test_the_first_sentence(content: str, first: str) -> None:
    assert first_sentence(content) == first
