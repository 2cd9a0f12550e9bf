from __future__ import annotations

import pytest

from evalflow.addons.studio.work import audit, bots, cases, datasets, runs
from evalflow.addons.studio.work.answer_examples import fill_examples, lacking_examples
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.trash import restore
from evalflow.testing import Endpoint
from tests.finishing import carry_out, finish

GENERATED = {"generate": True}


@pytest.mark.slow
def test_missing_examples_are_counted_and_filled_from_the_latest_run_that_has_some(space: Workspace) -> None:
    datasets.create_dataset(space, "fees")
    cases.add_cases(
        space, "fees", [{"id": name, "question": f"{name}?", "answer": f"{name}!", "reference": "a!"} for name in "abc"]
    )
    assert lacking_examples(space, "fees") == (3, None)
    bots.create_bot(space, "desk", {"kind": "recorded"})
    run = finish(space, RunRequest("desk", ["fees"], ["exact_match"]))
    datasets.create_dataset(space, "other")
    cases.add_cases(space, "other", [{"question": "Else?", "answer": "Else!", "reference": "Else!"}])
    finish(space, RunRequest("desk", ["other"], ["exact_match"]))
    a, b, _ = cases.case_ids(space, "fees")
    shown = cases.get_case(space, "fees", a)
    cases.update_case(space, "fees", a, shown.version, {**shown.body, "demo_answer": "Mine."})
    missing, latest = lacking_examples(space, "fees")
    assert (missing, latest and latest.run_id) == (2, run.run_id)
    deleted = cases.delete_cases(space, "fees", [b])
    assert fill_examples(space, "fees", run.run_id) == 1
    assert lacking_examples(space, "fees") == (0, None)
    restore(space, deleted.trash)
    assert lacking_examples(space, "fees")[0] == 1


def examples(space: Workspace, dataset: str) -> list[object]:
    bodies = [case.body for case in cases.list_cases(space, dataset).items]
    return [(body.get("demo_answer") or {}).get("content") for body in bodies]


@pytest.mark.slow
def test_a_run_of_a_bot_fills_missing_examples_with_its_answers_unless_it_is_asked_not_to(space: Workspace) -> None:
    datasets.create_dataset(space, "fees")
    cases.add_cases(space, "fees", [{"id": name, "question": f"{name}?", "reference": "a!"} for name in "abc"])
    first, second, _ = cases.case_ids(space, "fees")
    mine = cases.get_case(space, "fees", first)
    cases.update_case(space, "fees", first, mine.version, {**mine.body, "demo_answer": "Mine."})
    with Endpoint(lambda request: f"to {request.user}") as endpoint:
        model = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        bots.create_bot(space, "desk", model)
        request = RunRequest("desk", ["fees"], ["exact_match"], judge="embedded", options=GENERATED)
        off = finish(space, RunRequest("desk", ["fees"], ["exact_match"], judge="embedded", fill_examples=False))
        assert (off.filled_examples, examples(space, "fees")) == (None, ["Mine.", None, None])
        queued = runs.create_run(space, request)
        asked = cases.get_case(space, "fees", second)
        other = [{"role": "user", "content": "Something else?"}]
        cases.update_case(space, "fees", second, asked.version, {**asked.body, "messages": other})
        done = carry_out(space, queued.run_id)
        assert (done.filled_examples, examples(space, "fees")) == (1, ["Mine.", None, "to c?"]), "b was changed since"
        latest = audit.list_changes(space, audit.AuditFilter()).items[0]
        assert (latest.name, latest.by, latest.fields) == ("fees", "local", ["demo_answer of 1 cases"])
        assert finish(space, request).filled_examples == 1
        assert examples(space, "fees") == ["Mine.", "to Something else?", "to c?"]
        assert finish(space, request).filled_examples == 0


@pytest.mark.slow
def test_answers_that_were_recorded_in_the_data_fill_no_examples_by_themselves(space: Workspace) -> None:
    datasets.create_dataset(space, "fees")
    cases.add_cases(space, "fees", [{"question": "a?", "answer": "a!", "reference": "a!"}])
    bots.create_bot(space, "desk", {"kind": "recorded"})
    assert finish(space, RunRequest("desk", ["fees"], ["exact_match"])).filled_examples == 0
    assert examples(space, "fees") == [None]
