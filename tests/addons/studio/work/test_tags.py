from __future__ import annotations

from typing import Any

import pytest

from evalflow.addons.studio.work import audit, bots, cases, datasets, projects
from evalflow.addons.studio.work.metrics import MetricDraft, create_metric
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.scores import run_tags
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.addons.studio.work.tags import list_tags, plan_rename, project_tags, rename_tag, spellings
from evalflow.errors import UserError
from tests.finishing import finish


def fill(space: Workspace, name: str, *tags: list[str]) -> None:
    datasets.create_dataset(space, name)
    rows = [
        {"id": f"{n}", "question": f"{n}?", "answer": "a", "reference": "a", "tags": on} for n, on in enumerate(tags)
    ]
    cases.add_cases(space, name, rows)


def kept(space: Workspace, name: str) -> list[Any]:
    return [row.get("tags") for row in cases.case_rows(space, name)]


def test_a_parent_is_renamed_with_its_sub_tags_in_every_dataset_and_back(space: Workspace) -> None:
    fill(space, "one", ["User Issues > Refund", "Loans"], ["User Issues"], ["User"])
    fill(space, "two", ["User Issues > Refund > Late"])
    draft = cases.add_case(space, "two", {"id": "d", "question": "?", "tags": ["User Issues"]}, draft=True)
    before = list_tags(space), kept(space, "one"), kept(space, "two")
    assert [one.tag for one in before[0]] == [
        *("Loans", "User", "User Issues", "User Issues > Refund", "User Issues > Refund > Late"),
    ]
    plan = plan_rename(space, "User Issues", "Issues>People")
    assert (plan.cases, len(plan.tags), plan.merged) == (4, 3, {})
    assert rename_tag(space, "User Issues", "Issues>People") == plan
    assert kept(space, "one") == [["Issues > People > Refund", "Loans"], ["Issues > People"], ["User"]]
    assert kept(space, "two") == [["Issues > People > Refund > Late"]]
    assert cases.get_case(space, "two", draft.id).body["tags"] == ["Issues > People"]
    assert ("Issues", 4) in project_tags(space)
    assert cases.case_ids(space, "one", tag="User Issues") == []
    assert audit.list_changes(space, audit.AuditFilter()).items[0].name == "User Issues → Issues > People"
    rename_tag(space, "Issues > People", "User Issues")
    assert (list_tags(space), kept(space, "one"), kept(space, "two")) == before


def test_two_spellings_become_one_only_if_that_is_said(space: Workspace) -> None:
    fill(space, "one", ["fees", "Fees > Card"], ["fees > card"], ["Fées"])
    other = projects.create_project(space, "other")
    fill(space.in_project(other.name), "one", ["fees"])
    alike = spellings(list_tags(space))
    assert [[one.tag for one in found] for found in alike] == [["fees", "Fees", "Fées"], ["Fees > Card", "fees > card"]]
    with pytest.raises(TakenError, match="there already is the tag 'Fees' \\(1 case\\)"):
        rename_tag(space, "fees", "Fees")
    done = rename_tag(space, "fees", "Fees", merge=True)
    assert done.merged == {"Fees": 1}
    assert kept(space, "one") == [["Fees", "Fees > Card"], ["Fees > card"], ["Fées"]]
    assert rename_tag(space, "Fees > card", "Fees > Card", merge=True).cases == 1
    assert dict(project_tags(space)) == {"Fees": 2, "Fees > Card": 2, "Fées": 1}
    assert kept(space.in_project(other.name), "one") == [["fees"]]


def test_a_tag_moves_below_itself_and_onto_its_parent(space: Workspace) -> None:
    fill(space, "one", ["A"], ["A > B"])
    rename_tag(space, "A", "A > B")
    assert kept(space, "one") == [["A > B"], ["A > B > B"]]
    assert plan_rename(space, "A > B", "A").merged == {"A": 2}
    rename_tag(space, "A > B", "A", merge=True)
    assert kept(space, "one") == [["A"], ["A > B"]]


@pytest.mark.parametrize(
    ("new", "what"), [(" > ", "needs a name"), (" A ", "has this name"), ("x" * 201, "at most 200 characters")]
)
def test_a_wrong_name_is_refused_at_its_field(space: Workspace, new: str, what: str) -> None:
    fill(space, "one", ["A"])
    with pytest.raises(UserError, match=what) as error:
        rename_tag(space, "A", new)
    assert error.value.problems[0].key == "new"
    with pytest.raises(NotFoundError, match="there is no tag 'B'"):
        rename_tag(space, "B", "C")


@pytest.mark.slow
def test_runs_keep_their_tags_and_metrics_that_name_the_tag_are_told(space: Workspace) -> None:
    fill(space, "one", ["A > B"])
    bots.create_bot(space, "desk", {"kind": "recorded"})
    kind = {"type": "string_matching", "params": {"keyword": "a"}, "cases": ["A > B"]}
    definition = {"kind": "checks", "description": "Checks.", "needs": ["answer"], "custom": {"has_a": kind}}
    create_metric(space, "desk", MetricDraft("asked", definition))
    run = finish(space, RunRequest("desk", ["one"], ["exact_match"]))
    assert rename_tag(space, "A", "Z").metrics == ["desk/asked"]
    assert plan_rename(space, "Z", "A").metrics == []
    assert [tag for tag, _ in run_tags(space, run.run_id)] == ["A", "A > B"]
