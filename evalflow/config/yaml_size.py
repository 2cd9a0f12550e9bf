"""YAML from elsewhere whose aliases stand for no more than a configuration can hold."""

from __future__ import annotations

import math
from typing import Any, cast

import yaml

LARGEST = 100_000
"""Keys and values of one file, each counted as often as aliases repeat it, long texts by the thousand characters."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def safe_yaml(text: str) -> Any:
    """What a text of YAML holds.

    Raises:
        yaml.YAMLError: It is no YAML, or too large once its aliases are written out.
    """
    expect_bounded(text)
    return yaml.safe_load(text)


def expect_bounded(text: str) -> None:
    """See that aliases do not make a few lines into more than any memory holds, as ten levels of ten each do.

    Raises:
        yaml.YAMLError: They do, or one stands within what it stands for; or the text is no YAML.
    """
    if "*" not in text:
        return
    top = cast("yaml.Node | None", yaml.compose(text, _LOADER))  # pyright: ignore - untyped
    if top is not None and not _size(top, {}) <= LARGEST:
        problem = f"with its aliases (*NAME) written out it has more than {LARGEST:,} values"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=top.start_mark)


def _size(node: yaml.Node, known: dict[int, float]) -> float:
    """The number of values below a node; infinite if it contains itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        if isinstance(node, yaml.ScalarNode):
            known[id(node)] = 1 + len(cast("str", node.value)) // 1000
        else:
            inner = cast("list[Any]", node.value)
            parts = [part for pair in inner for part in pair] if isinstance(node, yaml.MappingNode) else inner
            known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]
