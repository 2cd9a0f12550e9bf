"""Quote overrides typed by people where Hydra's grammar needs quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import product

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException

from evalflow.values.jsonvalues import is_list, is_mapping

_PLAIN = re.compile(r"[\w.+~@/-]+=[\w./:-]*", re.ASCII)
"""Matches overrides that Hydra certainly parses, which is most of them."""
_KEY = re.compile(r"[\w /\-+.$%*@?|()\[\]{}:=,]+", re.ASCII)
"""Matches map keys that can be written, with a backslash before some characters."""
_RUNS = re.compile(
    r"""(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(?=\s*(?:[][{}(),:]|\Z))|(?P<sign>[][{}(),:\s])|[^][{}(),:\s]+""",
    re.DOTALL,
)
"""The tokens of a value: a quoted text, a sign of lists, maps and functions, or a word."""
_CALL = re.compile(r"(choice|range|interval|glob|sort|shuffle|tag|extend_list|int|float|str|bool|json_str)\(.*\)", re.S)


def quoted(overrides: Sequence[str]) -> list[str]:
    """Quote the texts in overrides that Hydra cannot parse; return all other overrides unchanged.

    Commas outside quotes still separate items of a sweep or a list. An override that quotes cannot fix is unchanged.
    """
    return [word if _PLAIN.fullmatch(word) or _is_readable(word) else _mended(word) for word in overrides]


def jobs_of(overrides: Sequence[str]) -> Iterator[list[str]]:
    """Return the overrides of each run of a sweep, the last override varying fastest.

    Example:
        >>> list(jobs_of(["limit=5", "judge=a,b"]))
        [['limit=5', 'judge=a'], ['limit=5', 'judge=b']]
    """
    parsed = OverridesParser.create().parse_overrides(quoted(overrides))
    swept = [list(one.sweep_string_iterator()) if one.is_sweep_override() else [] for one in parsed]
    keys = [str(one.input_line).partition("=")[0] for one in parsed]
    lines = [[f"{key}={value}" for value in values] for key, values in zip(keys, swept, strict=True)]
    whole = [values or [str(one.input_line)] for one, values in zip(parsed, lines, strict=True)]
    yield from map(list, product(*whole))


def assignment(key: str, value: object) -> str:
    r"""Return the override that sets a key to a JSON value; ValueError if Hydra cannot parse the key of a map in it.

    Example:
        >>> assignment("+metric.tone.values", {"kind": 1, "not kind": 0.0})
        '+metric.tone.values={kind: 1, not\\ kind: 0.0}'
    """
    return f"{key}={_literal(value)}"


def _literal(value: object) -> str:
    if is_mapping(value):
        return f"{{{', '.join(f'{_key(str(name))}: {_literal(one)}' for name, one in value.items())}}}"
    if is_list(value):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        return _in_quotes(value.replace("${", "\\${"))
    return json.dumps(value)


def _key(name: str) -> str:
    if not _KEY.fullmatch(name):
        raise ValueError(f"{name!r} has signs that cannot be written here")
    return re.sub(r"[ ()\[\]{}:=,]", r"\\\g<0>", name)


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
    return next((candidate for text in tries if _is_readable(candidate := f"{key}={text}")), word)


def _pieces(value: str, signs: str) -> Iterator[str]:
    """Quote the unparsable texts in a value. Texts are separated by commas, brackets and these signs."""
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
