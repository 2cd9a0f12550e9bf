"""The kinds of metrics.

Third parties add theirs as entry points of the group `evalflow.metrics`, each a `MetricKind`.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

from evalflow.config.kinds import Kinds

if TYPE_CHECKING:
    from evalflow.config.schema import MetricConfig
    from evalflow.prompts import Prompts
    from evalflow.protocols import Metric

_BUILT_IN = MappingProxyType(
    {
        "judge": "evalflow.metrics.kinds.judge:JudgeMetric",
        "rubric": "evalflow.metrics.kinds.rubric:RubricMetric",
        "g_eval": "evalflow.metrics.kinds.g_eval:GEvalMetric",
        "check": "evalflow.metrics.kinds.check:CheckMetric",
        "checks": "evalflow.metrics.kinds.checks:ChecksMetric",
        "generated_questions": "evalflow.metrics.kinds.generated_questions:GeneratedQuestionsMetric",
        "pairwise": "evalflow.metrics.kinds.pairwise:PairwiseMetric",
        "composite": "evalflow.metrics.kinds.composite:CompositeMetric",
        "similarity": "evalflow.metrics.kinds.similarity:SimilarityMetric",
        "classification": "evalflow.metrics.kinds.classification:ClassificationMetric",
        "tool_calls": "evalflow.metrics.kinds.tool_calls:ToolCallsMetric",
        "retrieval": "evalflow.metrics.kinds.retrieval:RetrievalMetric",
        "set_match": "evalflow.metrics.kinds.set_match:SetMatchMetric",
        "recorded": "evalflow.metrics.kinds.recorded:RecordedMetric",
    }
)


class MetricKind(Protocol):
    """What a class must offer to be a metric kind."""

    Config: type[MetricConfig]

    def build(self, name: str, config: Any, prompts: Prompts) -> Metric:
        """A metric from its validated configuration; a classmethod."""
        ...


def metric_kinds() -> Kinds[MetricKind]:
    """All kinds of metrics."""
    builtin = {kind: partial(_imported, place) for kind, place in _BUILT_IN.items()}
    return Kinds("metric", "evalflow.metrics", builtin)


def metric_config_model(kind: str) -> type[MetricConfig]:
    """The model that validates the configuration of that kind.

    Raises:
        UserError: There is no such kind, or its package cannot be loaded.
    """
    return metric_kinds().get(kind).Config


def build_metric(name: str, config: MetricConfig, prompts: Prompts) -> Metric:
    """A metric, with everything checked that can be known without data: prompts, variables, references, score rule.

    Args:
        name: The metric's name, which is the column value.
        config: Its validated configuration.
        prompts: The templates of the run.

    Raises:
        UserError: With every problem that was found.
    """
    return metric_kinds().get(config.kind).build(name, config, prompts)


def _imported(place: str) -> MetricKind:
    module, _, name = place.partition(":")
    return cast("MetricKind", getattr(import_module(module), name))
