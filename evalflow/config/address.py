"""Addresses without what is secret in them."""

from __future__ import annotations

from urllib.parse import urlsplit


def public_address(url: str) -> str:
    """An address without user, password and query."""
    return urlsplit(without_user(url))._replace(query="", fragment="").geturl()


def without_user(url: str) -> str:
    """An address without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
