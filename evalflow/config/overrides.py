"""Overrides as people type them, in the quotes that Hydra's grammar wants around letters and signs it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException

_PLAIN = re.compile(r"[\w.+~@/-]+=[\w./:-]*", re.ASCII)
"""Overrides that Hydra reads for certain, which is most of them."""
_RUNS = re.compile(
    r"""(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(?=\s*(?:[][{}(),:]|\Z))|(?P<sign>[][{}(),:\s])|[^][{}(),:\s]+""",
    re.DOTALL,
)
"""The pieces of a value: a quoted text, a sign of lists, maps and functions, or a word."""
_CALL = re.compile(r"(choice|range|interval|glob|sort|shuffle|tag|extend_list|int|float|str|bool|json_str)\(.*\)", re.S)


def quoted(overrides: Sequence[str]) -> list[str]:
    """The overrides; of those that Hydra cannot read, with quotes around the texts that it cannot read.

    A comma outside of quotes stays the comma of a sweep or a list. What no quotes help is left as it is.
    """
    return [word if _PLAIN.fullmatch(word) or _is_readable(word) else _mended(word) for word in overrides]


def _is_readable(word: str) -> bool:
    try:
        OverridesParser.create().parse_override(word)
    except (HydraException, RecursionError):
        return False
    return True


def _mended(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals:
        return word
    whole = value.startswith(("[", "{")) and value.endswith(("]", "}"))
    signs = ":" if whole else "()" if _CALL.fullmatch(value) else ""
    tries = ["".join(_pieces(value, signs)), *([] if whole else [_in_quotes(value)])]
    return next((found for text in tries if _is_readable(found := f"{key}={text}")), word)


def _pieces(value: str, signs: str) -> Iterator[str]:
    """The value with its unreadable texts in quotes. Between texts are commas, brackets and these signs."""
    text = ""
    for piece in _RUNS.finditer(value):
        ends = piece["sign"] is not None and (piece[0] in ",[]{}" or piece[0] in signs)
        if piece["quoted"] is None and not ends:
            text += piece[0]
            continue
        yield from (_readable_text(text), piece[0])
        text = ""
    yield _readable_text(text)


def _readable_text(text: str) -> str:
    bare = text.strip()
    if not bare or _is_readable(f"key={bare}"):
        return text
    return text.replace(bare, _in_quotes(bare))


def _in_quotes(text: str) -> str:
    return QuotedString(text, Quote.double).with_quotes()
