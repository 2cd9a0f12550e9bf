"""What `show` tells of a kind of metric: the keys that its YAML may have, and the files that are of it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticUndefined
from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from evalflow.errors import command
from evalflow.metrics.registry import metric_kinds
from evalflow.report.terminal import literal, plain

if TYPE_CHECKING:
    from pydantic import BaseModel

    from evalflow.app.catalogue.catalogue import Option

_ENTRY = re.compile(r"    (\w+(?:, \w+)*): ")
"""How an attribute begins in the docstring of a configuration."""


def print_kind(kind: str, members: Sequence[Option], console: Console, *, as_json: bool) -> int:
    """Print the keys of a kind, and one of its files.

    Args:
        kind: Its name.
        members: The metrics that are of it.
        console: Where to print.
        as_json: Whether as one JSON document.
    """
    shortest = min(members, key=lambda option: len(option.text), default=None)
    keys = keys_of(kind)
    names = [option.name for option in members]
    if as_json:
        facts = {"group": "metric", "kind": kind, "keys": keys, "metrics": names}
        console.file.write(json.dumps({**facts, "yaml": shortest.text if shortest else None}, indent=2) + "\n")
        return 0
    console.print(literal(f"a kind of metric; of it are: {', '.join(names) or 'none yet'}", style="dim"))
    console.print(_table(keys))
    if shortest:
        console.rule(literal(str(shortest.file), style="dim"), align="left")
        console.print(Syntax(plain(shortest.text.rstrip()), "yaml", background_color="default", word_wrap=True))
        console.rule(literal("try it", style="dim"), align="left")
        console.print(literal(command("new", "metric", f"my_{shortest.name}", "--from", shortest.name)), soft_wrap=True)
    return 0


def keys_of(kind: str) -> list[dict[str, Any]]:
    """The keys of a kind, its own last: key, required, default (as YAML writes it) and meaning.

    Raises:
        UserError: There is no such kind.
    """
    return list(_keys(metric_kinds().get(kind).Config))


def _keys(config: type[BaseModel]) -> Iterator[dict[str, Any]]:
    told = _meanings(config)
    for name, field in config.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        required = default is PydanticUndefined
        yield {
            "key": field.alias or name,
            "required": required,
            "default": None if required else _plain(default),
            "meaning": told.get(name, ""),
        }


def _plain(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value


def _meanings(config: type[BaseModel]) -> Mapping[str, str]:
    """What the docstrings of a configuration, and of those it extends, say of the keys."""
    found: dict[str, str] = {}
    for model in reversed(config.__mro__):
        _, _, attributes = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")
        names: list[str] = []
        for line in attributes.splitlines():
            if begins := _ENTRY.match(line):
                names = begins[1].split(", ")
                found |= dict.fromkeys(names, line[begins.end() :])
            elif names and line.startswith("     "):
                found |= {name: f"{found[name]} {line.strip()}" for name in names}
            else:
                names = []
    return found


def _table(keys: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("key", style="bold")
    table.add_column("default", max_width=24)
    table.add_column("what it says", ratio=1)
    for key in keys:
        default = "required" if key["required"] else json.dumps(key["default"], ensure_ascii=False)
        table.add_row(literal(key["key"]), literal(default), literal(key["meaning"]))
    return table
