"""Connections: what is refused, who sees what, and what keeps one from being deleted."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from evalflow.addons.studio.work import audit, bots, cases, connections, datasets, metrics, people, projects, runs
from evalflow.addons.studio.work.access import Actor, ForbiddenError
from evalflow.addons.studio.work.audit import AuditFilter
from evalflow.addons.studio.work.connections import ConnectionDraft
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import NotFoundError, StaleError, TakenError, Workspace
from evalflow.calls.connections import Connections
from evalflow.errors import Subject, UserError

KEYED = ConnectionDraft("HTTPS://Models.Example.org/v1/", "MODELS_KEY", ["public", " 10.2.0.0/16 ", "public"], "Ours")


def test_a_connection_is_added_changed_and_deleted(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    made = connections.create_connection(space, "models", KEYED)
    assert (made.address, made.networks, made.is_key_set) == (
        "https://models.example.org/v1",
        ["public", "10.2.0.0/16"],
        False,
    )
    monkeypatch.setitem(os.environ, "MODELS_KEY", "a secret")
    assert connections.list_connections(space)[0].is_key_set is True
    assert "a secret" not in repr(connections.list_connections(space))
    keyless = connections.update_connection(space, "models", 1, {"api_key_env": None})
    assert (keyless.is_key_set, keyless.address, keyless.version) == (None, made.address, 2)
    with pytest.raises(StaleError):
        connections.delete_connection(space, "models", 1)
    connections.delete_connection(space, "models", 2)
    with pytest.raises(NotFoundError):
        connections.get_connection(space, "models")
    changes = audit.list_changes(space, AuditFilter(kind="connection")).items
    assert [(change.action, change.project, list(change.fields)) for change in changes] == [
        ("delete", None, []),
        ("update", None, ["api_key_env"]),
        ("create", None, []),
    ]


@pytest.mark.parametrize(
    ("name", "draft", "keys"),
    [
        ("Models", KEYED, ["connection.name"]),
        ("m", replace(KEYED, address="ftp://example.org"), ["connection.address"]),
        ("m", replace(KEYED, address="https://ann:pw@example.org"), ["connection.address"]),
        ("m", replace(KEYED, address="example.org", networks=["all"], api_key_env="A KEY"), None),
        ("m", replace(KEYED, networks=[]), ["connection.networks"]),
        ("m", replace(KEYED, api_key_env="$KEY"), ["connection.api_key_env"]),
        ("models", replace(KEYED, address="https://other.example.org"), ["connection.name"]),
        ("m", replace(KEYED, networks=["10.0.0.0/8"]), ["connection.networks"]),
    ],
)
def test_what_cannot_be_a_connection_is_refused(
    space: Workspace, name: str, draft: ConnectionDraft, keys: list[str] | None
) -> None:
    connections.create_connection(space, "models", KEYED)
    with pytest.raises(UserError) as refused:
        connections.create_connection(space, name, draft)
    found = [problem.key or problem.where for problem in refused.value.problems]
    assert found == (keys or ["connection.address", "connection.networks", "connection.api_key_env"])
    assert [one.name for one in connections.list_connections(space)] == ["models"]


def test_what_uses_a_connection_keeps_it(space: Workspace) -> None:
    connections.create_connection(space, "models", KEYED)
    connections.create_connection(space, "other", replace(KEYED, address="https://other.example.org"))
    projects.create_project(space, "desk")
    desk = space.in_project("desk")
    config = {"kind": "openai", "model": "m", "base_url": "https://models.example.org/v1", "api_key_env": "MODELS_KEY"}
    bots.create_bot(desk, "helper", config)
    bots.create_bot(space, "notes", {"kind": "recorded"})
    check = {"kind": "check", "version": 1, "description": "d", "needs": ["answer"], "field": "answer"}
    metrics.create_metric(space, "notes", MetricDraft("any", {**check, "checks": [{"op": "contains", "value": "a"}]}))
    datasets.create_dataset(space, "questions")
    cases.add_case(space, "questions", {"question": "What?", "answer": "a"})
    judge = {key: value for key, value in config.items() if key != "kind"}
    ours = RunRequest("notes", ["questions"], ["any"], judge="openai", judge_values=judge)
    run = runs.create_run(space, ours)
    declared = runs.create_run(space, replace(ours, judge_values={"model": "m"}))
    with pytest.raises(TakenError) as refused:
        connections.delete_connection(space, "models", 1)
    assert refused.value.problems[0].what == (
        f"the connection 'models' is used by bot desk/helper, run default/{run.run_id}"
    )
    connections.create_connection(space, "openai", ConnectionDraft("https://api.openai.com/v1"))
    assert connections.users_of(space, "openai") == [Subject("run", declared.run_id, project="default")]
    connections.delete_connection(space, "other", 1)
    runs.cancel_run(space, run.run_id)
    bots.delete_bot(desk, "helper", 1)
    connections.delete_connection(space, "models", 1)


def test_an_editor_sees_connections_and_the_owner_alone_changes_them(space: Workspace) -> None:
    connections.create_connection(space, "models", KEYED)
    editor = replace(space, identify=lambda: Actor(1, "ann", roles={space.project_id: "editor"}))
    viewer = replace(space, identify=lambda: Actor(2, "bob", roles={space.project_id: "viewer"}))
    assert connections.get_connection(editor, "models").name == "models"
    for work in (
        lambda: connections.list_connections(viewer),
        lambda: connections.create_connection(editor, "mine", KEYED),
        lambda: connections.update_connection(editor, "models", 1, {}),
        lambda: connections.delete_connection(editor, "models", 1),
    ):
        with pytest.raises(ForbiddenError):
            work()


def test_those_allowed_are_as_they_are_now(space: Workspace) -> None:
    assert space.allowed is None
    people.add_user(space, "olga", is_owner=True)
    assert space.allowed == Connections(())
    connections.create_connection(space, "models", KEYED)
    bot = bots.create_bot(space, "helper", {"kind": "openai", "model": "m", "connection": "models"})
    assert bot.config["connection"] == "models"
    with pytest.raises(TakenError, match="bot default/helper"):
        connections.delete_connection(space, "models", 1)
    with pytest.raises(UserError, match="belongs to no connection"):
        bots.create_bot(space, "other", {"kind": "openai", "model": "m", "base_url": "https://example.org"})
