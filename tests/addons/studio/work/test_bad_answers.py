"""A bad answer becomes a case with a check, which is run alone."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.bad_answers import BadAnswer, bad_answer, save_test
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.scores import case_scores
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError
from evalflow.testing import Endpoint
from tests.addons.studio.web.finished import EXACT
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = [ON_SQLITE, pytest.mark.slow]

SAYS = {"identifier": "string_matching", "enabled": True, "params": {"keyword": "4 pounds"}}
GREETS = {"identifier": "string_matching", "enabled": True, "params": {"keyword": "Hello"}}
ROWS: list[dict[str, Any]] = [
    {"id": "a", "question": "The fee?", "answer": "It is free.", "reference": "4 pounds", "checks": [GREETS]},
    {"id": "b", "question": "The hours?", "answer": "Always."},
]


@pytest.fixture(name="run")
def _run(space: Workspace) -> str:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    metrics.create_metric(space, "desk", MetricDraft("exact", {**EXACT, "gate": None}))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", ROWS)
    return finish(space, RunRequest("desk", ["mine"], ["exact"])).run_id


def test_the_case_gets_the_check_and_is_run_alone(space: Workspace, run: str) -> None:
    bad = bad_answer(space, run, 0)
    assert (bad.dataset, bad.bot, bad.checks, bad.example["content"]) == ("mine", "desk", 1, "It is free.")
    for _ in range(2):  # a second press changes nothing
        request = save_test(space, bad, bad.dataset, bad.bot, [SAYS])
    first, _ = cases.case_rows(space, "mine")
    assert first["checks"] == [GREETS, SAYS]
    assert (first["demo_answer"]["content"], first["reference"]) == ("It is free.", "4 pounds")
    ended = finish(space, request)
    found = case_scores(space, ended.run_id, "mine", "a")
    assert [(one.metric, one.passed) for one in found] == [("string_matching", False), ("string_matching#2", False)]
    assert case_scores(space, ended.run_id, "mine", "b") == []


def test_elsewhere_it_is_a_case_of_its_own(space: Workspace, run: str) -> None:
    datasets.create_dataset(space, "other")
    cases.add_cases(space, "other", [{"id": "a", "question": "Something else?"}])
    save_test(space, bad_answer(space, run, 0), "other", "desk", [SAYS])
    other, new = cases.case_rows(space, "other")
    assert other.get("checks") is None
    assert (new["checks"], new["answer"]) == ([SAYS], "It is free.")  # recorded answers are scored as they are


def test_a_pasted_answer_is_asked_of_the_bot_again(space: Workspace) -> None:
    messages = [{"role": "user", "content": "The fee?"}]
    bad = BadAnswer({"messages": messages}, {"role": "assistant", "content": "It is free."})
    with Endpoint(lambda _: "It is 4 pounds.") as endpoint:
        config = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        bots.create_bot(space, "live", config)
        ended = finish(space, save_test(space, bad, "", "live", [SAYS]))
    (case,) = cases.case_rows(space, "from_production")
    assert "answer" not in case
    (score,) = case_scores(space, ended.run_id, "from_production", case["id"])
    assert score.passed


def test_what_is_missing_is_said_at_once_and_nothing_is_saved(space: Workspace) -> None:
    with pytest.raises(UserError) as refused:
        save_test(space, BadAnswer({}, {"content": " "}), "", "", [])
    assert [problem.key for problem in refused.value.problems] == ["question", "demo_answer", "bot", "checks"]
    assert [one for one in datasets.list_datasets(space) if one.origin == "workspace"] == []
