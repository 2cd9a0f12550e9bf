"""The request of a person who starts a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from evalflow.targets.registry import SIMULATOR_KINDS
from evalflow.values.jsonvalues import DEEPEST, is_mapping, is_too_deep


def _shallow(values: Mapping[str, object]) -> Mapping[str, object]:
    if is_too_deep(values):
        raise ValueError(f"more than {DEEPEST} maps and lists within each other")
    return values


Named = Annotated[str, Field(min_length=1, max_length=200)]
Values = Annotated[Mapping[str, Any], AfterValidator(_shallow)]
"""Keys of the configuration with their values."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to be created. Names refer to definitions made here first, then to conf/.

    Attributes:
        bot: The bot whose answers are scored; "recorded" uses the answers in the data.
        datasets, metrics: Names; a metric is looked up in the bot's metrics first, then in the library.
        dataset_values: Keys of the datasets that choose their cases, by dataset: tags, every_tag, ids.
        judge: Name of a judge, defined here or in conf/; "target" is the bot's own model; null: "target" if the bot is
            a model, else "embedded".
        judge_values: Keys of the judge to change, such as model, base_url, api_key_env.
        embedder, embedder_values: The same for the embedder, which metrics use to compare meanings.
        thresholds: Changed thresholds, by metric.
        options: Root keys of the configuration: generate (by default true unless the answers are recorded), repeats,
            limit, sample, seed, cache, budget, gate, max_error_rate, case_timeout_s.
        title: For people.
        fill_examples: Whether cases without an answer example get the bot's answer in this run as theirs.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # it is also the body of requests
    bot: Named
    datasets: Annotated[Sequence[Named], Field(max_length=100)]
    metrics: Annotated[Sequence[Named], Field(max_length=200)]
    dataset_values: Annotated[Mapping[Named, Values], Field(max_length=100)] = field(
        default_factory=dict[str, Mapping[str, object]]
    )
    judge: Named | None = None
    judge_values: Values = field(default_factory=dict[str, object])
    embedder: Named = "embedded"
    embedder_values: Values = field(default_factory=dict[str, object])
    thresholds: Mapping[str, Annotated[float, Field(allow_inf_nan=False)]] = field(default_factory=dict[str, float])
    options: Values = field(default_factory=dict[str, object])
    title: Annotated[str, Field(max_length=500)] = ""
    fill_examples: bool = True

    def words(self) -> list[str]:
        """The overrides that select its parts; its judge must be named."""
        return [
            f"dataset=[{','.join(self.datasets)}]",
            f"metric=[{','.join(self.metrics)}]",
            f"target={self.bot}",
            f"judge={self.judge}",
            f"embedder={self.embedder}",
            *([f"simulator={self.simulator}"] if self.simulator else []),
        ]

    @property
    def simulator(self) -> str | None:
        """The kind of simulated users that its options have."""
        given: object = self.options.get("simulator")
        kind = given.get("kind") if is_mapping(given) else None
        return kind if isinstance(kind, str) and SIMULATOR_KINDS.ships(kind) else None
