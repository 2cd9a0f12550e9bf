"""Values from elsewhere, such as a form, as YAML that Hydra reads back as the very same values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from omegaconf import OmegaConf

from evalflow.config.faults import as_user_errors
from evalflow.config.yaml_size import expect_bounded

_OPENING = re.compile(r"(\\*)\$\{")
_ENVIRONMENT = re.compile(r"\$\{oc\.env:[A-Za-z_][A-Za-z0-9_]*\}")
MISSING = "???"
"""The text that stands for a value that must be given, and so can be no value itself."""


def yaml_of(values: Mapping[str, Any]) -> str:
    """The YAML of a configuration as it is, interpolations included."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(values)))


def read_yaml(text: str) -> dict[str, Any]:
    """The content of a configuration's file as it is written, its `defaults` included and nothing resolved.

    Raises:
        UserError: It is no YAML, or no map.
    """
    with as_user_errors(()):
        expect_bounded(text)
        return cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.create(text), resolve=False))


def escaped(value: Any) -> Any:
    """The value with every text meaning itself: what looks like an interpolation is none."""
    return _texts(value, lambda text: _OPENING.sub(lambda found: f"{found[1] * 2}\\${{", text))


def escaped_but_environment(value: Any) -> Any:
    """The same, where `${oc.env:NAME}` keeps its meaning."""
    return _texts(value, _keep_environment)


def unescaped(value: Any) -> Any:
    """What was escaped, as it was.

    Raises:
        ValueError: An interpolation has a meaning there, and is no mere text.
    """
    return _texts(value, lambda text: _OPENING.sub(lambda found: _opened(found[1], text), text))


def unescaped_but_environment(value: Any) -> Any:
    """The same, where `${oc.env:NAME}` is left as it is.

    Raises:
        ValueError: Another interpolation has a meaning there.
    """
    return _texts(value, lambda text: _between(text, lambda part: unescaped(part)))


def _keep_environment(text: str) -> str:
    return _between(text, lambda part: escaped(part))


def _between(text: str, change: Callable[[str], str]) -> str:
    """Change the text between environment references."""
    parts: list[str] = []
    end = 0
    for found in _ENVIRONMENT.finditer(text):
        if found.start() and text[found.start() - 1] == "\\":
            continue  # escaped already, or about to be
        parts += [change(text[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*parts, change(text[end:])])


def _opened(slashes: str, text: str) -> str:
    if len(slashes) % 2 == 0:
        raise ValueError(f"{text!r} takes its value from elsewhere")
    return f"{slashes[: len(slashes) // 2]}${{"


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _texts(inner, change) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_texts(item, change) for item in cast("list[Any]", value)]
    return value
