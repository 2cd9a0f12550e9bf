"""Composites before the run: whether their parts will be there, and who judges those."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from evalflow.app.results.composites import unusable_parts
from evalflow.app.setup.assemble import Parts
from evalflow.app.setup.scored import Scored
from evalflow.errors import Problem
from evalflow.llm.joined import JudgeWithEmbedder

if TYPE_CHECKING:
    from evalflow.protocols import Judge, Metric


def composites(parts: Parts, scored: Mapping[str, Scored]) -> tuple[dict[str, Scored], list[Problem]]:
    """The composites of a run with whoever judges their parts, and what is wrong with them.

    Args:
        parts: The run's.
        scored: The scores that the run will have without them.
    """
    wrong = unusable_parts(parts.settings, {name: one.metric for name, one in scored.items()})
    made = {
        name: Scored(metric, _judge(metric, scored), name)
        for name, metric in parts.metrics.items()
        if metric.parts and name not in wrong
    }
    return made, [problem for problems in wrong.values() for problem in problems]


def _judge(metric: Metric, scored: Mapping[str, Scored]) -> Judge | None:
    """Whoever judges the parts, as one."""
    judges = {judge.name: judge for part in metric.parts if (judge := scored[part].judge)}
    return reduce(JudgeWithEmbedder, judges.values()) if judges else None
