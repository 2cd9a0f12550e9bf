"""What is needed to derive results from a run's files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evalflow.config.schema import EmbedderConfig, JudgeConfig
from evalflow.config.validate import Settings
from evalflow.metrics.composition import CompositeMetricConfig
from evalflow.protocols import Measured
from evalflow.summary import Gate


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is needed to derive, beside the run's files.

    Attributes:
        settings: The run's configuration.
        metrics: The metrics, by the names that their scores have.
        judge_of: The judge's column value of each metric; None for a metric that asks nobody.
        scorers: The configuration of whom each metric asks, with its own thresholds; see `scorers_of`.
        asking: The metrics that ask a judge, who may be asked repeatedly.
        gates: The conditions that decide the exit code.
    """

    settings: Settings
    metrics: Mapping[str, Measured]
    judge_of: Mapping[str, str | None]
    scorers: Mapping[str, JudgeConfig | EmbedderConfig]
    asking: Collection[str]
    gates: Sequence[Gate]

    @property
    def bounded(self) -> list[str]:
        """The metrics whose scores lie in 0..1."""
        return [name for name, metric in self.metrics.items() if metric.bounded]


class Asking(NamedTuple):
    """Of whom a metric asks its scores.

    Attributes:
        declared: The metric's name in the configuration.
        asks: Whether it asks a judge.
        embeds: Whether it compares meanings.
    """

    declared: str
    asks: bool
    embeds: bool


def scorers_of(settings: Settings, metrics: Mapping[str, Asking]) -> dict[str, JudgeConfig | EmbedderConfig]:
    """Whose thresholds hold for each metric; for a composite the judge's, who is calibrated as far as all parts' are.

    Args:
        settings: The run's.
        metrics: By the names that their scores have.
    """
    found = {name: settings.scorer(one.declared, asks=one.asks, embeds=one.embeds) for name, one in metrics.items()}
    for name, one in metrics.items():
        config = settings.run.metric[one.declared]
        if isinstance(config, CompositeMetricConfig):
            parts = [part for part in config.weights if part in metrics]
            judged = [found[part].calibrated for part in parts if metrics[part].asks or metrics[part].embeds]
            found[name] = found[name].model_copy(update={"calibrated": all(judged)})
    return found
