"""Which metrics need a judge or an embedder: only those need a key, and are named in the run's files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from evalflow.errors import UserError
from evalflow.protocols import Metric
from evalflow.records import Case


@dataclass(frozen=True, slots=True)
class Demand:
    """Names of metrics.

    Attributes:
        asking: Those that ask a judge.
        embedding: Those that ask the embedder.
    """

    asking: Set[str] = frozenset()
    embedding: Set[str] = frozenset()


def demand_of(metrics: Mapping[str, Metric], cases: Callable[[], Iterable[Case]]) -> Demand:
    """Who needs whom.

    A metric that may ask both binds to checks, and what these need stands in the cases. They are read for such a
    metric only, and no further than to the first check of either sort.

    Raises:
        UserError: The data cannot be read.
    """
    asking = {name for name, metric in metrics.items() if metric.asks and not metric.embeds}
    embedding = {name for name, metric in metrics.items() if metric.embeds and not metric.asks}
    for name, metric in metrics.items():
        if metric.asks and metric.embeds:
            asks, embeds = _needs(metric, cases())
            asking |= {name} if asks else set()
            embedding |= {name} if embeds else set()
    return Demand(asking, embedding)


def _needs(metric: Metric, cases: Iterable[Case]) -> tuple[bool, bool]:
    asks = embeds = False
    for case in cases:
        try:
            bound = metric.bind(case)
        except UserError:
            continue  # the census tells of it
        asks = asks or any(one.asks for one in bound)
        embeds = embeds or any(one.embeds for one in bound)
        if asks and embeds:
            break
    return asks, embeds
