"""How many concurrent calls each endpoint has sustained, stored beside the cache for the next run."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from evalflow.paths import private_folder, write_atomically

MOST = 200  # maximum number of endpoints; the least recently used are dropped
LARGEST = 100_000


class KnownLimits:
    """The concurrent calls that endpoints have sustained. A file that cannot be read or written is ignored.

    Example:
        >>> import tempfile
        >>> known = KnownLimits(Path(tempfile.mkdtemp()) / "cache.db")
        >>> known.remember({("http://127.0.0.1:8000/v1", "model", ""): 40})
        >>> known.get(("http://127.0.0.1:8000/v1", "model", ""))
        40
    """

    def __init__(self, cache: Path) -> None:
        self._path = cache.with_name(f"{cache.name}.limits")
        self._known: dict[str, int] | None = None

    def get(self, key: tuple[str, ...]) -> int:
        """Return the concurrent calls that an endpoint has sustained; 0 if unknown."""
        if self._known is None:
            self._known = self._read()
        return self._known.get(_name(key), 0)

    def remember(self, borne: Mapping[tuple[str, ...], int]) -> None:
        """Store the limits of some endpoints, keeping what other runs have stored meanwhile."""
        updates = {_name(key): limit for key, limit in borne.items()}
        before = self._read()
        known = {name: limit for name, limit in before.items() if name not in updates} | updates
        self._known = dict(list(known.items())[-MOST:])
        if self._known != before:
            with contextlib.suppress(OSError):
                private_folder(self._path.parent)
                write_atomically(self._path, json.dumps(self._known) + "\n")

    def _read(self) -> dict[str, int]:
        try:
            content: object = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        rows = cast("dict[str, Any]", content).items() if isinstance(content, dict) else ()
        return {name: limit for name, limit in rows if isinstance(limit, int) and 0 < limit <= LARGEST}


def _name(key: tuple[str, ...]) -> str:
    """Return a digest, since an address may contain a key."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
