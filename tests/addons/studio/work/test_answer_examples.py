from __future__ import annotations

import pytest

from evalflow.addons.studio.work import bots, cases, datasets
from evalflow.addons.studio.work.answer_examples import fill_examples, lacking_examples
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.trash import restore
from tests.finishing import finish


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
