"""Config groups as files: names that can be keys, and YAML that Hydra reads back as it was meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, cast

import yaml

_INTERPOLATION = re.compile(r"(\\*)\$\{")
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class ImportedConfig:
    """What other tools' files declare, as evalflow's config groups.

    Attributes:
        datasets, metrics: What each file of the group says, by key.
        experiments: Likewise; they choose among these and the shipped options.
        notes: What could not be taken over as it was.
    """

    datasets: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    notes: list[str] = field(default_factory=list[str])

    @property
    def has_answers(self) -> bool:
        """Whether every dataset brings along the answers to score, so that no target is needed."""
        return all(bool(table["fields"]) and "answer" in table["fields"] for table in self.datasets.values())

    def files(self) -> dict[str, str]:
        """Path below a config folder -> text."""
        groups = {"dataset": self.datasets, "metric": self.metrics}
        options = {
            f"{group}/{key}.yaml": option_text(group, key, values)
            for group, options in groups.items()
            for key, values in options.items()
        }
        experiments = {
            f"experiment/{key}.yaml": f"# @package _global_\n{to_yaml(values)}"
            for key, values in self.experiments.items()
        }
        return options | experiments


def key_for(name: str, taken: Collection[str], fallback: str) -> str:
    """A key made of a name that people gave: lower-case letters, digits and _, a letter first, and not yet taken.

    Args:
        name: Any text.
        taken: Keys that are in use.
        fallback: What the key begins with where the name has no letter that could be kept.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:60]
    key = words if words[:1].isalpha() else f"{fallback}_{words}".rstrip("_")
    candidates = chain([key], (f"{key}_{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


def option_text(group: str, key: str, values: Mapping[str, Any]) -> str:
    """The YAML of one option of the group `dataset` or `metric`, its package line included."""
    return f"# @package {group}.{key}\n{to_yaml(values)}"


def to_yaml(values: Mapping[str, Any]) -> str:
    """YAML in which every text means itself; OmegaConf would take `${...}` in it for an interpolation."""
    return yaml.safe_dump(_literal(values), sort_keys=False, allow_unicode=True, width=_WIDTH)


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        return _INTERPOLATION.sub(r"\1\1\\${", value)
    if isinstance(value, Mapping):
        return {key: _literal(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_literal(item) for item in cast("list[Any]", value)]
    return value
