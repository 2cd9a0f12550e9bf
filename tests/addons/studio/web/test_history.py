"""What the application knows of a metric over runs."""

from __future__ import annotations

import shutil

import pytest

from evalflow.addons.studio.work import comparing
from evalflow.addons.studio.work.run_files import keep_threshold, restore_threshold
from evalflow.addons.studio.work.runs import get_run
from evalflow.summary.verdicts import Condition
from tests.addons.studio.web.conftest import working_in
from tests.addons.studio.web.finished import Finished


def test_a_number_is_followed_with_its_gates_and_its_breaks(finished: Finished) -> None:
    with working_in(finished.folder) as space:
        [one] = comparing.tracked_metrics(space)
        assert (one.bot, one.dataset, one.metric, one.runs) == ("fees", "questions", "exact", 3)
        assert one.statistics == ["mean", "pass_rate"]
        found = comparing.history(space, one.bot, one.dataset, one.metric)
        rates = comparing.history(space, one.bot, one.dataset, one.metric, "pass_rate")
        none = comparing.history(space, "nobody", one.dataset, one.metric)
    assert [point.run_id for point in found.points] == [finished.worse, finished.better, finished.other]
    assert [point.value for point in found.points] == pytest.approx([1 / 12, 11 / 12, 11 / 12])
    assert [[(held.condition, held.passed) for held in point.gates] for point in found.points] == [
        [(Condition(">=", 0.5), False)],
        [(Condition(">=", 0.5), True)],
        [(Condition(">=", 0.5), True)],
    ]
    assert [[o.what for o in point.breaks] for point in found.points] == [
        [],
        [],
        ["metric exact has version 1 in the run before and 2 in this one"],
    ]
    assert [list(point.changed) for point in found.points] == [[], ["the data"], []]
    assert (found.higher_is_better, found.bounded) == (True, True)
    assert [point.value for point in rates.points] == [point.value for point in found.points]
    assert all(point.gates == [] for point in rates.points)
    assert none.points == []


def test_a_changed_threshold_is_told(finished: Finished) -> None:
    with working_in(finished.folder) as space:
        version = get_run(space, finished.better).version
        changed = keep_threshold(space, finished.better, "exact", 0.5, version)
        try:
            rates = comparing.history(space, "fees", "questions", "exact", "pass_rate")
            means = comparing.history(space, "fees", "questions", "exact")
        finally:
            restore_threshold(space, finished.better, "exact", changed.version)
    assert [point.threshold for point in rates.points] == [1.0, 0.5, 1.0]
    assert [list(point.changed) for point in rates.points] == [[], ["the data", "the threshold"], ["the threshold"]]
    assert [list(point.changed) for point in means.points] == [[], ["the data"], []]


def test_where_a_folder_is_gone_nobody_can_tell(finished: Finished) -> None:
    with working_in(finished.folder) as space:
        folder = space.runs / finished.better
        shutil.move(folder, folder.with_name("aside"))
        try:
            found = comparing.history(space, "fees", "questions", "exact")
        finally:
            shutil.move(folder.with_name("aside"), folder)
    assert [len(point.breaks) for point in found.points] == [0, 1, 1]
    assert "nobody can tell" in found.points[1].breaks[0].what
    assert found.points[1].value == pytest.approx(11 / 12)
