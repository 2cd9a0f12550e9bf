"""A run takes the cases that were chosen, counts the others, and its snapshot says the same on the command line."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics, runs
from evalflow.addons.studio.work.case_choice import LeftOutCases
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.planned_runs import plan
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.assemble import composed_settings
from evalflow.errors import UserError
from tests.postgres import ON_SQLITE

pytestmark = [pytest.mark.slow, ON_SQLITE]

EXACT: dict[str, Any] = {"kind": "check", "needs": ["answer"], "checks": [{"op": "contains", "value": "x"}]}


@pytest.fixture
def request_(space: Workspace) -> RunRequest:
    """Six active cases of two tags, and two drafts."""
    bots.create_bot(space, "desk", {"kind": "recorded"})
    metrics.create_metric(space, "desk", MetricDraft("exact", EXACT))
    datasets.create_dataset(space, "fees")
    tags = [["A"], ["A > x"], ["A", "B"], ["B"], ["B"], []]
    rows = [{"id": f"c{i}", "question": "q?", "answer": "x", "tags": own} for i, own in enumerate(tags)]
    cases.add_cases(space, "fees", rows)
    for key, own in (("d0", ["A"]), ("d1", [])):
        cases.add_case(space, "fees", {"id": key, "question": "q?", "answer": "x", "tags": own}, draft=True)
    return RunRequest("desk", ["fees"], ["exact"])


@pytest.mark.parametrize(
    ("chosen", "options", "taken", "drafts"),
    [
        ({}, {}, 6, 2),
        ({"tags": ["A"]}, {}, 3, 1),
        ({"tags": ["A", "B"], "every_tag": True}, {}, 1, 0),
        ({"ids": ["c4", "c0", "d1"]}, {}, 2, 1),
        ({"tags": ["A"], "ids": ["c0", "c4"]}, {}, 1, 0),
        ({"tags": [], "ids": None}, {"sample": 4, "seed": 7}, 4, 2),
        ({"tags": ["B"]}, {"limit": 2}, 2, 0),
    ],
)
def test_what_is_taken_and_left_out_is_counted_before_and_kept_with_the_run(
    space: Workspace, request_: RunRequest, chosen: dict[str, Any], options: dict[str, Any], taken: int, drafts: int
) -> None:
    wanted = replace(request_, dataset_values={"fees": chosen} if chosen else {}, options=options)
    found = {"fees": LeftOutCases(drafts, 6 - taken)}
    estimate = runs.estimate_run(space, wanted)
    assert (dict(estimate.cases), estimate.left_out) == ({"fees": taken}, found)
    run = runs.create_run(space, wanted)
    assert run.request == wanted
    assert runs.left_out_of(space, run.run_id) == found
    assert runs.create_run(space, runs.changed_request(run)).progress.expected == taken


def test_the_cases_that_were_written_are_counted(space: Workspace, request_: RunRequest, tmp_path: Path) -> None:
    """Somebody may add cases between the plan and its files."""
    planned = plan(space, request_)
    cases.add_case(space, "fees", {"id": "late", "question": "q?", "answer": "x"})
    planned.freeze(tmp_path / "frozen")
    assert planned.counts == {"fees": 7}


def test_the_snapshot_repeats_the_choice_on_the_command_line(space: Workspace, request_: RunRequest) -> None:
    values = {"tags": ["A", "B"], "every_tag": True, "ids": ["c2", "c0", "d0"]}
    run = runs.create_run(space, replace(request_, dataset_values={"fees": values}, options={"sample": 1, "seed": 3}))
    words = shlex.split(run.repeat)
    conf = words.index("--config-dir") + 1
    declared = composed_settings(words[conf + 1 :], Path(words[conf])).run
    data = declared.dataset["fees"]
    assert (data.tags, data.every_tag, data.ids) == (["A", "B"], True, ["c2", "c0"])
    assert (declared.sample, declared.seed) == (1, 3)


def test_a_choice_that_conf_declares_is_kept(space: Workspace, request_: RunRequest) -> None:
    Path("conf/dataset").mkdir(parents=True)
    Path("mine.csv").write_text("id,question,answer,tags\na,q?,x,A\nb,q?,x,B\nc,q?,x,A\n")
    Path("conf/dataset/mine.yaml").write_text("# @package dataset.mine\npath: mine.csv\ntags: [A]\n")
    wanted = replace(request_, datasets=["mine"])
    estimate = runs.estimate_run(space, wanted)
    assert (dict(estimate.cases), estimate.left_out) == ({"mine": 2}, {"mine": LeftOutCases(0, 1)})
    one = runs.estimate_run(space, replace(wanted, dataset_values={"mine": {"ids": ["c", "b"]}}))
    assert dict(one.cases) == {"mine": 1}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"other": {"tags": ["A"]}}, "the run has no dataset 'other'"),
        ({"fees": {"path": "/etc/passwd"}}, "cases are not chosen by 'path'"),
        ({"fees": {"tags": ["AA"]}}, "no case of fees has the tag 'AA'"),
        ({"fees": {"tags": ["A > x", "B"], "every_tag": True}}, "no case"),
        ({"fees": {"ids": ["c0", "zz"]}}, "no case of fees has the id 'zz'"),
        ({"fees": {"ids": ["d0", "d1"]}}, "all 2 chosen cases of fees are drafts"),
        ({"fees": {"ids": "c0"}}, "ids"),
        ({"fees": {"ids": [1, None]}}, "ids"),
        ({"fees": {"ids": ["${oc.env:HOME}"]}}, "no case of fees has the id"),
        ({"fees": {"tags": {"A": 1}}}, "tags"),
        ({"fees": {"every_tag": "perhaps"}}, "every_tag"),
    ],
)
def test_a_wrong_choice_is_refused_and_leaves_nothing(
    space: Workspace, request_: RunRequest, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        runs.create_run(space, replace(request_, dataset_values=values))
    assert list(space.runs.glob("*")) == []
