"""Options, prompts and values that a composition takes from memory instead of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evalflow.values.jsonvalues import as_map, is_mapping, is_object

_ABSENT = object()


def _no_options() -> dict[tuple[str, str], Mapping[str, object]]:
    return {}


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Options, prompts and values in memory, which take precedence over those of all folders.

    Attributes:
        options: The content of options by group and name, without a package line.
        prompts: Templates by name.
        changes: Values that override those of the chosen options: root keys, and maps under judge, metric, ...
    """

    options: Mapping[tuple[str, str], Mapping[str, object]] = field(default_factory=_no_options)
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    changes: Mapping[str, object] = field(default_factory=dict[str, object])

    def sets(self, key: str) -> bool:
        here: object = self.changes
        for part in key.split("."):
            here = as_map(here).get(part, _ABSENT)
        return here is not _ABSENT


NOTHING_UNSAVED = Unsaved()


def laid_over(values: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return the values with the changes applied; maps are merged, everything else is replaced."""
    merged = dict(values)
    for key, value in changes.items():
        there = merged.get(key)
        merged[key] = laid_over(there, value) if is_object(there) and is_mapping(value) else value
    return merged
