"""docs/access.md says who may do what: every request of the REST API by everyone, and every page."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

pytest.importorskip("nicegui", reason="the extra `web` is not installed")

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.testclient import TestClient

import evalflow.addons.studio.web.pages
from evalflow.addons.studio.store import rows, server_tables
from evalflow.addons.studio.web.application import API, rest_api
from evalflow.addons.studio.web.security.projects import InProject
from evalflow.addons.studio.web.ui.frame import pages_of
from evalflow.addons.studio.work import (
    bots,
    cases,
    checks,
    connections,
    datasets,
    judges,
    metrics,
    projects,
    runs,
    tasks,
)
from evalflow.addons.studio.work.access import LOCAL, ROLES, Actor, Right
from evalflow.addons.studio.work.checks import CheckDraft
from evalflow.addons.studio.work.connections import ConnectionDraft
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace, open_workspace
from evalflow.addons.studio.work.tasks import TaskDraft
from tests.addons.studio.web.pages.conftest import paged
from tests.addons.studio.web.people import Known, everybody, identify
from tests.addons.studio.web.served import paths_of, serve_everybody

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
METRIC: dict[str, Any] = {
    "kind": "check",
    "version": 1,
    "description": "Whether there is an answer.",
    "needs": ["answer"],
    "field": "answer",
    "checks": [{"op": "contains", "value": "a"}],
}
JUDGE = {"kind": "openai", "model": "m", "connection": "openai"}
DRAFT = {"name": "exact", "definition": METRIC}
CASE = {"id": "c", "question": "What?", "answer": "a"}
RUN = {"bot": "none", "datasets": ["questions"], "metrics": ["exact"]}
BODIES: Mapping[str, Any] = {
    "POST /bots": {"name": "made", "config": {"kind": "recorded"}},
    "PATCH /bots/{bot}": {},
    "POST /bots/{bot}/copies": {"name": "copied"},
    "POST /bots/{bot}/try": {"question": "What?"},
    "PUT /bots/{bot}/metrics": {"items": []},
    "POST /bots/{bot}/metrics": {"source": "exact", "name": "copied"},
    "POST /bots/{bot}/metrics/preview": {"metric": DRAFT, "case": CASE},
    "POST /bots/{bot}/metrics/steps": DRAFT,
    "POST /bots/{bot}/metrics/try": {"metric": DRAFT, "case": CASE},
    "POST /judges": {"name": "made", "config": JUDGE},
    "PUT /judges/{judge}": {"config": JUDGE},
    "POST /datasets": {"name": "made"},
    "PATCH /datasets/{dataset}": {},
    "POST /datasets/{dataset}/copies": {"name": "copied"},
    "POST /datasets/{dataset}/cases": {"items": []},
    "PUT /datasets/{dataset}/cases/{case}": CASE,
    "POST /datasets/{dataset}/cases/delete": {"cases": []},
    "POST /datasets/{dataset}/cases/tag": {"cases": []},
    "POST /datasets/{dataset}/examples": {"run": "none"},
    "POST /datasets/{dataset}/cases/{case}/example": {"bot": "none"},
    "POST /exports": {"folder": "made", "bot": "none"},
    "POST /imports": {"folder": "none"},
    "POST /runs": RUN,
    "POST /runs/estimate": RUN,
    "POST /runs/open": {"folder": "none"},
    "POST /runs/{run}/pass-rates": {},
    "PUT /runs/{run}/thresholds/{metric}": {"threshold": 0.5},
    "POST /runs/{run}/thresholds/{metric}/carry": {"threshold": 0.5},
    "POST /projects": {"name": "made"},
    "PATCH /projects/{project}": {},
    "PUT /projects/{project}/members/{user}": {"role": "viewer"},
    "PUT /projects/{project}/budget": {},
    "POST /connections": {"name": "made", "address": "https://example.org"},
    "PATCH /connections/{connection}": {},
    "POST /users": {"name": "ben"},
    "PATCH /users/{user}": {},
    "POST /tasks": {"title": "Made"},
    "PATCH /tasks/{task}": {},
    "POST /reviews": {"name": "made", "run": "none", "metrics": ["exact"], "size": 1, "people": ["ann"]},
    "PATCH /reviews/{review}": {},
    "PUT /reviews/{review}/items/{item}/draft": {},
    "POST /reviews/{review}/items/{item}/submit": {},
    "POST /reviews/{review}/items/{item}/decline": {},
    "PUT /reviews/{review}/items/{item}/resolution": {"metric": "exact", "value": 1, "reason": "Clear."},
    "POST /datasets/{dataset}/cases/activate": {"cases": []},
    "POST /checks": {"name": "made", "type": "conformity", "params": {"rules": ["Be kind."]}},
    "PUT /checks/{check}": {"type": "conformity", "params": {"rules": ["Be kind."]}},
    "POST /checks/try": {"question": "Why?"},
    "POST /checks/{check}/cases": {"dataset": "questions"},
    "POST /tags/rename": {"old": "none", "new": "other"},
    "POST /comments": {"text": "Why?", "task": 1},
    "POST /tokens": {"name": "nightly", "role": "viewer", "days": 1},
}
QUERIES: Mapping[str, str] = {
    "GET /tags": "dataset=questions",
    "POST /datasets/{dataset}/cases/upload": "format=jsonl&dry_run=true",
    "GET /compare": "a={run}&b={run}",
    "GET /compare/candidates": "run={run}",
    "GET /comments": "task=1",
    "GET /rank": "run={run}&run=none",
}
STALE = {"If-Match": '"999"', "Content-Type": "application/json"}
"""Those who may change or delete something are told that somebody else has, so that it stays for the next."""


@pytest.fixture(name="space")
def _space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.chdir(tmp_path)
    opened = open_workspace()
    yield opened
    opened.close()


def fill(space: Workspace) -> dict[str, str]:
    """One of everything; returns what paths call it."""
    bots.create_bot(space, "fees", {"kind": "recorded"})
    metrics.create_metric(space, "fees", MetricDraft("exact", METRIC))
    datasets.create_dataset(space, "questions")
    case = cases.add_case(space, "questions", CASE)
    run = runs.create_run(space, RunRequest("fees", ["questions"], ["exact"]))
    runs.cancel_run(space, run.run_id)
    user = {"name": "ann", "full_name": "", "email": None, "version": 1}
    user |= {"is_owner": False, "is_disabled": False, "created_at": rows.now(), "updated_at": rows.now()}
    with space.database.writing() as connection:
        rows.add(connection, server_tables.users, user)
    projects.create_project(space, "other")
    connections.create_connection(space, "openai", ConnectionDraft("https://api.openai.com/v1"))
    names = {"bot": "fees", "metric": "exact", "dataset": "questions", "case": str(case.id), "run": run.run_id}
    names |= {"user": "ann", "connection": "openai", "session": "1", "token": "1", "passkey": "1"}
    checks.create_check(space, CheckDraft("kind", "conformity", {"rules": ["Be kind."]}))
    judges.create_judge(space, "strict", JUDGE)
    names |= {"check": "kind", "judge": "strict"}
    task = tasks.create_task(space, TaskDraft("Look"))
    names |= {"task": str(task.id), "comment": "1"}
    return {**names, "score": "0-0", "file": "report.html", "review": "none", "item": "0", "project": "default"}


TRIALS = re.compile(r"/(try|trials|preview|steps)$")
"""What has the server compute or ask something that is not saved: a right of its own, though those who edit have it."""


def needed(allowed: frozenset[str], path: str = "") -> Right:
    """The right that exactly these people have."""
    other = "edit" if TRIALS.search(path) else "try"
    for right in (one for one in get_args(Right) if one != other):
        having = {role for role, rights in ROLES.items() if right in rights} | {"owner"}
        if allowed == having | ({"stranger"} if right == "account" else set()):
            return right
    raise AssertionError(f"no right lets in {sorted(allowed)}, and nobody else")


def requests_table(space: Workspace) -> list[str]:
    names, everyone = fill(space), everybody(space)
    guards = [Middleware(Known, people=everyone), Middleware(InProject, workspace=replace(space, identify=identify))]
    api = Starlette(routes=[Mount("/", rest_api())], middleware=guards)
    with TestClient(api, raise_server_exceptions=False, headers={**STALE, "X-Person": "owner"}) as client:
        described = {*client.get("/openapi.json").json()["paths"], "/openapi.json"}
        assert {*paths_of(rest_api().routes)} == described, "a route that the description of the API lacks"
        return [
            f"| `{method.upper()} {path}` | {needed(let_in(client, method.upper(), path, names, everyone), path)} |"
            for path, operations in client.get("/openapi.json").json()["paths"].items()
            for method in operations
        ]


def let_in(client: TestClient, method: str, path: str, names: Mapping[str, str], everyone: Any) -> frozenset[str]:
    """Those whose request is not refused for who they are."""
    name = f"{method} {path}"
    url = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path) + "?" + QUERIES.get(name, "").format(**names)
    headers = {"If-Match": '"exact:999"'} if name == "PUT /bots/{bot}/metrics" else {}
    body = json.dumps(BODIES[name]).encode() if name in BODIES else b""
    allowed: set[str] = set()
    for person in everyone:
        response = client.request(method, url, content=body, headers={**headers, "X-Person": person})
        status = response.status_code
        assert status != 500, (name, response.text)
        assert (status == 401) == (person == "nobody"), (name, person, status, response.text)
        if status == 403:
            assert response.json()["errors"][0]["hint"], (name, person)
        elif status != 401:
            allowed.add(person)
    return frozenset(allowed)


def roles_table() -> list[str]:
    everyone: dict[str, frozenset[Right]] = {**ROLES, "owner": frozenset(get_args(Right))}
    head = f"| right | {' | '.join(everyone)} |"
    rows = [
        f"| {right} | {' | '.join('yes' if right in rights else '' for rights in everyone.values())} |"
        for right in get_args(Right)
    ]
    return [head, "|---" * (len(everyone) + 1) + "|", *rows]


def expect_in_page(rows: list[str]) -> None:
    table = "\n".join(rows)
    assert f"\n{table}\n\n" in PAGE.read_text(encoding="utf-8") + "\n", f"docs/access.md needs this table:\n{table}"


def test_the_page_has_every_role() -> None:
    assert LOCAL.rights(1) == frozenset(get_args(Right))
    expect_in_page(roles_table())


@pytest.mark.slow
def test_the_page_has_every_request(space: Workspace) -> None:
    expect_in_page(["| request | needs |", "|---|---|", *requests_table(space)])


LINK = re.compile(r'"href":"([^"?#]*)')
BUTTON = re.compile(r'"label":"([^"]*)"')
TO_CHANGE = re.compile(r"(New|Add|Write|Import|Open a|Run|Edit|Delete|Save|Start|Resume|Apply|Ask)( |$)")
"""What the buttons say that change something."""
HIDDEN = frozenset({"Add one", "Add a check", "Add a piece", "Add a turn", "Add tag", "Delete cases", "Run these"})
"""Of forms that a viewer may read, and of the bar of selected cases: there, but not visible."""


def declared_pages() -> dict[str, Right]:
    """The address of each page and the right that its module declares."""
    found = pkgutil.iter_modules(
        evalflow.addons.studio.web.pages.__path__, f"{evalflow.addons.studio.web.pages.__name__}."
    )
    modules = [importlib.import_module(module.name) for module in found]
    return dict(sorted((page.path, page.needs) for module in modules for page in pages_of(module)))


def page_of(pages: Mapping[str, Right], address: str) -> Right | None:
    """The right that the page at an address needs; None if there is no such page."""
    exact = pages.get(address)
    forms = (path for path in pages if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), address))
    return exact or next((pages[path] for path in forms), None)


@pytest.mark.slow
def test_the_page_has_every_page(space: Workspace) -> None:
    pages, names, everyone = (
        declared_pages(),
        {**fill(space), "position": "0", "review": "none"},
        everybody(space),
    )
    assert len(pages) > 20
    rows: list[str] = []
    with paged(space.root, serves=serve_everybody) as server:
        for path, needs in pages.items():
            url = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)
            shown = {person: server.ask("GET", url, X_Person=person) for person in everyone}
            assert shown["nobody"].status == 401, path
            let_in = {person for person, page in shown.items() if page.status not in (307, 401, 403)}
            assert needed(frozenset(let_in)) == needs, path
            for name, person in everyone.items():
                if person is not None and name in let_in:
                    expect_fit(shown[name].body.decode(), pages, person, space)
            if "viewer" in let_in:
                labels = BUTTON.findall(shown["viewer"].body.decode())
                assert {label for label in labels if TO_CHANGE.match(label)} <= HIDDEN, path
            rows.append(f"| `{path}` | {needs} |")
    expect_known(json.loads((space.root / "routes.json").read_bytes()), pages)
    expect_in_page(["| page | needs |", "|---|---|", *rows])


FOR_EVERYBODY = {"/healthz", "/readyz", "/metrics", "/assets", r"/assets/\w+.(js|css)"}
"""Paths without a right: health, the metrics for networks that are named, and files that are the same for all."""
OF_LIBRARY = r"/_nicegui/[\d.]+/(static|libraries|components|resources|dynamic_resources|esm)(/.*)?|/_nicegui_ws"
"""Files of NiceGUI, and the websocket, whose events `web/security/clients` checks, as it does uploads to open pages."""


def expect_known(routes: Sequence[str], pages: Mapping[str, Right]) -> None:
    """Every route of the application is a page with a right, is the REST API, or was decided on above."""
    known = re.compile("|".join([re.escape(API), *FOR_EVERYBODY, OF_LIBRARY]))
    rest = [path for path in routes if not known.fullmatch(path)]
    assert sorted(rest) == sorted(pages), "a route that is no page with a right: decide who may use it"


def expect_fit(page: str, pages: Mapping[str, Right], person: Actor, space: Workspace) -> None:
    """No link of a page leads to one that its visitor may not open."""
    for link in set(LINK.findall(page)):
        needs, named = page_of(pages, link), link.removeprefix("/projects/")
        there = space if named == link else space.in_project(named)
        assert needs is None or needs in person.rights(there.project_id), link
