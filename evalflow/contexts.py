"""Converts contexts from the forms in the data to text, title and path."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, cast

from evalflow.jsonvalues import kind
from evalflow.records import Context

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--")
_ENTITY = re.compile(r"&(#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);")
_LINE_END = re.compile(r"[ \t]+\n")
_GAP = re.compile(r"\n{3,}")
_BLOCKS = ("dl", "dt", "dd", "section", "details", "summary", "fieldset", "form")
_CHUNK = ("exact_path", "title", "heading_hierarchy", "description", "html_content")


def html_text(source: str) -> str:
    """HTML as the text a reader sees. Text without markup is returned unchanged, line breaks included."""
    if "<" not in source and "&" not in source:
        return source
    if _TAG.search(source):
        from inscriptis import get_text  # pyright: ignore[reportMissingTypeStubs]

        text = _LINE_END.sub("\n", get_text(source, _parser()))
        return _GAP.sub("\n\n", text).strip("\n").rstrip()
    return html.unescape(source) if _ENTITY.search(source) else source


@cache
def _parser() -> Any:
    """What begins a new line; without it, inscriptis runs the entries of a definition list together."""
    css: Any = import_module("inscriptis.css_profiles").RELAXED_CSS_PROFILE
    return import_module("inscriptis.model.config").ParserConfig(css | dict.fromkeys(_BLOCKS, css["figcaption"]))


def contexts(value: Any, to_text: Callable[[str], str] = html_text) -> tuple[Context, ...]:
    """A case's contexts: a list of them, or a single text; ValueError for any other form."""
    if isinstance(value, str):
        return (Context(value),)
    if not isinstance(value, list):
        raise ValueError(f"expected a list of contexts, got {kind(value)}")
    items = enumerate(cast("list[Any]", value))
    return tuple([Context(one) if isinstance(one, str) else _context(one, i, to_text) for i, one in items])


def _context(item: Any, index: int, to_text: Callable[[str], str]) -> Context:
    where = f"item {index}"
    if not isinstance(item, dict):
        raise ValueError(f"{where}: expected text or an object, got {kind(item)}")
    chunk = cast("dict[str, Any]", item)
    if "text" in chunk:
        text = chunk["text"]
        if not isinstance(text, str):
            raise ValueError(f"{where}.text: expected text, got {kind(text)}")
        return Context(text, _text(chunk, "title", where), _text(chunk, "path", where))
    if not any(key in chunk for key in _CHUNK):
        forms = f"text, {{text, title, path}} or {{{', '.join(_CHUNK)}}}"
        raise ValueError(f"{where}: expected {forms}, got the keys {', '.join(chunk) or '(none)'}")
    return Context(_chunk_text(chunk, where, to_text), _text(chunk, "title", where), _text(chunk, "exact_path", where))


def _chunk_text(chunk: dict[str, Any], where: str, to_text: Callable[[str], str]) -> str:
    """The headings in one line and the description, then a blank line and the content. Missing parts are left out."""
    content = _text(chunk, "html_content", where)
    head = (_headings(chunk.get("heading_hierarchy"), where), _text(chunk, "description", where))
    parts = ("\n".join(part for part in head if part), to_text(content) if content else "")
    return "\n\n".join(part for part in parts if part)


def _headings(value: Any, where: str) -> str:
    if value is None:
        return ""
    headings = cast("list[Any]", value if isinstance(value, list) else [value])
    wrong = next((item for item in headings if item is not None and not isinstance(item, str)), None)
    if wrong is not None:
        raise ValueError(f"{where}.heading_hierarchy: expected a list of texts, got {kind(wrong)} in it")
    return " > ".join(item for item in headings if item)


def _text(chunk: dict[str, Any], key: str, where: str) -> str | None:
    value = chunk.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{where}.{key}: expected text, got {kind(value)}")
    return value
