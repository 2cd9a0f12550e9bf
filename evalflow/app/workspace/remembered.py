"""What is composed of the files of conf/, remembered as long as none of them changes.

Composing one part takes Hydra a tenth of a second and more, since it reads every file that a run would; a page shows
several.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SETTLED_S = 2.0
"""A file that was changed more recently may change again without a trace in what its folder says of it."""
State = tuple[tuple[str, int, int, int, int], ...]


class Remembered:
    """Values of JSON by their keys. Any number of threads may use it: at worst, two make the same.

    Args:
        now: The time, in seconds since 1970; for tests.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._known: tuple[State, dict[str, str]] = ((), {})

    def get(self, key: str, folders: Sequence[Path], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A value of its own for the caller: remembered, or made.

        Args:
            key: What it is.
            folders: It is made of files below these and of nothing else.
            make: Makes it. What it raises is raised, and not remembered.
        """
        before = _state(folders)
        state, values = self._known
        if state == before and key in values:
            return json.loads(values[key])
        made = make()
        if before == _state(folders) and not self._is_young(before):
            kept = values if state == before else {}
            self._known = (before, {**kept, key: json.dumps(made)})
        return made

    def _is_young(self, state: State) -> bool:
        newest = max((max(modified, changed) for _, modified, changed, _, _ in state), default=0)
        return newest / 1e9 > self._now() - SETTLED_S


def _state(folders: Sequence[Path]) -> State:
    """What tells a changed file: its name, when its content and its entry were changed, its size, and which it is."""
    return tuple(sorted(entry for folder in folders for entry in _files(str(folder))))


def _files(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".yaml"):
                found = os.stat(entry.path)  # noqa: PTH116 - an entry of a link would tell of the link itself
                yield entry.path, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
