"""Another threshold for a finished run: its interval, kept with everything that follows, given back, and carried on."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from sqlalchemy import select, update

from evalflow.addons.studio.store import runs as stored_runs
from evalflow.addons.studio.store.tables import run_views, scores
from evalflow.addons.studio.work import bots, cases, datasets, metrics, run_files, runs
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.process import working_on
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.scores import (
    ScoreFilter,
    distribution,
    list_scores,
    note_view,
    order_results,
    pass_rates,
    read_results,
)
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.app.core.rederive import rewrite
from evalflow.app.core.saved import notes_on_exclusions, read_exclusions
from evalflow.engine.folder import RunFolder
from evalflow.errors import UserError
from evalflow.summary.exclusions import ExcludedResult
from tests.cli.conftest import Program
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = pytest.mark.slow

GRADED: dict[str, Any] = {
    "kind": "recorded",
    "description": "What somebody gave.",
    "needs": ["answer"],
    "field": "grade",
    "scale": {"type": "percentage"},
    "threshold": 0.5,
    "gate": {"pass_rate": ">= 0.5"},
}


@pytest.fixture(name="run")
def _run(space: Workspace) -> Run:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    metrics.create_metric(space, "desk", MetricDraft("graded", GRADED))
    datasets.create_dataset(space, "mine")
    rows = [
        {"id": f"c{i}", "question": f"q{i}?", "answer": "a", "vars": {"grade": 10 * i}, "group": f"g{i // 2}"}
        for i in range(10)
    ]
    cases.add_cases(space, "mine", rows)
    return finish(space, RunRequest("desk", ["mine"], ["graded"]))


def found(run: Run) -> tuple[Any, ...]:
    [metric], [gate] = run.facts["metrics"], run.facts["gates"]
    return metric["threshold"], metric["declared"], gate["passed"], run.exit_code, run.facts["kept"]


@ON_SQLITE
def test_composites_of_what_passes_follow_a_threshold(space: Workspace, run: Run) -> None:
    whole = {"kind": "composite", "description": "All pass.", "of": {"graded": 1}, "op": "all"}
    metrics.create_metric(space, "desk", MetricDraft("whole", whole))
    both = finish(space, RunRequest("desk", ["mine"], ["whole", "graded"]))

    def passed() -> list[bool]:
        return [bool(score.score) for score in list_scores(space, both.run_id, ScoreFilter(metric="whole")).items]

    assert [score.metric for score in list_scores(space, both.run_id, limit=2).items] == ["graded", "whole"]
    assert passed() == [i >= 5 for i in range(10)]
    run_files.keep_threshold(space, both.run_id, "graded", 0.2)
    assert passed() == [i >= 2 for i in range(10)]


def test_it_is_kept_with_all_that_follows_and_given_back(space: Workspace, run: Run) -> None:
    assert found(run) == (0.5, 0.5, None, 3, [])
    low = run_files.keep_threshold(space, run.run_id, "graded", 0.0)
    assert found(low) == (0.0, 0.5, True, 0, ["metric.graded.threshold=0.0"])
    [told] = run_files.passing(space, run.run_id, "graded", [0.95])
    high = run_files.keep_threshold(space, run.run_id, "graded", 0.95)
    [row] = high.facts["summary"]
    same = [row["pass_rate"], row["pass_rate_low"], row["pass_rate_high"]]
    assert [told.rate, told.low, told.high] == pytest.approx(same)  # a sum's last digit depends on its order
    assert told.method.startswith("plus_two_cr2_t")
    assert found(high) == (0.95, 0.5, False, 1, ["metric.graded.threshold=0.95"])
    assert high.facts["summary"][0]["pass_rate"] == 0
    assert [(one.threshold, one.passed) for one in pass_rates(space, run.run_id)] == [(0.95, 0)]
    assert "is 0.000" in (run.folder / "summary.md").read_text() or "0.95" in (run.folder / "report.html").read_text()
    assert json.loads((run.folder / "run.json").read_text())["exit_code"] == 1
    assert high.repeat.endswith("++metric.graded.threshold=0.95")
    assert Program(space.root)(*shlex.split(high.repeat)[3:]).returncode == 1
    back = run_files.restore_threshold(space, run.run_id, "graded")
    assert found(back) == found(run)
    assert back.repeat == run.repeat
    assert back.facts["summary"] == run.facts["summary"]


@ON_SQLITE
def test_the_bot_takes_it_along(space: Workspace, run: Run) -> None:
    changed = run_files.carry_threshold(space, run.run_id, "graded", 0.7)
    assert changed.definition == {**GRADED, "threshold": 0.7}
    assert found(runs.get_run(space, run.run_id))[0] == 0.5
    following = runs.create_run(space, RunRequest("desk", ["mine"], ["graded"]))
    assert "threshold: 0.7" in (following.folder / "snapshot/conf/metric/graded.yaml").read_text()


@ON_SQLITE
def test_what_cannot_be_kept_or_carried_says_why_and_changes_nothing(space: Workspace, run: Run) -> None:
    before = {name: (run.folder / name).read_bytes() for name in ("run.json", "report.html", "scores.parquet")}
    for change in (run_files.keep_threshold, run_files.carry_threshold):
        with pytest.raises(UserError, match="a threshold is a number"):
            change(space, run.run_id, "graded", float("nan"))
    with pytest.raises(NotFoundError, match="'polite'"):
        run_files.keep_threshold(space, run.run_id, "polite", 0.5)
    with working_on(run.folder), pytest.raises(TakenError, match="something works on"):
        run_files.keep_threshold(space, run.run_id, "graded", 0.7)
    stored = metrics.get_metric(space, "desk", "graded")
    metrics.delete_metric(space, "desk", "graded", stored.version)
    with pytest.raises(TakenError, match="no metric graded any more"):
        run_files.carry_threshold(space, run.run_id, "graded", 0.7)
    assert before == {name: (run.folder / name).read_bytes() for name in before}
    assert runs.get_run(space, run.run_id) == run


@ON_SQLITE
def test_a_judge_that_is_not_calibrated_has_a_threshold_of_its_own(space: Workspace, run: Run) -> None:
    request = RunRequest("desk", ["mine"], ["relevance"], judge="embedded")
    unjudged = finish(space, request)
    assert unjudged.facts["metrics"][0]["threshold"] is None
    kept = run_files.keep_threshold(space, unjudged.run_id, "relevance", 0.4)
    assert kept.facts["kept"] == ["judge.thresholds={relevance: 0.4}"]
    assert kept.facts["metrics"][0]["threshold"] == 0.4
    with pytest.raises(TakenError, match="of the library"):
        run_files.carry_threshold(space, unjudged.run_id, "relevance", 0.4)
    back = run_files.restore_threshold(space, unjudged.run_id, "relevance")
    assert back.facts == unjudged.facts


def test_bars_say_what_passes_in_each_of_them(space: Workspace, run: Run) -> None:
    lies = distribution(space, run.run_id, "graded", 0.5)
    assert lies is not None
    assert lies.passed is not None
    assert (sum(lies.counts), sum(lies.passed)) == (10, 5)
    assert all(passed in (0, count) for passed, count in zip(lies.passed, lies.counts, strict=True))
    unjudged = distribution(space, run.run_id, "graded")
    assert unjudged is not None
    assert unjudged.passed is None


@ON_SQLITE
def test_excluded_results_stand_beside_every_figure_and_change_none(space: Workspace, run: Run) -> None:
    """By hand: c0 to c9 have 0 to 0.9, so the mean is 0.45; without c0 and c1 it is 4.4 / 8 = 0.55."""
    key: dict[str, Any] = {"dataset": "mine", "target": run.facts["target"], "target_repeat": 0, "metric": "graded"}
    own: dict[str, Any] = {"reason": "wrong test", "by": "anna", "at": "2026-11-23T10:00:00Z"}
    excluded = [ExcludedResult(case_id=f"c{i}", **key, **own) for i in range(2)]
    excluded.append(ExcludedResult(case_id="c2", **{**key, "metric": "other"}, **own))
    found = run_files.apply_exclusions(space, run.run_id, lambda: excluded)
    assert (found.facts["summary"], found.exit_code) == (run.facts["summary"], run.exit_code)
    [detail] = found.facts["excluded"]
    assert detail["excluded"] | {"value": None} == detail["excluded"] | {
        "n": 2,
        "by": {"anna": 2},
        "reasons": ["wrong test"],
        "n_scored": 8,
        "value": None,
    }
    assert detail["excluded"]["value"] == pytest.approx(0.55)
    sentence = "2 results excluded by anna: 0.550"
    [message] = [gate["message"] for gate in found.facts["gates"]]
    assert "2 results excluded by anna: 0.625 (" in message, "of 8 there pass 5"
    assert found.facts["gates"][0]["passed"] == run.facts["gates"][0]["passed"]
    for name in ("report.html", "summary.md"):
        assert sentence in (run.folder / name).read_text(encoding="utf-8")
    [note] = notes_on_exclusions(RunFolder(run.folder))
    assert note.startswith(f"graded: {sentence} (")
    assert note.endswith(") without them, on 8 scores (wrong test)")
    rewrite(RunFolder(run.folder))
    assert notes_on_exclusions(RunFolder(run.folder)) == [note]
    back = run_files.apply_exclusions(space, run.run_id, list)
    assert back.facts["excluded"] == []
    assert "excluded" not in (run.folder / "summary.md").read_text(encoding="utf-8")
    (run.folder / "exclusions.json").write_text('[{"case_id": 1}]', encoding="utf-8")
    with pytest.raises(UserError, match="not a list of excluded results"):
        read_exclusions(RunFolder(run.folder))


def test_results_have_a_row_for_each_answer_worst_first(space: Workspace, run: Run) -> None:
    order = order_results(space, run.run_id)
    rows = read_results(space, run.run_id, order)
    assert sorted(order) == list(range(10))
    assert [row.position for row in rows] == list(order)
    cells = [row.cells["graded"] for row in rows]
    assert [cell.passed for cell in cells] == [False] * 5 + [True] * 5
    assert [cell.score for cell in cells] == sorted(cell.score or 0.0 for cell in cells)
    assert order_results(space, run.run_id, sort="input") == list(range(10))
    lowest = order_results(space, run.run_id, sort="low:graded")
    assert lowest[0] == order_results(space, run.run_id, sort="high:graded")[-1]
    failed = ScoreFilter(passed=False)
    assert order_results(space, run.run_id, failed, "input") == sorted(order[:5])
    assert order_results(space, run.run_id, failed) == order[:5]
    assert order_results(space, run.run_id, failed, thresholds={"graded": 0.0}) == []
    assert order_results(space, run.run_id, ScoreFilter(text="no such text")) == []
    with pytest.raises(UserError, match="is not an order"):
        order_results(space, run.run_id, sort="best")


def test_the_order_of_an_ended_run_is_remembered_until_the_run_changes(space: Workspace, run: Run) -> None:
    worst, *others = order_results(space, run.run_id)
    with space.database.writing() as connection:
        connection.execute(update(scores).where(scores.c.position == worst).values(score=1.0))
    assert order_results(space, run.run_id) == [worst, *others]
    with space.database.writing() as connection:
        assert stored_runs.change(connection, run.run_id, run.version)
    assert order_results(space, run.run_id) == [*others, worst]


def test_who_opens_the_results_is_noted_once(space: Workspace, run: Run) -> None:
    for _ in range(2):
        note_view(space, run.run_id)
    with space.database.reading() as connection:
        views = connection.execute(select(run_views.c.by)).scalars().all()
    assert views == ["local"]
