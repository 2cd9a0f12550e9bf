"""A composed configuration, as everything but Hydra knows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Composed:
    """A composed configuration, not yet validated: plain values, with interpolations resolved."""

    values: dict[str, Any]
    choices: dict[str, str]  # the option chosen in each single-choice group
    sources: dict[str, Path]  # the file of each `dataset.NAME`, `metric.NAME`, `judge`, `embedder` and `target`
    overrides: tuple[str, ...]
    # In search order; the first match wins.
    conf_folders: tuple[Path, ...]
    prompt_folders: tuple[Path, ...]
    shadowed: tuple[tuple[str, Path], ...] = ()  # parts, with their files, that replace packaged ones of the same name
    # The plain configuration with interpolations unresolved; None: there are none.
    unresolved: dict[str, Any] | None = None

    @property
    def storable(self) -> dict[str, Any]:
        """The configuration to store, for `resolved`: environment variables stay references, as they may be secret."""
        return self.values if self.unresolved is None else self.unresolved
