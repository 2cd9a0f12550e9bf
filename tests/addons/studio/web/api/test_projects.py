from __future__ import annotations

from tests.addons.studio.web.conftest import Api


def test_a_project_has_its_own_addresses(api: Api) -> None:
    made = api("POST", "/projects", {"name": "desk", "description": "Fees"})
    assert (made.status, made.headers["Location"]) == (201, "/api/v1/projects/desk")
    there = "/p/desk/api/v1/datasets"
    server = api.server
    assert server.ask("POST", there, {"name": "questions"}, X_Requested_With="test").status == 201
    assert server.ask("GET", f"{there}/questions").json["origin"] == "workspace"
    assert api("GET", "/datasets/questions").status == 404
    assert api("GET", "/projects/desk").json["datasets"] == 1
    refused = api("DELETE", "/projects/desk", If_Match=made.headers["ETag"])
    assert (refused.status, refused.json["detail"]) == (409, "the project 'desk' still has 1 dataset")
    assert server.ask("DELETE", f"{there}/questions", If_Match='"1"', X_Requested_With="test").status == 204
    changed = api("PATCH", "/projects/desk", {"description": "Fees and fines"}, If_Match=made.headers["ETag"])
    assert changed.json["description"] == "Fees and fines"
    assert api("DELETE", "/projects/desk", If_Match=made.headers["ETag"]).status == 412
    assert api("DELETE", "/projects/desk", If_Match=changed.headers["ETag"]).status == 204
    assert server.ask("GET", there).status == 404


def test_projects_are_paged_by_name(api: Api) -> None:
    for name in ("abc", "xyz"):
        assert api("POST", "/projects", {"name": name}).status == 201
    first = api("GET", "/projects?limit=2").json
    rest = api("GET", f"/projects?limit=2&cursor={first['next']}").json
    assert [one["name"] for one in first["items"] + rest["items"]] == ["abc", "default", "xyz"]


def test_members_are_users_of_the_server(api: Api) -> None:
    assert api("GET", "/projects/default/members").json == {"items": [], "next": None}
    unknown = api("PUT", "/projects/default/members/ann", {"role": "editor"})
    assert (unknown.status, unknown.json["detail"]) == (404, "there is no user 'ann'")
    assert api("PUT", "/projects/default/members/ann", {"role": "chief"}).status == 422
    assert api("DELETE", "/projects/default/members/ann").status == 404
    assert api("GET", "/projects/none/members").status == 404
