"""Write values from elsewhere, such as a form, as YAML that Hydra reads back unchanged."""

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
"""OmegaConf's marker for a mandatory value, so it cannot be a value itself."""


def yaml_of(values: Mapping[str, Any]) -> str:
    """A configuration as YAML, with interpolations unchanged."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(values)))


def read_yaml(text: str) -> dict[str, Any]:
    """Parse a configuration file without resolving anything, `defaults` included.

    Raises:
        UserError: It is not YAML, or not a map.
    """
    with as_user_errors(()):
        expect_bounded(text)
        return cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.create(text), resolve=False))


def escaped(value: Any) -> Any:
    """Escape all texts in the value, so that none is read as an interpolation."""
    return _texts(value, lambda text: _OPENING.sub(lambda found: f"{found[1] * 2}\\${{", text))


def escaped_but_environment(value: Any) -> Any:
    """The same, but keep `${oc.env:NAME}` as an interpolation."""
    return _texts(value, _keep_environment)


def unescaped(value: Any) -> Any:
    """Undo `escaped`.

    Raises:
        ValueError: The value has a real interpolation.
    """
    return _texts(value, lambda text: _OPENING.sub(lambda found: _opened(found[1], text), text))


def unescaped_but_environment(value: Any) -> Any:
    """The same, but keep `${oc.env:NAME}` as it is.

    Raises:
        ValueError: The value has another interpolation.
    """
    return _texts(value, lambda text: _between(text, lambda part: unescaped(part)))


def _keep_environment(text: str) -> str:
    return _between(text, lambda part: escaped(part))


def _between(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to the text between environment references."""
    parts: list[str] = []
    end = 0
    for found in _ENVIRONMENT.finditer(text):
        if found.start() and text[found.start() - 1] == "\\":
            continue  # already escaped, or will be
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
