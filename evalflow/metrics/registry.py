"""Which class implements a metric kind. Built-in kinds and those of other packages come through one door."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

from evalflow.errors import Problem, UserError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evalflow.config.schema import MetricConfig
    from evalflow.prompts import Prompts
    from evalflow.protocols import Metric

GROUP = "evalflow.metrics"
BUILT_IN = MappingProxyType(
    {
        "judge": "evalflow.metrics.kinds.judge:JudgeMetric",
        "rubric": "evalflow.metrics.kinds.rubric:RubricMetric",
        "check": "evalflow.metrics.kinds.check:CheckMetric",
        "classification": "evalflow.metrics.kinds.classification:ClassificationMetric",
        "recorded": "evalflow.metrics.kinds.recorded:RecordedMetric",
    }
)


class MetricKind(Protocol):
    """What a class must offer to be a metric kind."""

    Config: type[MetricConfig]

    def build(self, name: str, config: Any, prompts: Prompts) -> Metric:
        """A metric from its validated configuration; a classmethod."""
        ...


def metric_kinds() -> Mapping[str, str]:
    """Every known kind and the `module:Class` that implements it.

    Raises:
        UserError: Two packages claim one kind.
    """
    kinds = dict(BUILT_IN)
    owners = dict.fromkeys(BUILT_IN, "evalflow")
    problems: list[Problem] = []
    for entry in entry_points(group=GROUP):
        owner = _owner(entry)
        if entry.name in kinds:
            what = f"the metric kind {entry.name!r} comes from {owners[entry.name]} and from {owner}"
            problems.append(Problem(what, f"entry points {GROUP}", f"uninstall {owner}, or have it rename its kind"))
            continue
        kinds[entry.name], owners[entry.name] = entry.value, owner
    if problems:
        raise UserError(problems)
    return kinds


def metric_config_model(kind: str) -> type[MetricConfig]:
    """The model that validates the configuration of that kind.

    Raises:
        UserError: There is no such kind, or its package cannot be loaded.
    """
    return _load(kind, metric_kinds()).Config


def build_metric(name: str, config: MetricConfig, prompts: Prompts) -> Metric:
    """A metric, with everything checked that can be known without data: prompts, variables, references, score rule.

    Args:
        name: The metric's name, which is the column value.
        config: Its validated configuration.
        prompts: The templates of the run.

    Raises:
        UserError: With every problem that was found.
    """
    # Other packages are looked through once more only for a kind of theirs: its configuration was validated before, and
    # a kind that is claimed twice did not come through that.
    kinds = BUILT_IN if config.kind in BUILT_IN else metric_kinds()
    return _load(config.kind, kinds).build(name, config, prompts)


def _load(kind: str, kinds: Mapping[str, str]) -> MetricKind:
    if kind not in kinds:
        raise UserError(Problem(f"unknown metric kind {kind!r}", hint=did_you_mean(kind, kinds)))
    module, _, attribute = kinds[kind].partition(":")
    try:
        return cast("MetricKind", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise UserError(Problem(f"the metric kind {kind!r} cannot be loaded: {error}", kinds[kind])) from None


def _owner(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value
