from __future__ import annotations

import pytest

from evalflow.addons.studio.store import cases as stored_cases
from evalflow.addons.studio.store import trash
from evalflow.addons.studio.work import bots, cases, datasets, judges, metrics, projects
from evalflow.addons.studio.work.datasets import dataset_id
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.addons.studio.work.trash import restore
from evalflow.errors import Subject

CHECK = {"kind": "check", "field": "answer", "needs": ["answer"], "checks": [{"op": "contains", "value": "a"}]}


def test_a_bot_comes_back_with_its_metrics(space: Workspace) -> None:
    bots.create_bot(space, "fees", {"kind": "recorded"}, "About fees.")
    metrics.create_metric(space, "fees", MetricDraft("exact", CHECK))
    before = bots.get_bot(space, "fees"), metrics.list_metrics(space, "fees")
    deleted = bots.delete_bot(space, "fees", 1)
    assert restore(space, deleted) == Subject("bot", "fees")
    assert (bots.get_bot(space, "fees"), metrics.list_metrics(space, "fees")) == before
    with pytest.raises(NotFoundError, match="no longer"):
        restore(space, deleted)


def test_a_name_that_was_taken_meanwhile_is_explained_and_nothing_is_lost(space: Workspace) -> None:
    config = {"kind": "openai", "model": "m"}
    judges.create_judge(space, "strict", config)
    deleted = judges.delete_judge(space, "strict", 1)
    other = judges.create_judge(space, "strict", {**config, "model": "other"})
    with pytest.raises(TakenError, match="another judge 'strict' by now"):
        restore(space, deleted)
    judges.delete_judge(space, "strict", other.version)
    restore(space, deleted)
    assert judges.get_judge(space, "strict").config == config


def test_a_metric_needs_its_bot(space: Workspace) -> None:
    bots.create_bot(space, "fees", {"kind": "recorded"})
    metrics.create_metric(space, "fees", MetricDraft("exact", CHECK))
    of_metric = metrics.delete_metric(space, "fees", "exact", 1)
    of_bot = bots.delete_bot(space, "fees", 1)
    with pytest.raises(TakenError, match="'fees' was deleted"):
        restore(space, of_metric)
    restore(space, of_bot)
    assert restore(space, of_metric).owner == "fees"
    assert metrics.get_metric(space, "fees", "exact").definition == CHECK


def test_cases_come_back_to_their_place_with_their_tags(space: Workspace) -> None:
    datasets.create_dataset(space, "questions")
    rows = [{"id": name, "question": name, "tags": ["a > b"]} for name in "xyz"]
    ids = [cases.add_case(space, "questions", row).id for row in rows]
    deleted = cases.delete_cases(space, "questions", ids[1:])
    assert deleted.count == 2
    cases.add_case(space, "questions", {"id": "new", "question": "new"})
    restore(space, deleted.trash)
    keys = [row["id"] for row in cases.case_rows(space, "questions")]
    assert sorted(keys) == ["new", "x", "y", "z"]
    assert keys[0] == "x"
    assert ("a", 3) in cases.dataset_tags(space, "questions")
    of_dataset = datasets.delete_dataset(space, "questions", datasets.get_dataset(space, "questions").version)
    restore(space, of_dataset)
    assert [row["id"] for row in cases.case_rows(space, "questions")] == keys


def test_other_cases_have_another_state_also_if_they_were_deleted_before(space: Workspace) -> None:
    """SQLite gives the ids of deleted rows to new ones."""
    for name in ("questions", "others"):
        datasets.create_dataset(space, name)
    dataset, other = (dataset_id(space, name) for name in ("questions", "others"))
    assert space.read(stored_cases.state, dataset) != space.read(stored_cases.state, other)
    rows = [{"key": key, "question": key, "body": {"id": key, "question": key}, "tags": []} for key in "xyz"]
    with space.database.writing() as connection:
        stored_cases.append(connection, dataset, rows)
    *_, y, z = (row.id for row in cases.list_cases(space, "questions").items)
    deleted = cases.delete_cases(space, "questions", [z])
    before = space.read(stored_cases.state, dataset)
    cases.delete_cases(space, "questions", [y])
    restore(space, deleted.trash)
    assert space.read(stored_cases.state, dataset) != before


def test_what_was_deleted_long_ago_is_forgotten_by_the_next_deletion(space: Workspace) -> None:
    bots.create_bot(space, "old", {"kind": "recorded"})
    old = bots.delete_bot(space, "old", 1)
    with space.database.writing() as connection:
        connection.execute(trash.trash.update().values(at="2020-01-01T00:00:00.000+00:00"))
    bots.create_bot(space, "fresh", {"kind": "recorded"})
    new = bots.delete_bot(space, "fresh", 1)
    with pytest.raises(NotFoundError):
        restore(space, old)
    restore(space, new)


def test_what_was_deleted_does_not_keep_a_project(space: Workspace) -> None:
    other = space.in_project(projects.create_project(space, "other").name)
    bots.create_bot(other, "fees", {"kind": "recorded"})
    bots.delete_bot(other, "fees", 1)
    judges.create_judge(other, "strict", {"kind": "openai", "model": "m"})
    projects.delete_project(other, 1)
    assert [one.name for one in projects.list_projects(space)] == ["default"]
