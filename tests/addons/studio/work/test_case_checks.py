"""The checks of cases run without being asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, checks, datasets, metrics, runs
from evalflow.addons.studio.work.checks import CheckDraft
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import estimate_run
from evalflow.addons.studio.work.space import Workspace
from tests.addons.studio.web.finished import EXACT
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = ON_SQLITE
SAYS = {"identifier": "string_matching", "enabled": True, "params": {"keyword": "4"}}
KIND = {"identifier": "conformity", "enabled": True, "params": {"rules": ["Be kind."]}}
REQUEST = RunRequest("desk", ["mine"], ["exact"], judge="embedded")


def fill(space: Workspace, *given: list[dict[str, Any]]) -> None:
    """A bot, a metric, and a case for each list of checks."""
    bots.create_bot(space, "desk", {"kind": "recorded"})
    metrics.create_metric(space, "desk", MetricDraft("exact", {**EXACT, "gate": None}))
    datasets.create_dataset(space, "mine")
    rows = [
        {"id": f"c{i}", "question": f"Q{i}?", "answer": "4", "reference": "4", "checks": own or None}
        for i, own in enumerate(given)
    ]
    cases.add_cases(space, "mine", rows)


def scores(space: Workspace, **changes: Any) -> int:
    """How many scores a run is estimated to have."""
    request = RunRequest(**{"bot": "desk", "datasets": ["mine"], "metrics": ["exact"], "judge": "embedded", **changes})
    return estimate_run(space, request).scores


@pytest.mark.slow
def test_a_run_has_the_checks_of_its_cases(space: Workspace) -> None:
    fill(space, [SAYS], [])
    ended = finish(space, REQUEST)
    assert set(ended.metrics) == {"exact", "string_matching"}
    assert ended.request == REQUEST  # so that the form shows what was chosen
    assert "metric=[exact,checks]" in ended.repeat


def test_only_the_cases_that_it_takes_count(space: Workspace) -> None:
    fill(space, [SAYS], [], [{**SAYS, "enabled": False}])
    assert scores(space) == 5  # what is off is skipped, and told
    assert scores(space, dataset_values={"mine": {"ids": ["c1"]}}) == 1
    assert scores(space, options={"limit": 1}) == 2
    assert scores(space, metrics=["exact", "checks"]) == 5  # asked for twice, run once


def test_without_an_enabled_check_nothing_is_added(space: Workspace) -> None:
    fill(space, [], [{**SAYS, "enabled": False}])
    assert scores(space) == 2


def test_cases_of_conf_are_read_for_theirs(space: Workspace) -> None:
    fill(space, [])
    (space.root / "conf" / "dataset").mkdir(parents=True)
    row = {"id": "a", "question": "Q?", "answer": "4", "reference": "4", "checks": [SAYS]}
    (space.root / "mine.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    text = "# @package dataset.declared\npath: mine.jsonl\n"
    (space.root / "conf" / "dataset" / "declared.yaml").write_text(text, encoding="utf-8")
    assert scores(space, datasets=["declared"]) == 2
    assert scores(space, datasets=["declared", "mine"]) == 3


def test_checks_that_need_a_model_are_left_out_and_told_if_the_judge_is_none(space: Workspace) -> None:
    fill(space, [SAYS, KIND], [{"identifier": "kind", "enabled": True, "params": {}}])
    checks.create_check(space, CheckDraft("kind", "conformity", {"rules": ["Be kind."]}, "", "", []))
    found = estimate_run(space, REQUEST)
    assert found.scores == 3
    [notice] = [one for one in found.notices if "left out" in one]
    assert "(conformity, kind)" in notice
    run = runs.create_run(space, REQUEST)
    assert runs.notices_of(space, run.run_id) == [notice]


def test_with_checks_for_a_model_alone_none_is_added(space: Workspace) -> None:
    fill(space, [KIND])
    found = estimate_run(space, REQUEST)
    assert found.scores == 1
    assert any("left out (conformity)" in one for one in found.notices)
