"""Renders texts of people and models as Markdown. Nothing in them runs, is styled, or is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

from evalflow.report.word_changes import word_changes

LONGEST = 20_000
"""Maximum characters to render as Markdown; a longer text is shown unchanged."""
_SCHEMES = ("http", "https", "mailto")
_SHORTEST_QUOTE = 12
"""Minimum characters of a quote; a shorter common text is just a shared word."""
_MOST_QUOTED = 0.9
"""From this share of the text on, a quote is the whole text and is not marked."""
MarkTag = Literal["del", "ins", "mark"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a text with its own element, from `start` to `end` in characters of `Prose.plain`."""

    start: int
    end: int
    tag: MarkTag


class Prose:
    """A parsed text: `plain` is its content without Markdown signs, `marked` its HTML."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._tokens = _PARSER.parse(content) if len(content) <= LONGEST else None

    @cached_property
    def plain(self) -> str:
        """The text of paragraphs, cells and code, one line each."""
        return self._content if self._tokens is None else "".join(_leaves(self._tokens))

    def marked(self, marks: Sequence[Mark] = ()) -> Markup:
        """The HTML, with stretches marked; they are in order and do not overlap."""
        ink = _Ink(marks)
        if self._tokens is None:
            return Markup(f'<div class="as-is" dir="auto">{ink.draw(self._content)}</div>')  # noqa: S704 - escaped by `draw`
        html = _PARSER.renderer.render(self._tokens, _PARSER.options, {_INK: ink})
        return Markup(html)  # noqa: S704 - the parser escapes all text, and reads no HTML

    def quoted(self, quotes: Sequence[str]) -> list[Mark]:
        """Marks on the passages that others quote, ignoring spaces."""
        spans: list[tuple[int, int]] = []
        for quote in dict.fromkeys(" ".join(quote.split()) for quote in quotes):
            if _SHORTEST_QUOTE <= len(quote) < _MOST_QUOTED * len(self.plain):
                pattern = r"\s+".join(map(re.escape, quote.split()))
                spans += [match.span() for match in re.finditer(pattern, self.plain, re.IGNORECASE)]
        return [Mark(start, end, "mark") for start, end in _apart(sorted(spans))]


@dataclass(frozen=True, slots=True)
class Compared:
    """The difference of two texts: marks on each, and the marked share of both."""

    before: Sequence[Mark]
    after: Sequence[Mark]
    share: float


def compared(before: Prose, after: Prose) -> Compared:
    """Mark the words that only one of two texts has: `del` in the first, `ins` in the second."""
    marks: list[list[Mark]] = []
    tags: tuple[MarkTag, MarkTag] = ("del", "ins")
    for tag, stretches in zip(tags, word_changes(before.plain, after.plain), strict=True):
        at, side_marks = 0, list[Mark]()
        for stretch in stretches:
            end = at + len(stretch.content)
            if stretch.is_changed:
                side_marks.append(Mark(at, end, tag))
            at = end
        marks.append(side_marks)
    whole = len(before.plain) + len(after.plain)
    changed = sum(one.end - one.start for side in marks for one in side)
    return Compared(marks[0], marks[1], changed / whole if whole else 0.0)


def first_sentence(content: str, most: int = 240) -> str:
    """The first sentence of a text without Markdown signs, cut at `most` characters."""
    line = next((line.strip() for line in Prose(content).plain.splitlines() if line.strip()), "")
    sentence = re.split(r"(?<=[.!?…])\s+(?=[^a-z\s])|(?<=[。！？])", line, maxsplit=1)[0]
    return sentence if len(sentence) <= most else f"{sentence[:most].rstrip()}…"


def _apart(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sorted spans; touching ones are joined."""
    start = end = -1
    for first, last in spans:
        if first <= end:
            end = max(end, last)
            continue
        if end > start:
            yield start, end
        start, end = first, last
    if end > start:
        yield start, end


