"""prepared.json: what a run made once, found again when it goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from evalflow.errors import Problem, UserError
from evalflow.files import write_atomically
from evalflow.run.folder import RunFolder


class PreparedFile:
    """Implements Prepared in a run's folder.

    Args:
        folder: The run's; without the file nothing has been made.

    Raises:
        UserError: The file is not what was written.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.prepared
        self._entries = self._read()

    def get(self, key: str) -> Mapping[str, Any] | None:
        """What was made under that key, or None."""
        return self._entries.get(key)

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Keep what was made; it is in the file when this returns."""
        self._entries[key] = dict(entry)
        write_atomically(self._path, json.dumps(self._entries, indent=2, ensure_ascii=False) + "\n")

    def entries(self) -> Iterator[Mapping[str, Any]]:
        """What each entry holds."""
        yield from self._entries.values()

    def bills(self) -> Iterator[tuple[float | None, Mapping[str, Any]]]:
        """What each entry cost in US dollars, None where unknown, and its bill."""
        for entry in self._entries.values():
            yield entry["cost_usd"], entry["bill"]

    def _read(self) -> dict[str, dict[str, Any]]:
        if not self._path.exists():
            return {}
        try:
            content: Any = json.loads(self._path.read_text(encoding="utf-8"))
        except ValueError as error:
            what = f"it is no JSON any more: {error}"
            raise UserError(Problem(what, str(self._path), "put it back as it was, or start a new run")) from None
        entries = cast("dict[str, Any]", content).values() if isinstance(content, dict) else (None,)
        if not all(isinstance(entry, dict) and {"bill", "cost_usd"} <= entry.keys() for entry in entries):
            raise UserError(
                Problem("it is no map of entries with their bills", str(self._path), "put it back as it was")
            )
        return cast("dict[str, dict[str, Any]]", content)
