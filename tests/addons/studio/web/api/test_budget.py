from __future__ import annotations

from tests.addons.studio.web.conftest import Api


def test_a_budget_is_set_with_the_projects_version_and_says_what_is_left(api: Api) -> None:
    first = api("GET", "/projects/default/budget")
    assert first.json["left"] == {"usd": None, "requests": None, "tokens": None}
    limits = {"usd": 50, "requests": 1000}
    changed = api("PUT", "/projects/default/budget", limits, If_Match=first.headers["ETag"])
    assert changed.json["left"] == {"usd": 50.0, "requests": 1000, "tokens": None}
    assert api("PUT", "/projects/default/budget", {}, If_Match=first.headers["ETag"]).status == 412
    for wrong in ({"usd": -1}, {"requests": 1.5}, {"tokens": 10**30}, {"euro": 1}):
        assert api("PUT", "/projects/default/budget", wrong, If_Match=changed.headers["ETag"]).status == 422
    assert api("PUT", "/projects/default/budget", {}, If_Match=changed.headers["ETag"]).status == 200
    assert api("GET", "/projects/none/budget").status == 404
    assert api("GET", "/runs/none/budget").status == 404
