"""Shared parts of importers: validation of other tools' files, and config groups as YAML that Hydra reads correctly."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from evalflow.config.yaml_text import escaped, yaml_of
from evalflow.errors import Problem, UserError

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ImportedConfig:
    """Other tools' definitions as evalflow's config groups: each file's values by key; `notes`: what changed."""

    datasets: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    notes: list[str] = field(default_factory=list[str])

    @property
    def has_answers(self) -> bool:
        return all(bool(table["fields"]) and "answer" in table["fields"] for table in self.datasets.values())

    def files(self) -> dict[str, str]:
        groups = {"dataset": self.datasets, "metric": self.metrics, "experiment": self.experiments}
        return {
            f"{group}/{key}.yaml": option_text(group, key, values)
            for group, options in groups.items()
            for key, values in options.items()
        }


def validated(model: type[Model], value: Any, path: Path) -> Model:
    """Validate the content of a file; UserError lists every problem, by its key."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems: list[Problem] = []
        for fault in error.errors():
            key = ".".join(str(part) for part in fault["loc"])
            is_no_object = fault["type"] == "model_type"
            what = "must be an object with keys" if is_no_object else fault["msg"].removeprefix("Value error, ")
            problems.append(Problem(f"{key}: {what}" if key else what, str(path)))
        raise UserError(problems) from None


def first_file(name: str, folders: Iterable[Path]) -> Path | None:
    """The file of that name in the first folder that contains it."""
    return next((path.resolve() for folder in folders if (path := folder / name).is_file()), None)


def key_for(name: str, taken: Collection[str], fallback: str) -> str:
    """Derive a config key from any name: lower-case letters, digits and _, a letter first, and not in `taken`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:60]
    key = words if words[:1].isalpha() else f"{fallback}_{words}".rstrip("_")
    candidates = chain([key], (f"{key}_{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


def option_text(group: str, key: str, values: Mapping[str, Any]) -> str:
    """The YAML of one option, including its package line. `${...}` in texts is escaped, so that it stays text."""
    package = "_global_" if group == "experiment" else f"{group}.{key}"
    return f"# @package {package}\n{yaml_of(escaped(values))}"
