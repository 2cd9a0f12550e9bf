"""Keeps secrets out of everything written and shown, in any spelling, base64 included; and out of addresses."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

SHORTEST = 6
"""Minimum characters of a secret. A shorter one is a placeholder such as `none`, which would hide ordinary words."""
SHORTEST_IN_DATA = 16  # the same for data such as a reply, which may contain a short word by chance
MARK = "***"
_VARIABLE = re.compile(r"\$\{oc\.env:\s*([A-Za-z_]\w*)")
_SHOWN = frozenset({"name", "model", "path", "base_url", "url"})


class Redactor:
    """Removes secrets; `hides_data` says whether `data` ever changes a text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        values = {secret.strip() for secret in secrets}
        self._text = _pattern(secret for secret in values if len(secret) >= SHORTEST)
        self._data = _pattern(secret for secret in values if len(secret) >= SHORTEST_IN_DATA)
        self.hides_data = self._data is not None

    def text(self, text: str) -> str:
        """A message of evalflow, such as an error or a line of the log, without the secrets."""
        return self._text.sub(MARK, text) if self._text else text

    def data(self, text: str) -> str:
        """A target's or a judge's output, as text or as JSON, without secrets too long to be there by chance."""
        return self._data.sub(MARK, text) if self._data else text


def environment_values(config: Any, *, key: str = "") -> set[str]:
    """The values of variables that a configuration reads with `${oc.env:NAME}`, except names, paths and addresses.

    Those are shown on purpose; `secrets_in` finds the secrets in an address. `config` has unresolved interpolations.
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
    """The secrets in a header's value: all of it, the part after the scheme, and that part decoded from base64."""
    token = value.rpartition(" ")[2]
    parts = {value, token}
    try:
        plain = base64.b64decode(token, validate=True).decode("ascii")
    except ValueError:
        return parts
    return parts | ({plain, plain.partition(":")[2]} if ":" in plain and plain.isprintable() else set())


def _pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
    # The longest first; otherwise a part would be removed and the rest would stay.
    patterns = [_written(one) for one in sorted(spellings, key=lambda one: (-len(one), one))]
    return re.compile("|".join(patterns)) if patterns else None


def _written(spelling: str) -> str:
    """A pattern for it in JSON, or in JSON within JSON: some encoders escape slashes, quotes and plus signs."""
    pattern = re.escape(spelling).replace("/", r"\\*/").replace('"', r'\\*"')
    return pattern.replace(r"\+", r"(?:\+|\\+u002[bB])")


def _spellings(secret: str) -> set[str]:
    spellings = {secret, quote(secret, safe="")}
    data = secret.encode("utf-8", "replace")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # Leave out what adjacent bytes change: the first characters, and the last one of an incomplete group.
        core = encoded.rstrip("=")[(0, 2, 3)[before] :]
        core = core if (len(data) + before) % 3 == 0 else core[:-1]
        spellings |= {core, core.replace("+", "-").replace("/", "_")}
    return {one for one in spellings if len(one) >= SHORTEST}


SECRET_NAME = re.compile(
    r"authori[sz]ation|\bauth\b|api[-_]?key|\bkey\b|token|cookie|secret|passw|credential|signature|session",
    re.IGNORECASE,
)  # names of headers and query parameters whose values are secret


def public_address(url: str) -> str:
    """An address without user, password and query."""
    return urlsplit(without_user(url))._replace(query="", fragment="").geturl()


def without_user(url: str) -> str:
    """An address without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def secrets_in(url: str) -> set[str]:
    """The secrets in an address: its password, and the values of parameters with a secret's name."""
    parts = urlsplit(url)
    password = parts.password or ""
    return {password, unquote(password), *(value for name, value in parse_qsl(parts.query) if SECRET_NAME.search(name))}
