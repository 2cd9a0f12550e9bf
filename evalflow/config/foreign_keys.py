"""Keep one judge's or target's address and key from being used for another.

An experiment or conf/local may set keys of the judge that it chooses. If another judge is chosen, e.g. on the command
line, their address, model and key are ignored, since data would go to a place that nobody chose.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evalflow.values.jsonvalues import as_map

MULTI_SELECT = ("dataset", "metric")
SINGLE_SELECT = ("judge", "target", "embedder", "simulator", "engine")
ROOT_GROUPS = ("experiment", "local")
"""Groups whose files set keys of the whole configuration."""
ADDRESS_KEYS = frozenset({"base_url", "url", "api_key_env", "headers", "azure", "members", "open", "poll", "argv"})
"""Keys that decide where data is sent and with which API key."""
ENDPOINT_KEYS = ADDRESS_KEYS | {"kind", "name", "model", "client", "price"}
"""Those keys and the model; ignored when the file that sets them chooses another option."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Untaken:
    """Keys of a file that are ignored for another choice: `file` as experiment/NAME, `choice` as judge=NAME."""

    file: str
    choice: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        group = self.choice.partition("=")[0]
        keys = ", ".join(self.keys)
        return f"{self.choice} does not take {keys} of {self.file}, which are those of its own {group}"


def untaken(
    files: Mapping[str, object],
    own: Mapping[str, Mapping[str, str]],
    overrides: Sequence[str],
    choices: Mapping[str, str],
) -> Iterator[Untaken]:
    """Return the ignored keys of files that set keys of the whole configuration.

    `files` maps each path in the folder to its content, `own` to the options that it chooses by group. `choices` are
    the final options by group.
    """
    chosen = {word.lstrip("+").partition("=")[0] for word in overrides}
    for path, content in files.items():
        for group in SINGLE_SELECT:
            others = group in chosen or any(group in of for other, of in own.items() if other != path)
            if not others or (group not in chosen and own[path].get(group) == choices.get(group)):
                continue
            keys = tuple(_keys_of(as_map(content), group, ENDPOINT_KEYS if own[path].get(group) else ADDRESS_KEYS))
            if keys:
                yield Untaken(path, f"{group}={choices.get(group, '')}", keys)


def without(config: T, keys: Sequence[str]) -> T:
    """Return a copy of a file's content without the keys at these paths."""
    remaining = copy.deepcopy(config)
    for key in keys:
        here: Any = remaining
        *above, last = key.split(".")
        for part in above:
            here = here[part]
        del here[last]
    return remaining


def _keys_of(content: Mapping[str, object], group: str, wanted: frozenset[str]) -> Iterator[str]:
    yield from (f"{group}.{key}" for key in as_map(content.get(group)) if key in wanted)
    if group == "judge":
        for name, metric in as_map(content.get("metric")).items():
            own = as_map(as_map(metric).get("judge"))
            yield from (f"metric.{name}.judge.{key}" for key in own if key in wanted)
