"""Convert contexts from the forms in the data to text, title and path."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from evalflow.records import Context
from evalflow.values.cells import NoLiteral, list_in, literal, text_of
from evalflow.values.jsonvalues import as_map, is_list, is_mapping, kind

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--")
_ENTITY = re.compile(r"&(#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);")
_LINE_END = re.compile(r"(?<![ \t])[ \t]++\n")
_GAP = re.compile(r"\n{3,}")
_BLOCKS = ("div", "dl", "dt", "dd", "section", "details", "summary", "fieldset", "form")
_PAGE = "page_content"  # of LangChain's documents
_TEXTS = ("text", _PAGE, "content")
_PATHS = ("path", "source", "url", "file_path")
"""The metadata keys of a document's origin."""
_PRINTED = re.compile(r"Document\(|page_content=['\"]")
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
    """Configure which elements begin a new line, without indentation; inscriptis would join those of a `dl`."""
    css: Any = import_module("inscriptis.css_profiles").RELAXED_CSS_PROFILE
    return import_module("inscriptis.model.config").ParserConfig(css | dict.fromkeys(_BLOCKS, css["figcaption"]))


def contexts(value: object, to_text: Callable[[str], str] = html_text) -> tuple[Context, ...]:
    """A case's contexts: a list of texts or objects, a single one, or a text that is such a list as a whole.

    ValueError for any other form, and for a text that looks like a list and cannot be read as one.
    """
    if isinstance(value, str):
        value = _in_text(value)
    items = value if is_list(value) else [value]
    if not isinstance(value, list | str | Mapping):
        raise ValueError(f"expected a list of contexts, got {kind(value)}")
    return tuple([Context(one) if isinstance(one, str) else _context(one, i, to_text) for i, one in enumerate(items)])


def _in_text(text: str) -> object:
    """Return the list or the object that a text represents, else the text itself."""
    if not text.strip():
        return []
    items = list_in(text)
    if items is not None:
        is_text = text.lstrip().startswith("(") and not all(isinstance(one, str | Mapping) for one in items)
        return text if is_text else items
    bare = text.strip()
    if bare.startswith("{") or _PRINTED.match(bare):
        try:
            value = literal(bare)
        except NoLiteral as error:
            if bare.startswith("{"):
                return text
            hint = "write it as JSON: {text, title, path}"
            raise ValueError(f"a printed document that cannot be read: {error}; {hint}") from None
        return value if any(key in as_map(value) for key in (*_TEXTS, *_CHUNK) if key != "title") else text
    return text


def _context(item: object, index: int, to_text: Callable[[str], str]) -> Context:
    where = f"item {index}"
    if not is_mapping(item):
        raise ValueError(f"{where}: expected text or an object, got {kind(item)}")
    chunk = item
    main = next((key for key in _TEXTS if key in chunk), None)
    if main is not None:
        text = chunk[main]
        if not isinstance(text, str):
            raise ValueError(f"{where}.{main}: expected text, got {kind(text)}")
        title, path = _text(chunk, "title", where), _text(chunk, "path", where)
        about, at = as_map(chunk.get("metadata")), f"{where}.metadata"
        title = _text(about, "title", at) if title is None else title
        path = next(filter(None, (_text(about, key, at) for key in _PATHS)), None) if path is None else path
        return Context(text, title, path)
    if not any(key in chunk for key in _CHUNK if key != "title"):
        forms = f"text, {{text, title, path}}, {{{_PAGE}, metadata}}, {{content}} or {{{', '.join(_CHUNK)}}}"
        raise ValueError(f"{where}: expected {forms}, got the keys {', '.join(chunk) or '(none)'}")
    return Context(_chunk_text(chunk, where, to_text), _text(chunk, "title", where), _text(chunk, "exact_path", where))


def _chunk_text(chunk: Mapping[str, object], where: str, to_text: Callable[[str], str]) -> str:
    """The headings in one line and the description, then a blank line and the content. Missing parts are left out."""
    content = _text(chunk, "html_content", where)
    head = (_headings(chunk.get("heading_hierarchy"), where), _text(chunk, "description", where))
    parts = ("\n".join(part for part in head if part), to_text(content) if content else "")
    return "\n\n".join(part for part in parts if part)


def _headings(value: object, where: str) -> str:
    if value is None:
        return ""
    headings = value if is_list(value) else [value]
    wrong = next((item for item in headings if item is not None and not isinstance(item, str)), None)
    if wrong is not None:
        raise ValueError(f"{where}.heading_hierarchy: expected a list of texts, got {kind(wrong)} in it")
    return " > ".join(item for item in headings if isinstance(item, str) and item)


def _text(chunk: Mapping[str, object], key: str, where: str) -> str | None:
    value = chunk.get(key)
    if value is None:
        return None
    try:
        return text_of(value)
    except ValueError as error:
        raise ValueError(f"{where}.{key}: {error}") from None
