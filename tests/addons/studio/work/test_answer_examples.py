from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from sqlalchemy import Connection

from evalflow.addons.studio.store import runs as stored_runs
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.work import answer_examples, audit, bots, cases, datasets, people, projects, runs
from evalflow.addons.studio.work.access import ForbiddenError
from evalflow.addons.studio.work.answer_examples import fill_after_run, fill_examples, lacking_examples
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.trash import restore
from evalflow.errors import Problem, UserError
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


def done_but_for_the_examples(space: Workspace, starter: str) -> str:
    """A run of three cases whose worker "w" has yet to fill the examples; returns its id."""
    datasets.create_dataset(space, "fees")
    cases.add_cases(space, "fees", [{"id": name, "question": f"{name}?", "reference": "a!"} for name in "abc"])
    with Endpoint(lambda request: f"to {request.user}") as endpoint:
        model = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        bots.create_bot(space, "desk", model)
        request = RunRequest("desk", ["fees"], ["exact_match"], judge="embedded", options=GENERATED)
        run_id = finish(space, replace(request, fill_examples=False)).run_id
    values = {"composition": asdict(request), "worker": "w", "state": "running", "created_by": starter}
    with space.database.writing() as connection:
        assert stored_runs.change(connection, run_id, stored(space, run_id).version, **values)
    return run_id


def stored(space: Workspace, run_id: str) -> StoredRun:
    row = space.read(stored_runs.get, run_id)
    assert row
    return row


@pytest.mark.slow
def test_what_was_filled_is_counted_with_it_when_filling_stops_in_between(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_examples, "_AT_ONCE", 1)
    run_id = done_but_for_the_examples(space, "local")
    blocks: list[int] = []

    def count(connection: Connection, filled: int) -> None:
        blocks.append(filled)
        if len(blocks) == 4:
            raise UserError(Problem("another worker has taken the run over"))
        assert stored_runs.count_filled(connection, run_id, "w", filled, heartbeat=float(len(blocks)))

    with pytest.raises(UserError, match="taken the run over"):
        fill_after_run(space, stored(space, run_id), count)
    half = stored(space, run_id)
    assert (half.filled_examples, half.heartbeat, examples(space, "fees")) == (2, 3.0, ["to a?", "to b?", None])
    fill_after_run(space, half, count)
    assert (stored(space, run_id).filled_examples, examples(space, "fees")[2]) == (3, "to c?")


@pytest.mark.slow
def test_a_run_fills_examples_only_if_who_started_it_may_still_edit(space: Workspace) -> None:
    run_id = done_but_for_the_examples(space, "ann")
    people.add_user(space, "owner", is_owner=True)
    ann = people.add_user(space, "ann")
    counted: list[int] = []

    def fill() -> None:
        fill_after_run(space, stored(space, run_id), lambda _connection, filled: counted.append(filled))

    projects.set_role(space, "ann", "viewer")
    with pytest.raises(ForbiddenError, match="ann, who started the run, may not edit"):
        fill()
    projects.set_role(space, "ann", "editor")
    disabled = people.update_user(space, "ann", ann.version, is_disabled=True)
    with pytest.raises(ForbiddenError, match="ann, who started the run, may not edit"):
        fill()
    assert (counted, examples(space, "fees")) == ([], [None] * 3)
    people.update_user(space, "ann", disabled.version, is_disabled=False)
    fill()
    assert (counted, examples(space, "fees")) == ([0, 3], ["to a?", "to b?", "to c?"])


@pytest.mark.slow
def test_answers_that_were_recorded_in_the_data_fill_no_examples_by_themselves(space: Workspace) -> None:
    datasets.create_dataset(space, "fees")
    cases.add_cases(space, "fees", [{"question": "a?", "answer": "a!", "reference": "a!"}])
    bots.create_bot(space, "desk", {"kind": "recorded"})
    assert finish(space, RunRequest("desk", ["fees"], ["exact_match"])).filled_examples == 0
    assert examples(space, "fees") == [None]
