from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.addons.studio.web.conftest import Api, api_served, working_in
from tests.addons.studio.web.finished import finish_runs

pytestmark = pytest.mark.slow


@pytest.fixture(name="run", scope="module")
def _run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, str]]:
    folder = tmp_path_factory.mktemp("thresholds")
    with working_in(folder) as workspace:
        found = finish_runs(workspace)
    with api_served(folder) as server:
        yield Api(server), found.better


def test_it_is_kept_given_back_and_taken_along(run: tuple[Api, str]) -> None:
    api, run_id = run
    before = api("GET", f"/runs/{run_id}")
    path, seen = f"/runs/{run_id}/thresholds/exact", before.headers["ETag"]
    kept = api("PUT", path, {"threshold": 0.0}, If_Match=seen)
    assert kept.status == 200, kept.body
    [metric] = kept.json["facts"]["metrics"]
    assert (metric["threshold"], metric["declared"]) == (0.0, 1.0)
    assert kept.headers["ETag"] == api("GET", f"/runs/{run_id}").headers["ETag"] != seen
    assert api("DELETE", path, If_Match=seen).status == 412
    back = api("DELETE", path, If_Match=kept.headers["ETag"])
    assert back.json["facts"] == before.json["facts"]
    carried = api("POST", f"{path}/carry", {"threshold": 0.5})
    assert (carried.status, carried.json["definition"]["threshold"]) == (200, 0.5)
    assert api("GET", f"/runs/{run_id}").headers["ETag"] == back.headers["ETag"]


def test_what_is_wrong_is_said(run: tuple[Api, str]) -> None:
    api, run_id = run
    path, seen = f"/runs/{run_id}/thresholds/exact", api("GET", f"/runs/{run_id}").headers["ETag"]
    body = {"threshold": 0.5}
    wrong = [
        api("PUT", path, body),
        api("PUT", path, {"threshold": "x"}, If_Match=seen),
        api("PUT", f"/runs/{run_id}/thresholds/none", body, If_Match=seen),
        api("PUT", "/runs/none/thresholds/exact", body, If_Match=seen),
        api("DELETE", path),
        api("POST", f"/runs/{run_id}/thresholds/none/carry", body),
    ]
    assert [answer.status for answer in wrong] == [428, 422, 404, 404, 428, 409]
    assert {answer.headers["Content-Type"] for answer in wrong} == {"application/problem+json"}
