"""The options of the command line: the YAML files of conf/, by group and name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from evalflow.config.yaml_size import expect_bounded
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.registry import METRIC_KINDS
from evalflow.paths import conf_dirs

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The same as `yaml.safe_load`, but eight times as fast if libyaml is installed."""
GROUPS = ("dataset", "metric", "judge", "target", "embedder", "experiment")


@dataclass(frozen=True, slots=True)
class Option:
    """A file of a config group."""

    group: str
    name: str
    file: Path
    values: dict[str, Any]

    @property
    def text(self) -> str:
        """The file's text."""
        return self.file.read_text(encoding="utf-8")

    @property
    def description(self) -> str:
        """Its `description`, or else the first comment after the package line."""
        if isinstance(self.values.get("description"), str):
            return self.values["description"]
        comments = [line[1:].strip() for line in self.text.splitlines() if line.startswith("#")]
        return next((comment for comment in comments if not comment.startswith("@package")), "")

    @property
    def selection(self) -> str:
        """Its selection on the command line, without shell quotes; for a composite, together with its parts."""
        parts: Any = self.values.get("of") if self.values.get("kind") == "composite" else None
        return f"[{','.join([*parts, self.name])}]" if parts else self.name

    @property
    def prompts(self) -> list[str]:
        """The names of the templates it uses."""
        steps: list[Any] = self.values.get("steps") or []
        parts = [self.values, *(cast("dict[str, Any]", step) for step in steps if isinstance(step, dict))]
        named = [part.get(key) for part in parts for key in ("steps_prompt", "prompt")]
        return list(dict.fromkeys(name for name in named if isinstance(name, str) and name.endswith(".jinja")))


def options(config_dir: Path | None, group: str | None = None) -> list[Option]:
    """All options by group and name; of several files with one name, the one that Hydra would use."""
    found: dict[tuple[str, str], Option] = {}
    for folder in conf_dirs(config_dir):
        for name in [group] if group else GROUPS:
            for option in _options_in(folder, name):
                found.setdefault((option.group, option.name), option)
    return [found[key] for key in sorted(found, key=lambda key: (GROUPS.index(key[0]), key[1]))]


def find_option(name: str, config_dir: Path | None) -> Option:
    """The option of that name; `group/name` where several groups have it.

    Raises:
        UserError: There is none, or there are several.
    """
    group, _, own = name.rpartition("/")
    everything = options(config_dir)
    matching = [option for option in everything if option.name == own and group in ("", option.group)]
    if not matching:
        known = {option.name for option in everything} | {*METRIC_KINDS.names()}
        raise UserError(Problem(f"there is nothing called {name!r}", "command line", did_you_mean(own, known)))
    if len(matching) > 1:
        choices = " or ".join(f"{option.group}/{option.name}" for option in matching)
        raise UserError(Problem(f"{name!r} stands in several groups", "command line", f"say {choices}"))
    return matching[0]


def _options_in(folder: Path, group: str) -> Iterator[Option]:
    for file in sorted((folder / group).glob("*.yaml")):
        if file.stem.startswith("_"):
            continue
        try:
            text = file.read_text(encoding="utf-8")
            expect_bounded(text)
            values = yaml.load(text, Loader=_LOADER)  # noqa: TID251, S506 - safe
        except yaml.YAMLError:
            # A broken file is listed anyway; selecting it reports the error.
            values = {"description": "(this file is not valid YAML)"}
        yield Option(group, file.stem, file, cast("dict[str, Any]", values) if isinstance(values, dict) else {})
