"""What is read of a run's journals is in the database once, however often it is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.intake import Intake
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.scores import list_scores, run_tags
from evalflow.addons.studio.work.space import Workspace
from tests.finishing import finish

pytestmark = pytest.mark.slow

SAID: dict[str, Any] = {
    "kind": "check",
    "description": "It answers.",
    "needs": ["answer"],
    "checks": [{"op": "not_regex", "pattern": "no"}],
}


def test_a_journal_that_is_read_again_changes_nothing(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    metrics.create_metric(space, "desk", MetricDraft("said", SAID))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"question": f"q{i}?", "answer": "a", "tags": ["t"]} for i in range(4)])
    run = finish(space, RunRequest("desk", ["mine"], ["said"]))
    row, found, tags = run_row(space, run.run_id), list_scores(space, run.run_id).items, run_tags(space, run.run_id)
    assert (len(found), tags) == (4, [("t", 4)])
    for progress in ({**row.progress, "read": [0, 0]}, {"expected": 4}):
        intake = Intake(replace(row, progress=progress))
        with space.database.writing() as connection:
            again = intake.write(connection, intake.read())
        assert {name: again[name] for name in ("done", "counts", "read")} == {
            "done": 4,
            "counts": {"scored": 4},
            "read": row.progress["read"],
        }
        assert (list_scores(space, run.run_id).items, run_tags(space, run.run_id)) == (found, tags)
