"""A run's gates, metrics and judges in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from evalflow.addons.studio.web.ui import headline
from evalflow.addons.studio.web.ui.headline import gate_name, gates_in_words, judge_line, metric_title
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.titles import Titles
from evalflow.app.core.rederive import MetricInRun
from tests.report.outcomes import gate_outcome


def _run(bot: str = "helper", **metrics: MetricInRun) -> Run:
    return cast("Run", SimpleNamespace(bot=bot, metrics=metrics))


def _metric(judge: str | None, judged: str) -> MetricInRun:
    known: dict[str, Any] = {"threshold": None, "declared": None, "direction": "higher_is_better", "bounded": True}
    return MetricInRun("right_fee", "Right fee", judge, description=None, judged=judged, **known)


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([], ""),
        ([True], "The gate passed."),
        ([False], "Gate failed: g0 mean >= 0."),
        ([True, True], "All 2 gates passed."),
        ([True, None, False], "1 of 3 gates failed: g2 mean >= 0. 1 of 3 gates undecided: g1 mean >= 0."),
    ],
)
def test_gates_are_said_in_words(outcomes: list[bool | None], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headline, "title_of", Titles({}).of)
    gates = [
        gate_outcome(name=f"g{i} mean >= 0", metric=f"g{i}", statistic="mean", passed=one)
        for i, one in enumerate(outcomes)
    ]
    assert gates_in_words(gates, _run()) == said


def test_a_gate_is_called_by_the_titles_of_its_metric_and_statistic(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = Titles({("metric", "helper", "exact"): "Exactly right", ("metric", "other", "exact"): "Another"})
    monkeypatch.setattr(headline, "title_of", titles.of)

    def called(metric: str, statistic: str = "mean") -> str:
        name = f"{metric} {statistic} >= 0.8"
        return gate_name(gate_outcome(name=name, metric=metric, statistic=statistic), _run())

    assert called("exact") == "Exactly right mean >= 0.8"
    assert called("exact@fees_desk") == "Exactly right@fees_desk mean >= 0.8"
    assert called("exact_match") == "exact_match mean >= 0.8"
    assert called("tag:exact") == "tag:exact mean >= 0.8"
    assert called("exact", "pass_rate") == "Exactly right pass rate >= 0.8"
    assert called("exact", "macro_recall[not_due]") == "Exactly right macro recall[not_due] >= 0.8"
    assert called("cases", "pass_rate") == "Cases that pass everything pass rate >= 0.8"


def test_a_run_without_a_bot_has_the_titles_of_its_metrics_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headline, "title_of", Titles({("metric", "", "exact"): "Exact, now"}).of)
    run = _run("recorded", right_fee=_metric(None, ""), exact=_metric(None, ""))
    assert metric_title(run, "right_fee") == "Right fee"
    assert metric_title(run, "exact") == "Exact, now"
    assert metric_title(run, "unknown") == "unknown"


def test_a_judge_is_called_by_its_title(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headline, "with_titles", Titles({("judge", "", "desk_judge"): "Judge of the desk"}).in_text)
    named = _metric("desk_judge", "judge: desk_judge (LLM m), uncalibrated")
    assert judge_line(named) == "judge: Judge of the desk (LLM m), uncalibrated"
    none = "judge: none (no metric needs one)"
    assert judge_line(_metric(None, none)) == none
