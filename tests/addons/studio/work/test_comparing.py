"""Where one can go on from a run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.comparing import related
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = [pytest.mark.slow, ON_SQLITE]

GRADED: dict[str, Any] = {
    "kind": "recorded",
    "description": "What somebody gave.",
    "needs": ["answer"],
    "field": "grade",
    "scale": {"type": "percentage"},
}


def test_a_run_leads_to_the_one_before_it_and_on_without_it_where_its_own_folder_is_gone(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    metrics.create_metric(space, "desk", MetricDraft("graded", GRADED))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"id": "c", "question": "q?", "answer": "a", "vars": {"grade": 50}}])
    first, second = (finish(space, RunRequest("desk", ["mine"], ["graded"])) for _ in range(2))
    assert related(space, first.run_id).before is None
    found = related(space, second.run_id)
    assert (found.bot, found.datasets) == ("desk", ["mine"])
    assert found.before is not None
    assert (found.before.run.run_id, found.before.obstacles) == (first.run_id, [])
    shutil.rmtree(Path(second.folder))
    assert related(space, second.run_id).before is None
