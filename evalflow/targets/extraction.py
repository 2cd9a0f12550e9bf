"""Find the part of an answer that is scored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from evalflow.config.extraction import Extraction
from evalflow.values.jsonvalues import (
    Path,
    WrittenFloat,
    is_list,
    is_object,
    is_too_deep,
    mended,
    refuse_constant,
    written,
)

if TYPE_CHECKING:
    from regex import Match

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_TRIED = 1000  # maximum number of braces in a text that do not begin an object
_LATEX = re.compile(r"\\(?:boxed|fbox|text|textbf|mathrm|mathbf|operatorname)\s*\{(.*)\}", re.DOTALL)
_PAIRS = (
    ("**", "**"),
    ("__", "__"),
    ("~~", "~~"),
    ("$$", "$$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("*", "*"),
    ("_", "_"),
    ("`", "`"),
    ("$", "$"),
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("‘", "’"),
    ("„", "“"),
    ("«", "»"),
    ("(", ")"),
    ("[", "]"),
    ("{", "}"),
    ("<", ">"),
)


def extracted(config: Extraction, text: str) -> str | None:
    """The part of a text that counts; None if it is missing or blank. LimitExceeded for a search without end."""
    kept: str | None = None
    for part in _parts(config, text):
        bare = cleaned(part) if config.clean else part.strip()
        if bare:
            kept = bare
            if "first" in (config.line, config.match if config.line is None else None):
                break
    return kept


def _parts(config: Extraction, text: str) -> Iterable[str]:
    if config.pattern is not None:
        return (_group(match, config.group) for match in config.expression.finditer(text))
    if config.path is not None:
        return _at(config.place, text, first=config.match == "first")
    if config.after is not None:
        whole = text.partition(config.after) if config.match == "first" else text.rpartition(config.after)
        return [whole[2]] if whole[1] else []
    return text.splitlines()


def _group(match: Match[str], group: int | str | None) -> str:
    """The text of the group; without one, of the first group that matched, or of the whole match."""
    if group is not None:
        return match.group(group) or ""
    groups = match.groups()
    return next((part for part in groups if part is not None), "") if groups else match.group()


def _at(path: Path, text: str, *, first: bool) -> Iterable[str]:
    """Return a path's match in an answer's JSON: the whole answer, else the last code block or object that has one."""
    whole = _document(text)
    for documents in ([whole],) if whole is not None else (_blocks(text), _objects(text)):
        in_order = list(documents)
        for document in in_order if first else reversed(in_order):
            if texts := [_as_text(match) for match in path.matches(document) if match is not None]:
                return texts
    return []


def _blocks(text: str) -> Iterator[object]:
    return (block for block in (_document(match[1]) for match in _FENCE.finditer(text)) if block is not None)


def _as_text(value: object) -> str:
    return _as_json(value) if is_object(value) or is_list(value) or isinstance(value, WrittenFloat) else written(value)


def _as_json(value: object) -> str:
    if isinstance(value, WrittenFloat):
        return value.text
    if is_list(value):
        return f"[{', '.join(map(_as_json, value))}]"
    if is_object(value):
        pairs = sorted(value.items())
        return f"{{{', '.join(f'{json.dumps(key, ensure_ascii=False)}: {_as_json(part)}' for key, part in pairs)}}}"
    return json.dumps(value, ensure_ascii=False)


_DECODER = json.JSONDecoder(parse_float=WrittenFloat, parse_constant=refuse_constant, strict=False)


def _document(text: str) -> object:
    """The object or list in a JSON text; None if it is something else."""
    try:
        value: object = _DECODER.decode(mended(text.encode("utf-8", "replace")).decode().lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None
    return value if (is_object(value) or is_list(value)) and not is_too_deep(value) else None


def _objects(text: str) -> Iterator[object]:
    """Return the objects in a text among other words; ValueError if too many braces do not begin one."""
    text = mended(text.encode("utf-8", "replace")).decode()
    at = failed = 0
    while (at := text.find("{", at)) >= 0:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at, failed = at + 1, failed + 1
            if failed > _TRIED:
                raise ValueError(f"more than {_TRIED:,} braces of the answer begin no JSON") from None
            continue
        if not is_too_deep(value):
            yield value


def cleaned(text: str) -> str:
    """A text without Markdown, LaTeX, quotes and brackets around it, and without punctuation at its end."""
    while True:
        bare = text.strip().rstrip(".,;:!").strip()
        if (latex := _LATEX.fullmatch(bare)) and _is_balanced(latex[1]):
            bare = latex[1]
        for opening, closing in _PAIRS:
            inner = bare[len(opening) : len(bare) - len(closing)]
            if inner and bare.startswith(opening) and bare.endswith(closing) and _encloses(opening, closing, inner):
                bare = inner
                break
        if bare == text:
            return bare
        text = bare


def _encloses(opening: str, closing: str, inner: str) -> bool:
    """Whether two marks belong together: not those of `(a) or (b)`, of which each belongs to another one within."""
    if opening == closing:
        return opening not in inner
    depth = 0
    for character in inner if len(opening) == 1 else ():
        depth += (character == opening) - (character == closing)
        if depth < 0:
            return False
    return len(opening) == 1 or closing not in inner


def _is_balanced(inner: str) -> bool:
    return _encloses("{", "}", inner)
