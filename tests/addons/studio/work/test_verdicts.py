"""Verdicts on scores: labels by those who saw the score, one for each person; and results taken out of a run."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any

import pytest
import sqlalchemy as sa

from evalflow.addons.studio.store.tables import labels
from evalflow.addons.studio.work import bots, cases, datasets, metrics, verdicts
from evalflow.addons.studio.work.access import Actor
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.errors import UserError
from evalflow.labels.columns import LABEL_COLUMNS
from tests.finishing import finish

pytestmark = pytest.mark.slow

GRADED = {
    "kind": "recorded",
    "version": 1,
    "description": "How polite it is.",
    "needs": ["expected"],
    "field": "expected",
    "scale": {"type": "likert", "min": 1, "max": 3, "anchors": {1: "rude"}},
}
EXACT = {
    "kind": "check",
    "version": 1,
    "description": "Whether the answer is the reference.",
    "needs": ["answer", "reference"],
    "field": "answer",
    "checks": [{"op": "equals", "against": "reference"}],
    "threshold": 1.0,
}


def acting(space: Workspace, name: str) -> Workspace:
    actor = Actor(7, name, roles={space.project_id: "editor"})
    return replace(space, identify=lambda: actor)


@pytest.fixture(name="run")
def _run(space: Workspace) -> str:
    bots.create_bot(space, "fees", {"kind": "recorded"})
    metrics.create_metric(space, "fees", MetricDraft("exact", EXACT))
    metrics.create_metric(space, "fees", MetricDraft("polite", GRADED))
    datasets.create_dataset(space, "questions")
    for i, answer in enumerate(("5", "7")):
        case = {"id": f"c{i}", "question": "How much?", "reference": "5", "answer": answer}
        cases.add_case(space, "questions", case | ({"expected": 3} if i else {}))
    return finish(space, RunRequest("fees", ["questions"], ["exact", "polite"])).run_id


def test_a_score_is_judged_on_the_metrics_own_scale(space: Workspace, run: str) -> None:
    scale = verdicts.score_verdicts(space, run, 1, "polite").scale
    assert scale is not None
    assert (scale.judged, scale.choices) == (3, [(1, "1: rude"), (2, "2"), (3, "3")])
    verdicts.disagree(space, run, 1, "polite", 1)
    (said,) = verdicts.score_verdicts(space, run, 1, "polite").verdicts
    assert (said.value, said.agrees) == (1, False)
    unscored = verdicts.score_verdicts(space, run, 0, "polite")
    assert (unscored.scale, unscored.fault) == (None, "there is no score to agree with")


def test_a_verdict_is_a_label_that_is_not_blind_and_of_the_answer(space: Workspace, run: str) -> None:
    ann, ben = acting(space, "ann"), acting(space, "ben")
    verdicts.agree(ann, run, 1, "exact")
    verdicts.disagree(ben, run, 1, "exact", "yes", " It says it in other words. ")
    found = verdicts.score_verdicts(ann, run, 1, "exact")
    assert found.scale is not None
    assert (found.scale.judged, found.scale.choices) == (0.0, [(1.0, "yes"), (0.0, "no")])
    said = [(one.by, one.value, one.agrees, one.is_mine, one.comment) for one in found.verdicts]
    assert said == [("ann", 0.0, True, True, None), ("ben", 1.0, False, False, "It says it in other words.")]
    first, second = verdicts.all_run_labels(space, run)
    assert first.answer_hash == second.answer_hash == hashlib.sha256(b"7").hexdigest()[:16]
    assert (first.position, first.kind, first.blind, first.seen_before) == (1, "label", False, True)
    assert {field.name for field in fields(first)} <= set(LABEL_COLUMNS)
    page = verdicts.run_labels(space, run, limit=1)
    assert (list(page.items), list(verdicts.run_labels(space, run, page.next).items)) == ([first], [second])


def test_a_verdict_can_be_changed_and_withdrawn(space: Workspace, run: str) -> None:
    verdicts.agree(space, run, 0, "exact")
    verdicts.disagree(space, run, 0, "exact", False)
    (mine,) = verdicts.score_verdicts(space, run, 0, "exact").verdicts
    assert (mine.agrees, mine.value) == (False, 0.0)
    verdicts.withdraw(space, run, 0, "exact")
    verdicts.withdraw(space, run, 0, "exact")
    assert not verdicts.score_verdicts(space, run, 0, "exact").verdicts
    for value in ("maybe", 7, None):
        with pytest.raises(UserError) as refused:
            verdicts.disagree(space, run, 0, "exact", value)
        assert refused.value.problems[0].where == "verdict.value"
    for position, metric in ((2, "exact"), (0, "other")):
        with pytest.raises(NotFoundError):
            verdicts.agree(space, run, position, metric)


def test_of_verdicts_by_one_person_at_once_one_stays(space: Workspace, run: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda value: verdicts.disagree(space, run, 0, "exact", value), [True, False] * 6))
    with space.database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(labels)) == 1


def test_a_result_is_excluded_with_a_reason_and_brought_back(space: Workspace, run: str) -> None:
    ann = acting(space, "ann")
    verdicts.exclude(ann, run, 1, "exact", " Duplicate question. ")
    out = verdicts.score_verdicts(space, run, 1, "exact").exclusion
    assert out is not None
    assert (out.by, out.reason, out.case_id, out.metric) == ("ann", "Duplicate question.", "c1", "exact")
    (detail,) = [one["excluded"] for one in _details(space, run) if one["metric"] == "exact" and one["tag"] is None]
    assert (detail["n"], detail["value"]) == (1, 1.0)  # without the only wrong answer
    assert verdicts.score_verdicts(space, run, 0, "exact").exclusion is None
    verdicts.exclude(space, run, 1, "exact", "Other reason")
    again = verdicts.score_verdicts(space, run, 1, "exact").exclusion
    assert again is not None
    assert again.reason == "Other reason"
    verdicts.bring_back(space, run, 1, "exact")
    assert verdicts.score_verdicts(space, run, 1, "exact").exclusion is None
    assert not any("excluded" in one for one in _details(space, run))
    with pytest.raises(NotFoundError):
        verdicts.bring_back(space, run, 1, "exact")
    with pytest.raises(UserError, match="a reason has"):
        verdicts.exclude(space, run, 1, "exact", " ")


def _details(space: Workspace, run: str) -> list[dict[str, Any]]:
    folder = run_row(space, run).path
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))["details"]
