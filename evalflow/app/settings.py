"""Validating a composed configuration against the kinds that are registered."""

from __future__ import annotations

from evalflow.config.load import Composed
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
