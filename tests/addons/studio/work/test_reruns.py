"""A run again: on some of its cases, with another prompt of its bot, or with a changed metric."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalflow.addons.studio.work import bots, cases, datasets
from evalflow.addons.studio.work.metrics import MetricDraft, copy_metric, create_metric, delete_metric, get_library
from evalflow.addons.studio.work.reruns import (
    ChangeableMetric,
    bot_with_prompt,
    changeable_metrics,
    failed_only,
    fault_of,
    known_cases,
    run_with_metric,
    run_with_prompt,
    uses_cache,
)
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import changed_request, create_run, estimate_run, get_run
from evalflow.addons.studio.work.scores import answered_cases, failed_cases
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.errors import UserError
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = pytest.mark.slow
MODEL = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}


@ON_SQLITE
def test_a_new_prompt_is_kept_by_the_bot_and_asks_the_same_cases(space: Workspace) -> None:
    bots.create_bot(space, "desk", {**MODEL, "system_prompt": "Be kind."})
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"id": "c", "question": "q?", "answer": "a", "reference": "a"}])
    asked = RunRequest("desk", ["mine"], ["exact_match"], judge="embedded", options={"generate": "missing", "limit": 1})
    first = create_run(space, asked)
    again = run_with_prompt(space, first.run_id, "Be brief. ", 1, "key")
    desk = bots.get_bot(space, "desk")
    assert (desk.version, desk.config["system_prompt"]) == (2, "Be brief.")
    assert again.request is not None
    assert (again.title, again.request.datasets) == ("desk, new prompt", ["mine"])
    assert again.request.options == {"generate": True, "limit": 1}
    assert get_run(space, first.run_id).request == asked
    # What is there already is not saved twice, whatever version was seen.
    assert run_with_prompt(space, first.run_id, "Be brief.", 1, "key").run_id == again.run_id
    with pytest.raises(UserError, match="version"):
        run_with_prompt(space, first.run_id, "Be long.", 1)
    bots.create_bot(space, "paper", {"kind": "recorded"})
    recorded = create_run(space, RunRequest("paper", ["mine"], ["exact_match"]))
    assert bot_with_prompt(space, recorded) is None
    with pytest.raises(UserError, match="no prompt"):
        run_with_prompt(space, recorded.run_id, "Be brief.", 1)


@ON_SQLITE
def test_a_changed_metric_takes_its_place_in_the_run_again(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"id": "c", "question": "q?", "answer": "a", "reference": "a"}])
    names = ["exact_match", "rouge_1"]
    gates = {"exact_match@Fees": {"mean": ">= 0.5"}, "rouge_1": {"mean": ">= 0.1"}}
    options = {"limit": 1, "gate": gates}
    asked = RunRequest("desk", ["mine"], names, thresholds={"exact_match": 0.5, "rouge_1": 0.5}, options=options)
    run_id = create_run(space, asked).run_id
    of_library = {name: ChangeableMetric("desk", name, is_own=False) for name in names}
    assert changeable_metrics(space, run_id) == of_library
    copy_metric(space, "exact_match", "desk", "exactly")
    again = run_with_metric(space, run_id, "exactly", "exact_match").request
    assert again is not None
    assert (again.metrics, again.thresholds) == (["exactly", "rouge_1"], {"rouge_1": 0.5})
    renamed = {"exactly@Fees": {"mean": ">= 0.5"}, "rouge_1": {"mean": ">= 0.1"}}
    assert again.options == {"limit": 1, "gate": renamed}
    with pytest.raises(UserError, match="metric rouge_l is not in run"):
        run_with_metric(space, run_id, "exactly", "rouge_l")
    copy_metric(space, "exact_match", "desk", "exact_match")
    own = ChangeableMetric("desk", "exact_match", is_own=True)
    assert changeable_metrics(space, run_id) == {**of_library, "exact_match": own}
    of_files = create_run(space, RunRequest("recorded", ["mine"], ["exact_match"])).run_id
    assert changeable_metrics(space, of_files) == {}, "a bot of files has no metrics of its own"


@ON_SQLITE
def test_a_metric_that_is_made_again_is_graded_again(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"id": "c", "question": "q?", "answer": "a", "reference": "a"}])
    run_id = create_run(space, RunRequest("desk", ["mine"], ["exact_match"])).run_id
    definition = get_library(space, "exact_match").definition

    def made(threshold: float) -> str:
        create_metric(space, "desk", MetricDraft("mine", {**definition, "threshold": threshold}))
        return run_with_metric(space, run_id, "mine", "exact_match", "key").run_id

    first = made(0.5)
    assert run_with_metric(space, run_id, "mine", "exact_match", "key").run_id == first
    delete_metric(space, "desk", "mine", 1)
    assert made(0.7) != first, "its version is 1 again"


@pytest.mark.parametrize(("mode", "uses"), [(None, True), ("on", True), ("off", False), ("refresh", False)])
def test_whether_a_run_takes_replies_from_the_cache(space: Workspace, mode: str | None, *, uses: bool) -> None:
    options = {} if mode is None else {"cache": {"mode": mode}}
    assert uses_cache(space, RunRequest("desk", ["mine"], ["exact_match"], options=options)) is uses


def test_a_failed_run_names_the_key_that_is_to_be_changed(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    bots.create_bot(space, "helper", {**MODEL, "attempts": 1})
    datasets.create_dataset(space, "mine")
    rows = [{"id": "a", "question": "q?", "answer": "a", "reference": "a", "contexts": ["a"]}]
    cases.add_cases(space, "mine", rows)
    judge = {"judge": "openai", "judge_values": {**MODEL, "attempts": 1}}
    del judge["judge_values"]["kind"]
    asked = {
        "judge.base_url": RunRequest("desk", ["mine"], ["faithfulness"], **judge),
        "target.base_url": RunRequest("helper", ["mine"], ["exact_match"]),
        "budget.requests": RunRequest("helper", ["mine"], ["exact_match"], options={"budget": {"requests": 0}}),
    }
    for key, request in asked.items():
        run = finish(space, request)
        assert run.state == "failed"
        assert run.message.startswith("error: ")
        fault = fault_of(space, run.run_id)
        assert fault is not None
        assert fault.key == key
        assert "\n" not in fault.hint
        assert fault.what in run.message
    assert fault_of(space, create_run(space, asked["target.base_url"]).run_id) is None


def test_only_what_failed_in_a_run_is_run_again(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    for name in ("mine", "other"):
        datasets.create_dataset(space, name)
        rows = [{"id": f"c{i}", "question": "q?", "answer": str(i), "reference": "1"} for i in range(4)]
        cases.add_cases(space, name, rows[1:2] if name == "other" else rows)
    run = finish(space, RunRequest("desk", ["mine", "other"], ["exact_match"], thresholds={"exact_match": 1.0}))
    assert failed_cases(space, run.run_id) == {"mine": ["c0", "c2", "c3"]}
    assert answered_cases(space, run.run_id, [4, 1, 99]) == {"mine": ["c1"], "other": ["c1"]}
    again = failed_only(space, changed_request(run), run.run_id)
    assert (again.datasets, again.dataset_values) == (["mine"], {"mine": {"ids": ["c0", "c2", "c3"]}})
    some = replace(changed_request(run), dataset_values={"mine": {"ids": ["c0", "c1"]}})
    assert failed_only(space, some, run.run_id).dataset_values == {"mine": {"ids": ["c0"]}}
    gone = [case.id for case in cases.list_cases(space, "mine").items if case.body["id"] == "c2"]
    cases.delete_cases(space, "mine", gone)
    known = known_cases(space, {**failed_cases(space, run.run_id), "never": ["x"]})
    assert (known.ids, known.gone) == ({"mine": ["c0", "c3"]}, 2)
    assert estimate_run(space, failed_only(space, again, run.run_id)).cases == {"mine": 2}
    with pytest.raises(TakenError, match="no case of other failed"):
        failed_only(space, replace(again, datasets=["other"]), run.run_id)
