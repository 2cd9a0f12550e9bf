"""Reads HTML. The parser of the standard library takes time by the square of some texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOID = _words("area base br col embed hr img input link meta source track wbr")
_END_IS_OPTIONAL = _words("body caption colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr")
_ELEMENTS = (
    _VOID
    | _END_IS_OPTIONAL
    | _words(
        """a abbr address article aside audio b bdi bdo blockquote button canvas cite code data datalist del details dfn
    dialog div dl em fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup i iframe ins kbd label
    legend main map mark math menu meter nav noscript object ol output picture pre progress q ruby s samp script search
    section select slot small span strong style sub summary sup svg table template textarea time title u ul var
    video"""
    )
)
"""Those of the HTML Standard; custom elements have a hyphen in their names."""
_OTHER_VOCABULARY = frozenset({"svg", "math"})
_UNFINISHED = re.compile(r"<[a-zA-Z/!][^>]*\Z")


def elements(text: str) -> list[str]:
    """The names of the elements in a text; ValueError if their tags do not match."""
    if _UNFINISHED.search(text[text.rfind("<") :]):
        raise ValueError("its last tag is not closed")
    reader = _TagReader()
    reader.feed(text)
    reader.close()
    reader.expect_closed()
    return sorted(reader.tags)


class _TagReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self._expect_known(tag)
        self.tags.add(tag)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag not in _VOID and not self._is_in_other_vocabulary(tag):
            raise self._fault(f"<{_cut(tag)}/> does not close the element")
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1] != tag and self._open[-1] in _END_IS_OPTIONAL:
            self._open.pop()
        if not self._open or self._open.pop() != tag:
            raise self._fault(f"</{_cut(tag)}> closes no element")

    def handle_data(self, data: str) -> None:
        if not self._open and data.strip():
            raise self._fault(f"text outside of all elements: {_cut(data)}")

    def expect_closed(self) -> None:
        if unclosed := next((tag for tag in self._open if tag not in _END_IS_OPTIONAL), None):
            raise ValueError(f"<{unclosed}> is not closed")
        if not self.tags:
            raise ValueError("there is no element")

    def _expect_known(self, tag: str) -> None:
        if tag not in _ELEMENTS and "-" not in tag and not self._is_in_other_vocabulary(tag):
            raise self._fault(f"HTML has no element <{_cut(tag)}>")

    def _is_in_other_vocabulary(self, tag: str) -> bool:
        return not _OTHER_VOCABULARY.isdisjoint([tag, *self._open])

    def _fault(self, what: str) -> ValueError:
        line, column = self.getpos()
        return ValueError(f"line {line}, column {column + 1}: {what}")


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else f"{flat[:39]}…"
