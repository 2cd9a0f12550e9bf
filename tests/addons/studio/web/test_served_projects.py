"""A server and a worker with two projects: what each runs, writes and compares is in its own folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.web.application import API
from evalflow.testing import Endpoint, Request, status
from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.conftest import paged, working
from tests.addons.studio.web.test_serve import until
from tests.postgres import programs

pytestmark = pytest.mark.slow

CASES = [{"id": f"c{i}", "question": f"What is fee {i}?", "reference": f"{i} francs"} for i in range(6)]
JUDGED = {
    "kind": "rubric",
    "needs": ["question", "answer"],
    "description": "How good.",
    "scale": {"type": "likert", "min": 1, "max": 5},
}


class Desk:
    """A model that answers and judges; while `failing` it refuses to judge."""

    def __init__(self) -> None:
        self.failing = True
        self.endpoint = Endpoint(self._reply)

    def _reply(self, request: Request) -> Any:
        if request.schema is None:
            return "1 francs"
        return status(400) if self.failing else {"reason": "so", "score": 4}


class Project:
    """The REST API of one project of a server."""

    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name = server, name

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.server.ask(method, f"/p/{self.name}{API}{path}", body, X_Requested_With="test", **headers)
        assert answer.status < 300, answer.body
        return answer.json

    def define(self, url: str) -> None:
        self("POST", "/bots", {"name": "helper", "config": {"kind": "openai", "model": "m", "base_url": url}})
        self("PUT", "/bots/helper/metrics", {"items": [{"name": "good", "definition": JUDGED}]}, If_Match='""')
        self("POST", "/datasets", {"name": "fees"})
        self("POST", "/datasets/fees/cases", {"items": CASES})

    def run(self, **request: Any) -> dict[str, Any]:
        asked = {"bot": "helper", "datasets": ["fees"], "metrics": ["exact_match"], "judge": "embedded", **request}
        return self.ended(self("POST", "/runs", asked)["run_id"])

    def ended(self, run: str) -> dict[str, Any]:
        return until(lambda: found if (found := self("GET", f"/runs/{run}"))["finished_at"] else None)


def test_each_project_has_its_runs_in_a_folder_of_its_own(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """On PostgreSQL where there is one: other tests serve SQLite."""
    urls = [request.getfixturevalue("postgres_url")] if programs() else []
    outputs, desk = tmp_path / "outputs", Desk()
    with desk.endpoint, paged(tmp_path, *urls) as server, working(tmp_path, *urls):
        first, second = Project(server, "default"), Project(server, "fees_desk")
        first("POST", "/projects", {"name": second.name})
        for project, home in ((first, outputs), (second, outputs / "projects" / second.name)):
            project.define(desk.endpoint.url)
            run = project.run()
            assert (run["state"], run["exit_code"], run["message"]) == ("done", 0, "")
            assert Path(run["folder"]) == home / "runs" / run["run_id"]
            assert (home / "latest").resolve() == Path(run["folder"])
            assert len(project("GET", f"/runs/{run['run_id']}/scores")["items"]) == len(CASES)
            assert "report.html" in [file["name"] for file in project("GET", f"/runs/{run['run_id']}/files")["items"]]

            gate = {"exact_match": {"mean": {"not_worse_by": 0.5}}}
            gated = project.run(options={"baseline": run["folder"], "gate": gate})
            assert (gated["state"], gated["facts"]["gates"][0]["passed"]) == ("done", True)
            compared = project("GET", f"/compare?a={run['run_id']}&b={gated['run_id']}")
            assert compared["rows"][0]["verdict"] == "cannot_tell"

            desk.failing = True
            judged = project.run(metrics=["good"], judge="target", options={"cache": {"mode": "off"}})
            assert judged["exit_code"] == 3
            desk.failing = False
            tag = project.server.ask("GET", f"/p/{project.name}{API}/runs/{judged['run_id']}").headers["ETag"]
            project("POST", f"/runs/{judged['run_id']}/retry", If_Match=tag)
            again = project.ended(judged["run_id"])
            assert (again["state"], again["exit_code"], again["folder"]) == ("done", 0, judged["folder"])
    made = {path.parent for path in outputs.rglob("run.json")}
    assert {folder.parent for folder in made} == {outputs / "runs", outputs / "projects" / "fees_desk" / "runs"}
    assert len(made) == 6
