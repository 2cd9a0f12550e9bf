"""A metric's definition as the text that its file would hold, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import yaml

from evalflow.errors import Problem, UserError

KEY = "yaml"
"""What a fault of the text itself names."""
LONGEST = 200_000
"""Characters."""


def metric_yaml(definition: Mapping[str, Any]) -> str:
    """The YAML of a definition, in its own order."""
    return yaml.safe_dump(dict(definition), sort_keys=False, allow_unicode=True, width=100)


def read_metric_yaml(text: str) -> dict[str, Any]:
    """The definition that a text holds; what stands in it is for `create_metric` to judge.

    Raises:
        UserError: It is no YAML, no map of keys, or refers to itself, which JSON cannot hold.
    """
    if len(text) > LONGEST:
        raise _fault(f"the YAML has {len(text):,} characters, of at most {LONGEST:,}")
    try:
        events = cast("Iterable[object]", yaml.parse(text, yaml.SafeLoader))  # pyright: ignore - untyped
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            raise _fault("the YAML has aliases (*NAME)", "write out what they stand for")
        found: Any = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _fault(f"this is no YAML{line}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _fault(f"this is no YAML: {error}") from None
    if not isinstance(found, dict):
        raise _fault("this is no map of keys", "such as kind: g_eval")
    return {str(key): value for key, value in cast("dict[Any, Any]", found).items()}


def _fault(what: str, hint: str = "") -> UserError:
    return UserError(Problem(what, hint=hint, key=KEY))
