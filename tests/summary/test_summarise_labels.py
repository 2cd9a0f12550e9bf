"""Figures of a classification count what its scores count, whatever the labels are written like."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalflow.metrics.kinds.labels import ClassificationMetric, ClassificationMetricConfig
from evalflow.prompts import Prompts
from evalflow.records import Answer, Case
from evalflow.summary.summarise import summarise

labels = st.sampled_from([0, 0.0, -0.0, 1, 1.0, 2, 2.5, 1e300, int(1e300)])


@given(pairs=st.lists(st.tuples(labels, labels), min_size=1, max_size=6))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_accuracy_is_the_mean_score(
    record: Callable[..., Any], table: Callable[..., Any], pairs: list[tuple[float, float]]
) -> None:
    config = ClassificationMetricConfig(kind="classification", needs=["expected", "actual"])
    metric = ClassificationMetric.build("m", config, Prompts([]))
    scored = []
    for i, (expected, actual) in enumerate(pairs):
        case = Case(dataset="d", index=i, id=f"c{i}", expected=expected)
        answer = Answer(dataset="d", index=i, case_id=case.id, target="recorded", actual=actual)
        outcome = asyncio.run(metric.score(case, answer, None, 0))
        scored.append(record(outcome.score, i, judge=None, value=outcome.value))
    frame = summarise(table(scored), {"m": metric}).frame
    by_name = dict(frame.select("statistic", "value").iter_rows())
    assert by_name["accuracy"] == pytest.approx(by_name["mean"])
    assert by_name["mean"] == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert len([name for name in by_name if name.startswith("f1[")]) == len({label for pair in pairs for label in pair})
