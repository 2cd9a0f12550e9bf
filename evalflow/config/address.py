"""Addresses without their secrets."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

SECRET_NAME = re.compile(
    r"authori[sz]ation|\bauth\b|api[-_]?key|\bkey\b|token|cookie|secret|passw|credential|signature|session",
    re.IGNORECASE,
)
"""Names of headers and query parameters whose values are secret."""


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
