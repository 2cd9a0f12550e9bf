"""Validating a composed configuration against the kinds that are registered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from evalflow.config.load import Composed, compose
from evalflow.config.validate import Settings, validate
from evalflow.errors import Problem, UserError
from evalflow.llm.registry import judge_config_model
from evalflow.metrics.registry import metric_config_model
from evalflow.targets.registry import target_config_model

_PASSWORD = re.compile(r"://[^/@:]*:(?!\$\{)[^/@]+@")


def settings_of(composed: Composed) -> Settings:
    """The typed settings.

    Raises:
        UserError: With every problem that was found.
    """
    settings = validate(composed, metric_config_model, judge_config_model, target_config_model)
    problems = _written_passwords(composed)
    if problems:
        raise UserError(problems)
    return settings


def composed_settings(overrides: Sequence[str], config_dir: Path | None) -> Settings:
    """The typed settings that a command line describes; nothing is run.

    Args:
        overrides: Hydra overrides.
        config_dir: A config folder to search first.

    Raises:
        UserError: With every problem that was found.
    """
    return settings_of(compose(overrides, config_dir, check=settings_of))


def _written_passwords(composed: Composed) -> list[Problem]:
    """Addresses with a password in plain text, which would be kept with the run."""
    config = composed.storable
    parts: dict[str, Any] = {group: config[group] for group in ("judge", "target")}
    parts |= {f"metric.{name}.judge": metric.get("judge") for name, metric in config["metric"].items()}
    hint = "name a variable that holds it: http://USER:${oc.env:NAME}@HOST/v1"
    return [
        Problem("a password would be kept with the run", f"{key}.base_url", hint)
        for key, part in parts.items()
        if isinstance(part, dict) and _PASSWORD.search(str(cast("dict[str, Any]", part).get("base_url")))
    ]
