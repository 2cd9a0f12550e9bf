"""The kinds of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.config.kinds import Kinds
from evalflow.metrics.topology import END, best_way, ordered
from evalflow.values.jsonvalues import as_list, as_map, count_at, is_list, is_object

if TYPE_CHECKING:
    from evalflow.config.schema import MetricConfig
    from evalflow.prompts import Prompts
    from evalflow.protocols import Metric

Declared = Mapping[str, object]  # a metric's unvalidated YAML


_WEIGHTED_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of a judge or embedder: minimum and maximum per score (None: depends on the case), and once per run."""

    low: int = 0
    high: int | None = 0
    once: int = 0


def _for_each_step(declared: Declared) -> Calls:
    steps = len(as_list(declared.get("steps")))
    return Calls(steps, steps)


def g_eval_samples(strict: bool, weighting: object, given: int | None) -> int:
    """How many replies G-Eval samples if the judge gives no token probabilities."""
    if strict:
        return 1
    return given or (_WEIGHTED_SAMPLES if weighting == "probability" else 1)


def _for_each_sample(declared: Declared) -> Calls:
    """One call with token probabilities, else one per sample; and one to write the steps."""
    samples = g_eval_samples(bool(declared.get("strict")), declared.get("weighting"), count_at(declared, "samples"))
    return Calls(1, samples, once=0 if declared.get("steps") or declared.get("steps_from") else 1)


def _for_each_way(declared: Declared) -> Calls | None:
    """How many nodes ask the judge on the shortest and the longest path; None if the YAML is not a graph."""
    nodes, start = declared.get("nodes"), str(declared.get("start"))
    known = {str(name): node for name, node in as_map(nodes).items() if is_object(node)}
    graph = {name: list(_next_of(node)) for name, node in known.items()}
    order, cycles = ordered(graph)
    named = {start, *(other for others in graph.values() for other in others)}
    if cycles or not named <= {*graph, END}:
        return None
    asks = {name: int("prompt" in node) for name, node in known.items()}
    low, high = (best_way(start, order, graph, asks.__getitem__, choose)[0] for choose in (min, max))
    return Calls(low, high)


def _next_of(node: Declared) -> Iterator[str]:
    branches = node.get("branches")
    for way in branches if is_list(branches) else [node]:
        yield str(as_map(way).get("next") or END)


_NONE = Calls()
_BUILT_IN: Mapping[str, tuple[str, Calls | Callable[[Declared], Calls | None]]] = {
    "judge": ("judge:JudgeMetric", _for_each_step),
    "rubric": ("judge:RubricMetric", Calls(1, 1)),
    "graph": ("graph:GraphMetric", _for_each_way),
    "g_eval": ("g_eval:GEvalMetric", _for_each_sample),
    "check": ("check:CheckMetric", _NONE),
    "checks": ("checks:ChecksMetric", Calls(0, None)),
    "generated_questions": ("similarity:GeneratedQuestionsMetric", Calls(1, 2)),
    "pairwise": ("pairwise:PairwiseMetric", Calls(2, 2)),
    "composite": ("composite:CompositeMetric", _NONE),
    "similarity": ("similarity:SimilarityMetric", Calls(1, 1)),
    "classification": ("labels:ClassificationMetric", _NONE),
    "trajectory": ("trajectory:TrajectoryMetric", _NONE),
    "retrieval": ("retrieval:RetrievalMetric", _NONE),
    "set_match": ("labels:SetMatchMetric", _NONE),
    "lexical": ("lexical:LexicalMetric", _NONE),
    "number": ("number:NumberMetric", _NONE),
    "python": ("python:PythonMetric", _NONE),
    "recorded": ("recorded:RecordedMetric", _NONE),
    "sql": ("sql:SqlMetric", _NONE),
}  # The class of each kind in `evalflow.metrics.kinds`, and its calls. `list` reads this without loading the classes.


METRIC_KINDS: Kinds[MetricConfig, Metric] = Kinds(
    "metric", {kind: f"evalflow.metrics.kinds.{place}" for kind, (place, _) in _BUILT_IN.items()}
)


def calls_of(declared: Declared) -> Calls | None:
    """The calls of a metric, estimated from its YAML; None if its kind is not built in."""
    _, calls = _BUILT_IN.get(str(declared.get("kind")), ("", None))
    return calls(declared) if callable(calls) else calls


def build_metric(name: str, config: MetricConfig, prompts: Prompts) -> Metric:
    """Build a metric; UserError lists every problem that can be found without data."""
    return METRIC_KINDS.get(config.kind).build(name, config, prompts)
