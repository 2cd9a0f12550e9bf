from __future__ import annotations

import http.client

import pytest

from tests.addons.studio.web.api.test_datasets import fill
from tests.addons.studio.web.conftest import Api

pytestmark = pytest.mark.slow

RUN = {"bot": "recorded", "metrics": ["exact_match"], "judge": "embedded"}


def test_a_run_is_estimated_triggered_followed_and_cancelled(api: Api) -> None:
    fill(api, "exact", [{"id": "a", "question": "?", "answer": "x", "reference": "x"}])
    body = {**RUN, "datasets": ["exact"]}
    estimate = api("POST", "/runs/estimate", body)
    assert estimate.status == 200, estimate.body
    assert estimate.json["scores"] == 1
    made = api("POST", "/runs", body, Idempotency_Key="run-1")
    assert made.status == 201, made.body
    run = made.json["run_id"]
    assert made.headers["Location"] == f"/api/v1/runs/{run}"
    assert api("POST", "/runs", body, Idempotency_Key="run-1").json["run_id"] == run
    assert api("POST", "/runs", {**body, "options": {"limit": 1}}, Idempotency_Key="run-1").status == 409
    assert api("POST", "/runs", body, Idempotency_Key="").status == 422
    assert [one["run_id"] for one in api("GET", "/runs").json["items"]] == [run]
    assert api("GET", f"/runs/{run}/scores").json == {"items": [], "next": None}
    assert api("POST", f"/runs/{run}/cancel").json["state"] == "cancelled"
    assert api("POST", f"/runs/{run}/cancel").status == 409
    assert followed(api, run) == ["progress", "end"]
    assert api("DELETE", f"/runs/{run}", If_Match=etag(api, run)).status == 204
    assert api("GET", f"/runs/{run}").status == 404


def test_a_run_takes_the_cases_that_the_request_names(api: Api) -> None:
    rows = [{"id": f"c{i}", "question": "?", "answer": "x", "reference": "x", "tags": [f"t{i}"]} for i in range(3)]
    fill(api, "named", rows)
    body = {**RUN, "datasets": ["named"], "dataset_values": {"named": {"tags": ["t0", "t2"]}}, "options": {"sample": 1}}
    estimate = api("POST", "/runs/estimate", body).json
    assert (estimate["cases"], estimate["left_out"]) == ({"named": 1}, {"named": {"drafts": 0, "unselected": 2}})
    run = api("POST", "/runs", body).json
    assert run["request"]["dataset_values"] == body["dataset_values"]
    wrong = api("POST", "/runs", {**body, "dataset_values": {"named": {"path": "/etc"}, "x": {}}})
    assert [one["pointer"] for one in wrong.json["errors"]] == ["/dataset_values/named/path", "/dataset_values/x"]
    none = api("POST", f"/runs/estimate?failed_in={run['run_id']}", body)
    assert (none.status, none.json["errors"][0]["pointer"]) == (409, "/failed_in")
    assert api("POST", "/runs?failed_in=nothing", body).status == 404


def etag(api: Api, run: str) -> str:
    return api("GET", f"/runs/{run}").headers["ETag"]


def test_what_is_done_to_a_run_names_what_was_seen(api: Api) -> None:
    fill(api, "seen", [{"id": "a", "question": "?", "answer": "x", "reference": "x"}])
    made = api("POST", "/runs", {**RUN, "datasets": ["seen"]})
    run, first = made.json["run_id"], made.headers["ETag"]
    assert first == etag(api, run)
    assert api("POST", f"/runs/{run}/cancel", If_Match='"99"').status == 412
    stopped = api("POST", f"/runs/{run}/cancel", If_Match=first)
    assert (stopped.status, stopped.json["state"]) == (200, "cancelled")
    for method, path in (("POST", "/resume"), ("POST", "/retry"), ("DELETE", "")):
        for header, status in (({}, 428), ({"If_Match": "3"}, 400), ({"If_Match": first}, 412)):
            answer = api(method, f"/runs/{run}{path}", **header)
            assert (answer.status, answer.json["status"]) == (status, status), (method, path, header)
    late = api("DELETE", f"/runs/{run}", If_Match=first)
    assert late.json["current"] == stopped.json["version"]
    resumed = api("POST", f"/runs/{run}/resume", If_Match=stopped.headers["ETag"])
    assert (resumed.status, resumed.json["state"]) == (200, "queued")
    assert api("DELETE", f"/runs/{run}", If_Match=resumed.headers["ETag"]).status == 409
    assert api("POST", f"/runs/{run}/cancel").status == 200


def followed(api: Api, run: str) -> list[str]:
    """The kinds of events until the run has ended."""
    address = api.server.address
    connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
    connection.request("GET", f"/api/v1/runs/{run}/events", headers=api.server.known)
    reply = connection.getresponse()
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    lines = reply.read().decode().splitlines()
    connection.close()
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


def test_a_cursor_that_was_made_up_is_refused(api: Api) -> None:
    fill(api, "paged", [{"id": "a", "question": "?", "answer": "x", "reference": "x"}])
    run = api("POST", "/runs", {**RUN, "datasets": ["paged"]}).json["run_id"]
    cursors = {
        "input": ["99999999999999999999999,1", "-1,0", "1", "x,1", "%00"],
        "score": ["nan,0,0", "inf,0,0", "0.5,99999999999999999999,1", "0.5,1"],
    }
    for sort, cursor in ((sort, cursor) for sort, some in cursors.items() for cursor in some):
        answer = api("GET", f"/runs/{run}/scores?metric=exact_match&sort={sort}&cursor={cursor}")
        assert (answer.status, answer.json["errors"][0]["pointer"]) == (422, "?cursor"), cursor


def test_a_run_of_what_is_not_there_is_refused(api: Api) -> None:
    assert api("POST", "/runs", {**RUN, "datasets": ["nothing"]}).status == 404
    answer = api("POST", "/runs", {**RUN, "datasets": [], "options": {"colour": 1}})
    assert answer.status == 422
    assert len(answer.json["errors"]) == 2
    assert api("GET", "/runs/nothing/events").status == 404
    assert api("GET", "/runs/nothing/scores").status == 404


def test_a_folder_that_holds_no_run_of_here_is_not_opened(api: Api) -> None:
    for folder in ("outputs/runs/none", "/", "..", "outputs/../../..", "/etc", "\0", "a" * 300, "~", "a/" * 2000):
        assert api("POST", "/runs/open", {"folder": folder}).status == 422, folder
