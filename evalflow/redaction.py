"""Keeps secrets out of what is written and shown: however they are spelled, base64 included."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

SHORTEST = 6
"""Characters; a shorter value is a placeholder such as `none`, which would be struck out everywhere."""
SHORTEST_IN_DATA = 16
"""The same for what is scored, such as a reply, which may well contain a short word for its own reasons."""
MARK = "***"
_VARIABLE = re.compile(r"\$\{oc\.env:\s*([A-Za-z_]\w*)")
_SHOWN = frozenset({"name", "model", "path", "base_url", "url"})


class Redactor:
    """Strikes secrets out.

    Args:
        secrets: In plain text.

    Attributes:
        hides_data: Whether `data` ever changes a text.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found = {secret.strip() for secret in secrets}
        self._text = _pattern(secret for secret in found if len(secret) >= SHORTEST)
        self._data = _pattern(secret for secret in found if len(secret) >= SHORTEST_IN_DATA)
        self.hides_data = self._data is not None

    def text(self, text: str) -> str:
        """A message of ours, such as an error or a line of the log, without the secrets."""
        return self._text.sub(MARK, text) if self._text else text

    def data(self, text: str) -> str:
        """What a target or a judge said, as text or as JSON, without the secrets that cannot be there by chance."""
        return self._data.sub(MARK, text) if self._data else text


def environment_values(config: Any, *, key: str = "") -> set[str]:
    """What the variables hold that a configuration names by `${oc.env:NAME}`, but for names, paths and addresses.

    Those are shown on purpose; what is secret in an address is found there. Interpolations of `config` are unresolved.
    """
    if isinstance(config, Mapping):
        named = cast("Mapping[Any, Any]", config).items()
        return {value for name, inner in named for value in environment_values(inner, key=str(name))}
    if isinstance(config, list | tuple):
        return {value for inner in cast("Sequence[Any]", config) for value in environment_values(inner, key=key)}
    if not isinstance(config, str) or key in _SHOWN:
        return set()
    return {os.environ.get(name, "") for name in _VARIABLE.findall(config)}


def parts_of_header(value: str) -> set[str]:
    """What is secret of a header's value: the whole, what follows the scheme, and what that says in base64."""
    token = value.rpartition(" ")[2]
    found = {value, token}
    try:
        plain = base64.b64decode(token, validate=True).decode("ascii")
    except ValueError:
        return found
    return found | ({plain, plain.partition(":")[2]} if ":" in plain and plain.isprintable() else set())


def _pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
    # The longest first, or a part of it would be struck out and the rest stay.
    patterns = [_written(one) for one in sorted(spellings, key=lambda one: (-len(one), one))]
    return re.compile("|".join(patterns)) if patterns else None


def _written(spelling: str) -> str:
    """As it may stand in JSON, or in JSON within JSON: some encoders escape slashes, quotes and plus signs."""
    pattern = re.escape(spelling).replace("/", r"\\*/").replace('"', r'\\*"')
    return pattern.replace(r"\+", r"(?:\+|\\+u002[bB])")


def _spellings(secret: str) -> set[str]:
    """The secret in plain text, percent-encoded, and in base64, also where it is a part of what is encoded."""
    found = {secret, quote(secret, safe="")}
    data = secret.encode("utf-8", "replace")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # What the bytes around it change is left out: the first characters, and the last one of an unfinished group.
        core = encoded.rstrip("=")[(0, 2, 3)[before] :]
        core = core if (len(data) + before) % 3 == 0 else core[:-1]
        found |= {core, core.replace("+", "-").replace("/", "_")}
    return {one for one in found if len(one) >= SHORTEST}
