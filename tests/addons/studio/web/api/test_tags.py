from __future__ import annotations

from tests.addons.studio.web.api.test_datasets import fill
from tests.addons.studio.web.conftest import Api


def test_a_tag_is_renamed_on_all_cases_and_two_are_merged_only_if_that_is_said(api: Api) -> None:
    fill(api, "first", [{"id": "a", "question": "?", "tags": ["Fees > Card"]}])
    fill(api, "second", [{"id": "b", "question": "?", "tags": ["fees"]}])
    wanted = {"old": "fees", "new": "Fees"}
    planned = api("POST", "/tags/rename", {**wanted, "dry_run": True})
    assert (planned.json["cases"], planned.json["merged"]) == (1, {"Fees": 1})
    refused = api("POST", "/tags/rename", wanted)
    assert (refused.status, "there already is the tag 'Fees' (1 case)" in refused.body.decode()) == (409, True)
    assert api("POST", "/tags/rename", {**wanted, "merge": True}).status == 200
    assert api("POST", "/tags/rename", {"old": "Fees", "new": "Money>Fees"}).json["cases"] == 2
    tags = {one["tag"]: one["count"] for one in api("GET", "/tags").json["items"]}
    assert tags == {"Money": 2, "Money > Fees": 2, "Money > Fees > Card": 1}
    assert api("POST", "/tags/rename", {"old": "gone", "new": "x"}).status == 404
    assert api("POST", "/tags/rename", {"old": "Money", "new": " > "}).status == 422
