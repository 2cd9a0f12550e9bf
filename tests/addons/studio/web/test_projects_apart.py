"""Two projects with things of the same names, on a public server with its worker: a member of one reaches no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from evalflow.addons.studio.web.application import API
from evalflow.addons.studio.work import people, projects, verdicts
from tests.addons.studio.web.conftest import working_in
from tests.addons.studio.web.public import PublicServer, serving_in_public
from tests.addons.studio.web.test_serve import until
from tests.postgres import programs

pytestmark = pytest.mark.slow

MARK = "words of project default"
OWN = "words of project desk"
GOOD = {"kind": "rubric", "needs": ["question", "answer"], "scale": {"type": "likert", "min": 1, "max": 5}}
ENDPOINT = {"kind": "openai", "model": "m", "connection": "openai"}
NAMES = {"bot": "helper", "dataset": "fees", "metric": "good", "judge": "strict", "check": "polite", "review": "look"}
FOR_ALL = {"/me", "/passkeys", "/sessions", "/tokens", "/projects", "/projects/{project}", "/openapi.json"}
"""What belongs to the person, or lists only what they may see."""


class Client:
    """A person at work in one project."""

    def __init__(self, http: httpx2.Client, prefix: str) -> None:
        self.http, self.prefix = http, prefix

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        sent = {"X-Requested-With": "test", **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.http.request(method, f"{self.prefix}{API}{path}", json=body, headers=sent)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.ask(method, path, body, **headers)
        assert answer.status_code < 300, (path, answer.text)
        return answer.json() if answer.content else None

    def fill(self, words: str) -> str:
        """Make one thing of each kind; returns the id of a run that has ended."""
        self("POST", "/bots", {"name": "helper", "title": words, "config": {"kind": "recorded"}})
        self("POST", "/judges", {"name": "strict", "description": words, "config": ENDPOINT})
        good = {"name": "good", "definition": {**GOOD, "description": words, "judge": "strict"}}
        self("PUT", "/bots/helper/metrics", {"items": [good]}, If_Match='""')
        self("POST", "/datasets", {"name": "fees", "description": words})
        rows = [{"id": f"c{i}", "question": f"{i}: {words}?", "reference": "a", "answer": "a"} for i in range(4)]
        self("POST", "/datasets/fees/cases", {"items": [{**row, "tags": [words]} for row in rows]})
        task = self("POST", "/tasks", {"title": words, "cause": "bot"})["id"]
        self("POST", "/comments", {"task": task, "text": words})
        asked = {"bot": "helper", "datasets": ["fees"], "metrics": ["exact_match"], "judge": "embedded", "title": words}
        run = self("POST", "/runs", asked)["run_id"]
        assert until(lambda: one if (one := self("GET", f"/runs/{run}"))["finished_at"] else None)["state"] == "done"
        review = {"name": "look", "run": run, "metrics": ["exact_match"], "size": 2, "people": ["olga"]}
        self("POST", "/reviews", review)
        item = self("POST", "/reviews/look/next")["item"]["item"]
        said = {"values": {"exact_match": 1}, "comment": words}
        self("POST", f"/reviews/look/items/{item}/submit", said)
        return run


@pytest.fixture(name="server", params=["sqlite", "postgresql"], scope="module")
def _server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicServer]:
    from tests.postgres import cluster

    folder = tmp_path_factory.mktemp("public")
    if request.param == "sqlite":
        with serving_in_public(folder) as server:
            yield server
        return
    if not programs():
        pytest.skip("there is no PostgreSQL")
    with cluster() as running, serving_in_public(folder, running.url) as server:
        yield server


def test_a_member_of_one_project_reaches_nothing_of_the_other(server: PublicServer) -> None:
    with working_in(server.folder, server.database) as space:
        projects.create_project(space, "desk")
        people.add_user(space, "edda")
        projects.set_role(space.in_project("desk"), "edda", "admin")
    with server.client(Cookie=server.sign_in("olga")) as owner, server.client(Cookie=server.sign_in("edda")) as own:
        theirs = Client(owner, "").fill(MARK)
        Client(owner, "/p/desk").fill(OWN)
        with working_in(server.folder, server.database) as space:
            verdicts.disagree(space, theirs, 0, "exact_match", 0, MARK)
        seen = [*_reads(Client(own, ""), theirs), *_reads(Client(own, "/p/desk"), theirs)]
        assert [one for one in seen if one] == []
        mine = Client(own, "/p/desk")
        for path in ("/bots", "/reviews/look/labels", "/comments?task=2"):
            assert OWN in mine.ask("GET", path).text, "her own are there"
        home = mine("GET", "/runs")["items"][0]["folder"]
        for what, answer in _named_elsewhere(mine, theirs, server.folder):
            assert answer.status_code in (403, 404, 409, 422), (what, answer.status_code, answer.text)
            assert MARK not in answer.text, what
        assert Path(home).parent == server.folder / "outputs" / "projects" / "desk" / "runs"


def _reads(edda: Client, run: str) -> Iterator[str]:
    """What each address that can be read gives away of the other project; empty texts are as they should be."""
    values = {**NAMES, "run": run, "task": "1", "case": "1", "score": "0-0", "file": "report.html", "item": "1"}
    values |= {"user": "olga", "comment": "1", "connection": "openai", "token": "1", "session": "1"}
    for path, operations in edda.ask("GET", "/openapi.json").json()["paths"].items():
        if "get" not in operations:
            continue
        asked = path.format_map({**values, "project": "default"})
        needed = [one["name"] for one in operations["get"].get("parameters", []) if one["in"] == "query"]
        query = "&".join(f"{name}={run}" for name in needed if name in ("a", "b", "run"))
        answer = edda.ask("GET", f"{asked}?{query}")
        is_refused = answer.status_code in (403, 404) or path in FOR_ALL
        if MARK in answer.text or not (is_refused or edda.prefix):
            yield f"{edda.prefix}{path}: {answer.status_code} {answer.text[:200]}"


def _named_elsewhere(edda: Client, run: str, folder: Path) -> Iterator[tuple[str, httpx2.Response]]:
    """Requests in her own project that name what is in the other one."""
    theirs = folder / "outputs" / "runs" / run
    plain = {"bot": "helper", "datasets": ["fees"], "metrics": ["exact_match"], "judge": "embedded"}
    options: list[dict[str, Any]] = [
        *({"baseline": str(path)} for path in (theirs, theirs.relative_to(folder), folder / "outputs" / "latest")),
        {"baseline": f"outputs/projects/desk/runs/../../../runs/{run}"},
        {"cache": {"path": str(folder / "outputs" / "cache")}},
        {"hydra": {"run": {"dir": str(theirs)}}},
        {"experiment": str(theirs)},
    ]
    for option in options:
        yield str(option), edda.ask("POST", "/runs", {**plain, "options": option})
    steps = {"kind": "g_eval", "needs": ["answer"], "description": "d", "criteria": "c", "steps_from": str(theirs)}
    item = {"name": "steps", "definition": {**steps, "judge": "strict"}}
    made = edda.ask("POST", "/bots/helper/metrics", item)
    is_made = made.status_code == 201
    yield "steps_from", edda.ask("POST", "/runs", {**plain, "metrics": ["steps"]}) if is_made else made
    yield "failed_in", edda.ask("POST", f"/runs/estimate?failed_in={run}", plain)
    yield "open", edda.ask("POST", "/runs/open", {"folder": str(theirs)})
    yield "import", edda.ask("POST", "/imports", {"folder": str(theirs / "snapshot")})
    yield "export", edda.ask("POST", "/exports", {"folder": "outputs/runs/new", "bot": "helper"})
    review = {"name": "mine", "run": run, "metrics": ["exact_match"], "size": 1, "people": ["edda"]}
    yield "review", edda.ask("POST", "/reviews", review)
    own = edda("GET", "/runs")["items"][0]["run_id"]
    for pair in (f"a={own}&b={run}", f"a={run}&b={own}"):
        yield pair, edda.ask("GET", f"/compare?{pair}")
    yield "rank", edda.ask("GET", f"/rank?run={own}&run={run}")
    yield "examples", edda.ask("POST", "/datasets/fees/examples", {"run": run})
    yield "a task", edda.ask("POST", "/tasks", {"title": "x", "run": run, "position": 0})
    for on in ({"run": run, "position": 0}, {"task": 1}):
        yield f"comment {on}", edda.ask("POST", "/comments", {**on, "text": "x"})
    for path in ("/comments/1", f"/tags?run={run}", f"/comments?run={run}&position=0", f"/runs/{run}/labels/export"):
        yield path, edda.ask("GET", path)
    yield "a comment", edda.ask("DELETE", "/comments/1")
    for verb in ("cancel", "resume", "retry"):
        yield verb, edda.ask("POST", f"/runs/{run}/{verb}", If_Match='"1"')
    threshold = {"threshold": 0.1}
    yield "threshold", edda.ask("PUT", f"/runs/{run}/thresholds/exact_match", threshold, If_Match='"1"')
    yield "delete", edda.ask("DELETE", f"/runs/{run}", If_Match='"1"')
    yield "task", edda.ask("PATCH", "/tasks/1", {"title": "x"}, If_Match='"1"')
    yield "case", edda.ask("PUT", "/datasets/fees/cases/1", {"question": "x"}, If_Match='"1"')
