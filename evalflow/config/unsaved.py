"""What a composition takes from memory: options and prompts that no file has, and values for what is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from evalflow.jsonvalues import as_map

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Options, prompts and values in memory; they are found before those of any folder.

    Attributes:
        options: The content of options by group and name; what the first line of their files would say is known.
        prompts: Templates by name.
        changes: Values laid over those of the chosen options: root keys, and maps under judge, metric, ...
    """

    options: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict[tuple[str, str], Any])
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def sets(self, key: str) -> bool:
        """Whether the changes set a key path."""
        here: Any = self.changes
        for part in key.split("."):
            here = as_map(here).get(part, _ABSENT)
        return here is not _ABSENT


NOTHING_UNSAVED = Unsaved()


def laid_over(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values with changes; maps are merged, all else is replaced."""
    merged = dict(values)
    for key, value in changes.items():
        there = merged.get(key)
        both = isinstance(there, dict) and isinstance(value, Mapping)
        merged[key] = laid_over(cast("dict[str, Any]", there), cast("Mapping[str, Any]", value)) if both else value
    return merged
