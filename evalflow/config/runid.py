"""Readable, unique names of runs."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
_NAMED = ("experiment", "dataset", "metric")


def new_run_id(overrides: Sequence[str]) -> str:
    """A new id of the time, the overrides, and four random characters: 2026-11-21T14-03-22Z_rag_faithfulness_x7k2.

    Args:
        overrides: The command line's overrides.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    values = {key: value for key, _, value in (override.partition("=") for override in overrides)}
    words = [slug(values[key], 40) for key in _NAMED if values.get(key)]
    tail = "".join(secrets.choice(_ALPHABET) for _ in range(4))
    return "_".join([now, *filter(None, words), tail])


def sweep_slug(overrides: Sequence[str], swept: Collection[str]) -> str:
    """The folder name of a job: its values of the swept overrides, at most 80 characters."""
    return slug("_".join(o for o in overrides if o.partition("=")[0].lstrip("+~") in swept), 80) or "job"


def slug(text: str, length: int) -> str:
    """`text` as a file name: letters, digits, dot, dash, equals sign and underscore."""
    return re.sub(r"[^A-Za-z0-9.=_-]+", "-", text).strip("-._")[:length].rstrip("-._")
