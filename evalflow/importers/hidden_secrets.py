"""Secrets that other tools recorded with what was said: headers and keys within texts and arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from evalflow.redaction import MARK

_NAME = re.compile(
    r"(?:.*[-_.])?(?:authori[sz]ation|api[-_]?key|passw(?:or)?d|secret|cookie|credentials?|(?:access|refresh|auth)[-_]?token)",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"""(?P<before>\b(?:authorization|x-api-key|api[-_]key)["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?)[^\s"',}]{6,}
    |(?P<scheme>\bbearer\s+)(?=\S*\d)[\w.~+/=-]{16,}
    |\bsk-[\w-]{16,}|\bgh[pousr]_\w{30,}|\bAKIA[0-9A-Z]{16}\b|\bxox[abprs]-[\w-]{10,}""",
    re.IGNORECASE | re.VERBOSE,
)


class HiddenSecrets:
    """Replaces secrets in values by ***, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def hide(self, value: Any) -> Any:
        """The value without secrets: those of keys with a secret's name, and those that texts show."""
        if isinstance(value, str):
            return _TEXT.sub(self._hidden, value)
        if isinstance(value, list):
            return [self.hide(one) for one in cast("list[Any]", value)]
        if isinstance(value, Mapping):
            known = cast("Mapping[str, Any]", value)
            return {key: self._below(key, inner) for key, inner in known.items()}
        return value

    def _below(self, key: str, value: Any) -> Any:
        if isinstance(value, str) and value and _NAME.fullmatch(key):
            self.count += 1
            return MARK
        return self.hide(value)

    def _hidden(self, found: re.Match[str]) -> str:
        self.count += 1
        return f"{found['before'] or found['scheme'] or ''}{MARK}"
