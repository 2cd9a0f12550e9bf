"""The secret with which prompts mark judged text, stored beside the cache, since a shared reply needs equal prompts."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
from pathlib import Path

from evalflow.paths import private_file, private_folder

log = logging.getLogger("evalflow")

_BYTES = 32
_OF_PROCESS = secrets.token_bytes(_BYTES)
_HEX = re.compile(rf"[0-9a-f]{{{2 * _BYTES}}}\s*\Z")


class FenceKey:
    """The key of the cache at a path, read or created at first use.

    Only a run stores a new key (`keeps`); otherwise, or if storing fails, the key is for this process only.
    """

    def __init__(self, cache: Path, *, keeps: bool) -> None:
        self._path = cache.with_name(f"{cache.name}.key")
        self._keeps = keeps
        self._key: bytes | None = None

    def __call__(self) -> bytes:
        if self._key is None:
            self._key = _read(self._path) or (self._stored(_OF_PROCESS) if self._keeps else _OF_PROCESS)
        return self._key

    def adopt(self, key: bytes) -> None:
        """Use the key of a shared cache from now on."""
        if key != self():
            self._key = self._stored(key, instead=True)

    def _stored(self, key: bytes, *, instead: bool = False) -> bytes:
        """Store a key; return it, or the one that another process stored first unless `instead` overwrites it."""
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            private_folder(self._path.parent)
            with os.fdopen(private_file(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="ascii") as file:
                file.write(f"{key.hex()}\n")
            try:
                if not instead:
                    with contextlib.suppress(OSError):  # a file system without links
                        os.link(draft, self._path)
                existing = None if instead else _read(self._path)
                if existing is None:
                    draft.replace(self._path)
                return existing or key
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            log.info("the key of %s cannot be stored: %s", self._path, error)
            return key


def _read(path: Path) -> bytes | None:
    """Read the key in a file; None if the file is missing or has something else."""
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return bytes.fromhex(text) if _HEX.match(text) else None
