"""Who may do what in which project, and what the audit then says."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from evalflow.addons.studio.store import audit, definitions
from evalflow.addons.studio.work import bots, datasets, metric_trial, metrics, runs, transfer
from evalflow.addons.studio.work.access import ROLES, Actor, ForbiddenError, Role, SignedOutError, nobody
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import NotFoundError, Workspace, within
from evalflow.errors import UserError

MODEL = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}


def acting(space: Workspace, role: Role | None, project: str = "default") -> Workspace:
    """The workspace for a person with that role in `default` and none elsewhere."""
    roles: dict[int, Role] = {} if role is None else {space.project_id: role}
    return replace(space.in_project(project), identify=lambda: Actor(7, "ann", roles=roles, address="10.0.0.7"))


def add_project(space: Workspace, name: str) -> None:
    values = {"name": name, "title": name, "description": "", "budget": {}}
    with space.database.writing() as connection:
        definitions.add(connection, "project", values)


@pytest.mark.parametrize("role", [None, *get_args(Role)])
def test_a_role_may_do_what_its_rights_allow(space: Workspace, role: Role | None) -> None:
    rights = ROLES[role] if role else frozenset[str]()
    own = acting(space, role)
    for right, work in {
        "read": lambda: bots.list_bots(own),
        "edit": lambda: datasets.create_dataset(own, "mine"),
        "admin": lambda: runs.delete_run(own, "none"),
        "own": lambda: transfer.import_files(own, space.root),
    }.items():
        if right in rights:
            with suppress(NotFoundError):
                work()
        else:
            with pytest.raises(ForbiddenError):
                work()


def test_nobody_may_do_nothing(space: Workspace) -> None:
    with pytest.raises(SignedOutError):
        bots.list_bots(replace(space, identify=nobody))


def test_a_role_ends_at_its_project(space: Workspace) -> None:
    add_project(space, "other")
    elsewhere = space.in_project("other")
    bots.create_bot(space, "helper", MODEL)
    bots.create_bot(elsewhere, "helper", {**MODEL, "model": "n"})
    assert bots.get_bot(space, "helper").config["model"] == "m"
    assert bots.get_bot(elsewhere, "helper").config["model"] == "n"
    with pytest.raises(ForbiddenError, match="may not see project 'other'"):
        bots.get_bot(acting(space, "admin", "other"), "helper")
    with pytest.raises(NotFoundError):
        space.in_project("none")


def test_others_than_the_owner_reuse_runs_of_their_project_only(space: Workspace) -> None:
    add_project(space, "other")
    with pytest.raises(UserError, match="the runs of the project"):
        within(acting(space, "editor"), space.in_project("other").runs / "r", acting(space, "editor").runs)


def test_a_metric_takes_no_steps_of_a_file_that_is_none_of_the_projects(space: Workspace, tmp_path: Path) -> None:
    add_project(space, "other")
    own = acting(space, "editor")
    bots.create_bot(own, "helper", MODEL)
    datasets.create_dataset(own, "mine")
    foreign, mine = space.in_project("other").runs / "r", space.runs / "r"
    entry = {"kind": "g_eval", "metric": "m", "criteria": "Their secret", "steps": ["Think."], "judge": "j"}
    for folder in (foreign, mine):
        folder.mkdir(parents=True)
        (folder / "prepared.json").write_text(json.dumps({"key": entry}), encoding="utf-8")

    def draft(steps_from: str, criteria: str) -> MetricDraft:
        shown = {"criteria": criteria, "needs": ["question", "answer"]}
        return MetricDraft("m", {"kind": "g_eval", **shown, "steps_from": steps_from})

    for place in (str(foreign), "outputs/projects/other/runs/r", "/etc/passwd", "/dev/zero", str(tmp_path / "none")):
        one = draft(place, "Something else")
        for work in (
            lambda one=one: metrics.create_metric(own, "helper", one),
            lambda one=one: metrics.replace_metrics(own, "helper", [one], {}),
            lambda one=one: metric_trial.trial_settings(own, "helper", one, {"question": "?"}).__enter__(),
        ):
            with pytest.raises(UserError, match="is not below the runs of the project"):
                work()
    metrics.create_metric(own, "helper", draft(str(mine), "Their secret"))
    metrics.create_metric(space, "helper", replace(draft(str(foreign), "Their secret"), name="by_owner"))
    request = RunRequest("helper", ["mine"], ["by_owner"])
    with pytest.raises(UserError, match="is not below the runs of the project"):
        runs.estimate_run(own, request)


def test_a_change_is_recorded_with_who_and_what_and_no_content(space: Workspace) -> None:
    own = acting(space, "editor")
    bots.create_bot(own, "helper", {**MODEL, "system_prompt": "a secret"})
    bots.update_bot(own, "helper", 1, config={**MODEL, "model": "n", "system_prompt": "another"})
    with pytest.raises(UserError):
        bots.update_bot(own, "helper", 1, description="too late")
    bots.delete_bot(own, "helper", 2)
    with space.database.reading() as connection:
        rows = audit.page(connection, None, 10, audit.AuditFilter("ann", "default", "bot"))
    assert [(row["action"], row["name"], row["fields"]) for row in rows] == [
        ("delete", "helper", []),
        ("update", "helper", ["config.model", "config.system_prompt"]),
        ("create", "helper", []),
    ]
    assert {row["address"] for row in rows} == {"10.0.0.7"}
