"""/reviews: an annotator labels blind, and an editor exports the labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="the extra `web` is not installed")

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.testclient import TestClient

from evalflow.addons.studio.web.application import rest_api
from evalflow.addons.studio.web.security.projects import InProject
from evalflow.addons.studio.work.access import Actor
from evalflow.addons.studio.work.space import open_workspace
from tests.addons.studio.web.finished import Finished, finish_runs
from tests.addons.studio.web.people import Known, identify
from tests.addons.studio.work.test_reviews import add_people

pytestmark = pytest.mark.slow


@pytest.fixture(name="served", scope="module")
def _served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Finished]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("api"))
        space = open_workspace()
        finished = finish_runs(space)
        add_people(space, {"ann": "annotator", "ben": "annotator", "eve": "editor"})
        roles: dict[str, Any] = {"ann": "annotator", "ben": "annotator", "eve": "editor"}
        people = {name: Actor(1, name, roles={space.project_id: role}) for name, role in roles.items()}
        guards = [Middleware(Known, people=people), Middleware(InProject, workspace=replace(space, identify=identify))]
        yield TestClient(Starlette(routes=[Mount("/", rest_api())], middleware=guards)), finished
        space.close()


def test_an_annotator_labels_blind_and_an_editor_reads_the_labels(served: tuple[TestClient, Finished]) -> None:
    client, runs = served

    def ask(who: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return client.request(method, f"/reviews{path}", json=body, headers={"X-Person": who, **headers})

    new = {"name": "march", "run": runs.worse, "metrics": ["exact"], "size": 4, "people": ["ann", "ben"], "seed": 1}
    made = ask("eve", "POST", "", new)
    assert (made.status_code, made.headers["ETag"]) == (201, '"1"'), made.text
    seen = [ask("ann", "GET", ""), ask("ann", "POST", "/march/next")]
    item = seen[-1].json()["item"]["item"]
    draft = {"values": {"exact": 1}, "comment": "Hm.", "seconds": 3}
    assert ask("ann", "PUT", f"/march/items/{item}/draft", draft).status_code == 204
    seen.append(ask("ann", "POST", f"/march/items/{item}/open"))
    assert seen[-1].json()["draft"]["values"] == {"exact": 1}
    wrong = ask("ann", "POST", f"/march/items/{item}/submit", {"values": {"exact": 7}})
    assert wrong.status_code == 422
    assert "exact" in wrong.text
    assert ask("ann", "POST", f"/march/items/{item}/submit", draft).status_code == 204
    assert ask("ben", "POST", "/march/next").json()["item"]["item"] == item
    assert ask("ben", "POST", f"/march/items/{item}/submit", {"values": {"exact": 0}}).status_code == 204
    second = ask("ann", "POST", "/march/next")
    seen += [second, wrong, ask("ann", "GET", "/march/mine")]
    other = second.json()["item"]["item"]
    assert ask("ann", "POST", f"/march/items/{other}/decline", {"reason": "Mine."}).status_code == 204
    for path in ("", "/progress", "/disagreements", "/labels"):
        refused = ask("ann", "GET", f"/march{path}")
        assert refused.status_code == 403
        seen.append(refused)
    text = json.dumps([one.json() for one in seen])
    assert "What is fee" in text
    assert all(word not in text for word in (runs.worse, "As it was", "fees", "recorded", "ben", '"score"', "judge"))
    [apart] = ask("eve", "GET", "/march/disagreements").json()["items"]
    assert (apart["is_tied"], ask("eve", "GET", "/march/progress").json()["ties"]) == (True, 1)
    refused = ask("eve", "PATCH", "/march", {"state": "closed"}, **{"If-Match": '"1"'})
    assert refused.status_code == 409
    assert "1 tie between people is to be decided first" in refused.text
    assert "/reviews/march#disagreements" in refused.text
    decided = {"metric": "exact", "value": 1, "reason": "It is."}
    assert apart["item"] == item
    assert ask("eve", "PUT", f"/march/items/{item}/resolution", decided).status_code == 204
    assert ask("eve", "GET", "/march/progress").json()["labels"] == 2
    lines = ask("eve", "GET", "/march/labels").text.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["label", "label", "resolution", "label"]
    assert ask("eve", "GET", "/march/labels?format=csv").text.startswith("\ufeffdataset,case_id,target")
    assert ask("eve", "PATCH", "/march", {"state": "closed"}, **{"If-Match": '"1"'}).json()["state"] == "closed"
    assert ask("ann", "POST", "/march/next").json() == {"item": None}
    assert ask("eve", "DELETE", "/march", **{"If-Match": '"2"'}).status_code == 204