def _leaves(tokens: Sequence[Token]) -> Iterator[str]:
    """The texts in the order in which they are drawn; `_Ink` counts the same characters."""
    for token in tokens:
        if token.type == "inline":
            yield from _leaves(token.children or ())
            yield "\n"
        elif token.type in ("text", "code_inline"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield "\n"
        elif token.type in ("fence", "code_block"):
            yield f"{token.content.rstrip(chr(10))}\n"


_INK = "ink"


class _Ink:
    """Draws the leaves in order, with the marks in each."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self._marks, self._next, self.at = marks, 0, 0

    def draw(self, leaf: str) -> str:
        start, parts, done = self.at, list[str](), 0
        self.at += len(leaf)
        while self._next < len(self._marks):
            mark = self._marks[self._next]
            first, last = max(mark.start - start, done), min(mark.end - start, len(leaf))
            if first >= len(leaf):
                break
            if last > first:
                parts += [str(escape(leaf[done:first])), f"<{mark.tag}>{escape(leaf[first:last])}</{mark.tag}>"]
                done = last
            if mark.end > start + len(leaf):
                break
            self._next += 1
        return "".join([*parts, str(escape(leaf[done:]))])


class _Renderer(RendererHTML):
    """Markdown-it's renderer with texts drawn by `_Ink`: no headings of the page, no styles, no pictures."""

    def renderInline(self, tokens: Sequence[Token], options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        rendered = super().renderInline(tokens, options, env)
        env[_INK].at += 1
        return rendered

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return env[_INK].draw(tokens[idx].content)

    def code_inline(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return f"<code>{env[_INK].draw(tokens[idx].content)}</code>"

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        code = env[_INK].draw(tokens[idx].content.rstrip("\n"))
        env[_INK].at += 1
        return f'<pre tabindex="0" dir="ltr"><code>{code}</code></pre>'

    code_block = fence

    def softbreak(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        env[_INK].at += 1
        return "<br>"

    hardbreak = softbreak

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """A link instead of the picture: loading it would tell its server who reads the answer, and when."""
        token = tokens[idx]
        title = escape(token.content or "picture")
        return f"<a {_elsewhere(str(token.attrs.get('src', '')))}>Picture: {title}</a>"


def _elsewhere(url: str) -> str:
    return f'href="{escape(url)}" title="{escape(url)}" target="_blank" rel="noopener noreferrer nofollow"'


def _link(_: object, tokens: Sequence[Token], idx: int, *__: Any) -> str:
    return f"<a {_elsewhere(str(tokens[idx].attrs.get('href', '')))}>"


def _opens(tag: str) -> Callable[..., str]:
    """An opening tag without the attributes of the token, in the direction of its own letters."""
    return lambda *_: f'<{tag} dir="auto">'


def _paragraph(_: object, tokens: Sequence[Token], idx: int, *__: Any) -> str:
    return "" if tokens[idx].hidden else '<p dir="auto">'


def _heading(closing: bool) -> Callable[..., str]:
    def draw(_: object, tokens: Sequence[Token], idx: int, *__: Any) -> str:
        return "</p>" if closing else f'<p class="titled level-{tokens[idx].tag[1]}" dir="auto">'

    return draw


def _is_safe(url: str) -> bool:
    """Whether a link is safe: it leads to a web page or mail address outside of the application."""
    try:
        return urlsplit(url.strip()).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _cell(_: object, tokens: Sequence[Token], idx: int, *__: Any) -> str:
    align = re.fullmatch(r"text-align:(left|center|right)", str(tokens[idx].attrs.get("style", "")))
    return f'<{tokens[idx].tag} class="{align[1] if align else "left"}" dir="auto">'


def _parser() -> MarkdownIt:
    """CommonMark with tables and strikethrough; HTML is text, and a line break is one."""
    made = MarkdownIt("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer)
    made.enable(["table", "strikethrough"])
    made.validateLink = _is_safe  # pyright: ignore[reportAttributeAccessIssue] - how its documentation has it
    rules: dict[str, Callable[..., str]] = {
        **{"link_open": _link, "th_open": _cell, "td_open": _cell},
        **{"heading_open": _heading(closing=False), "heading_close": _heading(closing=True)},
        **{"paragraph_open": _paragraph, "list_item_open": _opens("li"), "blockquote_open": _opens("blockquote")},
        "table_open": lambda *_: '<div class="scrolls" tabindex="0" role="group" aria-label="Table"><table>',
        "table_close": lambda *_: "</table></div>",
    }
    for name, rule in rules.items():
        made.add_render_rule(name, rule)
    return made


_PARSER = _parser()
