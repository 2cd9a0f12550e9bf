"""Validating a composed configuration against the kinds that are registered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evalflow.config.load import Composed, compose
from evalflow.config.validate import Settings, validate
from evalflow.llm.registry import judge_config_model
from evalflow.metrics.registry import metric_config_model
from evalflow.targets.registry import target_config_model


def settings_of(composed: Composed) -> Settings:
    """The typed settings.

    Raises:
        UserError: With every problem that was found.
    """
    return validate(composed, metric_config_model, judge_config_model, target_config_model)


def composed_settings(overrides: Sequence[str], config_dir: Path | None) -> Settings:
    """The typed settings that a command line describes; nothing is run.

    Args:
        overrides: Hydra overrides.
        config_dir: A config folder to search first.

    Raises:
        UserError: With every problem that was found.
    """
    return settings_of(compose(overrides, config_dir, check=settings_of))
