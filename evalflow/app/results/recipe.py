"""What is needed to derive results from a run's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalflow.config.schema import EmbedderConfig, JudgeConfig
from evalflow.config.validate import Settings
from evalflow.protocols import Measured
from evalflow.summary import Gate


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is needed to derive, beside the run's files.

    Attributes:
        settings: The run's configuration.
        metrics: The metrics, by the names that their scores have.
        judge_of: The judge's column value of each metric; None for a metric that asks nobody.
        scorers: The configuration of whom each metric asks, with its own thresholds.
        gates: The conditions that decide the exit code.
    """

    settings: Settings
    metrics: Mapping[str, Measured]
    judge_of: Mapping[str, str | None]
    scorers: Mapping[str, JudgeConfig | EmbedderConfig]
    gates: Sequence[Gate]
