"""Secrets in other tools' files: keys, passwords and headers, recognised by their names and by their forms."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.redaction import MARK
from evalflow.values.jsonvalues import as_list, as_map

_NAME = re.compile(
    r"(?:.*[-_.])?(?:authori[sz]ation|api[-_]?key|passw(?:or)?d|secret(?:[-_]?key)?|cookie|credentials?"
    r"|(?:access|refresh|auth|bearer)[-_]?token)",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"""(?P<before>\b(?:authorization|x-api-key|api[-_]key)["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?)
        (?=[^\s"',}]*\d)[^\s"',}]{6,}
    |(?P<scheme>\bbearer\s+)(?=\S*\d)[\w.~+/=-]{16,}
    |\b[sr]k-(?=[\w-]*\d)[\w-]{16,}|\blsv2_\w{16,}|\bgh[pousr]_\w{30,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}
    |\bxox[abprs]-[\w-]{10,}""",
    re.IGNORECASE | re.VERBOSE,
)


def names_secret(name: str) -> bool:
    """Whether a key, header or parameter of this name holds a secret."""
    return _NAME.fullmatch(name) is not None


def without_secrets(row: Mapping[str, object], ledger: Ledger, where: str) -> dict[str, object]:
    """The row with *** for its secrets, each of which is listed."""
    return {key: _below(key, value, ledger, where) for key, value in row.items()}


def _hidden(value: object, ledger: Ledger, where: str) -> object:
    if isinstance(value, str):
        return _TEXT.sub(lambda secret: _mark(secret, ledger, where), value)
    if isinstance(value, list):
        return [_hidden(item, ledger, where) for item in as_list(value)]
    return without_secrets(as_map(value), ledger, where) if isinstance(value, Mapping) else value


def _below(key: str, value: object, ledger: Ledger, where: str) -> object:
    if isinstance(value, str) and value and names_secret(key):
        _list(f"the value of {key}", ledger, where)
        return MARK
    return _hidden(value, ledger, where)


def _mark(secret: re.Match[str], ledger: Ledger, where: str) -> str:
    _list("a key in a text", ledger, where)
    return f"{secret['before'] or secret['scheme'] or ''}{MARK}"


def _list(what: str, ledger: Ledger, where: str) -> None:
    ledger.leave("secrets", what, where, "secrets are never copied: data/ has *** instead")
