from __future__ import annotations

from tests.addons.studio.web.conftest import Api


def test_a_task_is_made_changed_by_its_version_commented_and_deleted(api: Api) -> None:
    made = api("POST", "/tasks", {"title": "Mend the fee", "cause": "bot", "assignees": ["local"]})
    assert (made.status, made.headers["Location"], made.json["status"]) == (201, "/api/v1/tasks/1", "open")
    tag = made.headers["ETag"]
    assert api("PATCH", "/tasks/1", {"status": "done"}).status == 428
    changed = api("PATCH", "/tasks/1", {"status": "in_progress", "priority": "high"}, If_Match=tag)
    assert (changed.status, changed.json["priority"], changed.json["title"]) == (200, "high", "Mend the fee")
    stale = api("PATCH", "/tasks/1", {"status": "done"}, If_Match=tag)
    assert (stale.status, stale.json["current"]) == (412, 2)
    refused = api("PATCH", "/tasks/1", {"assignees": ["nobody"]}, If_Match=changed.headers["ETag"])
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/task/assignees")
    said = api("POST", "/comments", {"task": 1, "text": "It is 5."})
    assert (said.status, said.json["by"]) == (201, "local")
    assert [one["text"] for one in api("GET", "/comments?task=1").json["items"]] == ["It is 5."]
    api("POST", "/tasks", {"title": "Later", "priority": "low"})
    page = api("GET", "/tasks?limit=1").json
    assert [one["comments"] for one in page["items"]] == [1]
    assert [one["title"] for one in api("GET", f"/tasks?limit=1&cursor={page['next']}").json["items"]] == ["Later"]
    assert [one["title"] for one in api("GET", "/tasks?assignee=local&status=in_progress").json["items"]] == [
        "Mend the fee"
    ]
    assert api("GET", "/tasks?run=none").status == api("GET", "/tasks/9").status == 404
    assert api("GET", "/comments").status == 422
    assert api("DELETE", "/comments/1").status == 204
    assert api("DELETE", "/tasks/1", If_Match=changed.headers["ETag"]).status == 204
