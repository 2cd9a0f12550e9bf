"""The mean on a metric's own scale."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from evalflow.config.schema import MetricConfig
from evalflow.metrics.registry import METRIC_KINDS
from evalflow.metrics.scale import own_bounds
from evalflow.records.manifest import MetricFacts
from evalflow.report.console import print_table
from evalflow.report.numbers import numbers_table, own_scale_cells, own_scale_of_runs
from evalflow.summary.rows import SummaryRow
from tests.manifests import manifest_of


def facts(scale: tuple[float, float] | None) -> MetricFacts:
    return MetricFacts(
        declared="tone",
        judge="j",
        asks=True,
        embeds=False,
        bounded=True,
        scale=scale,
        key="tone",
        description="",
        version=1,
        prompt_sha256=None,
        figures=None,
    )


def row(metric: str, value: float | None, statistic: str = "mean") -> SummaryRow:
    return SummaryRow("rag", "bot", metric, statistic, "j", None, 40, 40, 0, 0, 0, value=value)


@pytest.mark.parametrize(
    ("scale", "value", "shown"),
    [
        ((1, 5), 0.75, "4.0/5"),
        ((0, 10), 0.333, "3.3/10"),
        ((0, 100), 0.5, "50.0/100"),
        ((-2, 2), 0.25, "-1.0 in -2 to 2"),
    ],
)
def test_a_mean_is_shown_on_the_scale_of_its_metric(scale: tuple[float, float], value: float, shown: str) -> None:
    rows = [row("tone", value), row("share", 0.5), row("tone", None), row("tone", 0.5, "share_of_ones")]
    assert own_scale_cells(rows, {"tone": facts(scale), "share": facts(None)}) == [shown, "–", "–", "–"]


def test_there_is_no_column_without_another_scale() -> None:
    assert own_scale_cells([row("share", 0.5), row("cases", 0.5)], {"share": facts(None)}) == []
    table = numbers_table([row("share", 0.5)], {}, {"share": facts(None)})
    assert [column.name for column in table.columns] == ["Metric", "Score", "95 % interval", "Pass rate", "Scored"]


def test_the_column_stands_beside_the_score_in_80_columns() -> None:
    metrics = {"tone_of_the_long_answer": facts((1, 5))}
    rows = [row("tone_of_the_long_answer", 0.75), row("share", 0.5)]
    table = numbers_table(rows, {}, metrics)
    assert [column.name for column in table.columns][:4] == ["Metric", "Score", "Scale", "95 % interval"]
    assert [cells[2] for cells in table.rows] == ["4.0/5", "–"]
    console = Console(file=StringIO(), width=80)
    print_table(console, rows, (), own_scale_cells(rows, metrics))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "score scale 95 % interval" in " ".join(shown.split())
    assert "0.750  4.0/5" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize(
    ("kind", "keys", "bounds"),
    [
        ("rubric", {"prompt": "p", "scale": {"type": "likert", "min": 1, "max": 5}}, (1, 5)),
        ("rubric", {"prompt": "p", "scale": {"type": "likert", "min": 0, "max": 1}}, None),
        ("rubric", {"prompt": "p", "scale": "percentage"}, (0, 100)),
        ("rubric", {"prompt": "p", "scale": "boolean"}, None),
    ],
)
def test_the_scale_is_that_of_the_judge(kind: str, keys: dict[str, object], bounds: tuple[int, int] | None) -> None:
    values = {"kind": kind, "description": "d", "needs": ["answer", "reference"], **keys}
    config: MetricConfig = METRIC_KINDS.config(kind).model_validate(values)
    assert own_bounds(config, bounded=True) == bounds


def test_runs_of_a_sweep_have_their_own_scales() -> None:
    rows = [replace(row("tone", 0.5), run=run) for run in ("five", "ten", "none")]
    manifests = {
        run: manifest_of().model_copy(update={"metrics": {"tone": facts(scale)}})
        for run, scale in (("five", (1, 5)), ("ten", (0, 10)), ("none", None))
    }
    assert own_scale_of_runs(rows, manifests) == ["3.0/5", "5.0/10", "–"]
    assert own_scale_of_runs(rows[2:], manifests) == []
