"""Limit the size of untrusted YAML after its aliases are expanded."""

from __future__ import annotations

import math
from typing import Any, cast

import yaml

LARGEST = 100_000
"""Maximum number of keys and values in a file, aliases expanded; a long text counts one per thousand characters."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def safe_yaml(text: str) -> Any:
    """Parse YAML.

    Raises:
        yaml.YAMLError: It is not YAML, or too large after aliases are expanded.
    """
    expect_bounded(text)
    return yaml.safe_load(text)


def expect_bounded(text: str) -> None:
    """Refuse YAML whose aliases would expand beyond the limit, as ten nested levels of ten do ("billion laughs").

    Raises:
        yaml.YAMLError: It would, an alias contains itself, or the text is not YAML.
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
