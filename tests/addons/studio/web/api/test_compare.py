from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.addons.studio.web.conftest import Api, api_served
from tests.addons.studio.web.finished import Finished


@pytest.fixture(name="api", scope="module")
def _api(finished: Finished) -> Iterator[Api]:
    with api_served(finished.folder) as server:
        yield Api(server)


def test_two_runs_are_compared_as_the_command_does(api: Api, finished: Finished) -> None:
    answer = api("GET", f"/compare?a={finished.worse}&b={finished.better}&margin=0.1")
    assert answer.status == 200, answer.body
    assert list(answer.json["runs"]) == [finished.worse, finished.better]
    [row] = answer.json["rows"]
    assert (row["metric"], row["n"], row["verdict"], row["not_worse"]) == ("exact", 12, "better", True)
    assert row["difference"] == pytest.approx(10 / 12)
    assert answer.json["family"] == {"size": 1, "adjust": "holm", "level": 0.05, "test_order": {}}
    [flips] = answer.json["flips"]
    assert (flips["worsened"], flips["improved"]) == (1, 11)
    assert flips["cases"][0]["case_id"] == "c0"


def test_what_cannot_be_compared_is_refused_unless_allowed(api: Api, finished: Finished) -> None:
    pair = f"/compare?a={finished.worse}&b={finished.other}"
    refused = api("GET", pair)
    assert refused.status == 422
    [fault] = refused.json["errors"]
    assert fault["detail"] == "metric exact has version 1 in A and 2 in B"
    assert fault["hint"].endswith("allow=metric")
    allowed = api("GET", f"{pair}&allow=metric")
    assert allowed.status == 200
    assert (allowed.json["rows"][0]["verdict"], allowed.json["rows"][0]["attribution"]) == ("higher", "unclear")
    assert allowed.json["sentence"].startswith("The difference cannot be attributed to one change, since the answers")
    assert any("as allowed" in note for note in allowed.json["notes"])


def test_other_versions_of_a_metric_are_compared_on_the_same_answers(api: Api, finished: Finished) -> None:
    answer = api("GET", f"/compare?a={finished.better}&b={finished.other}")
    assert answer.status == 200, answer.body
    assert (answer.json["rows"][0]["verdict"], answer.json["rows"][0]["attribution"]) == ("cannot_tell", "judge")
    assert answer.json["sentence"].startswith("Same answers, a changed metric: no clear change in its scores")


def test_those_that_can_be_compared_come_first(api: Api, finished: Finished) -> None:
    found = api("GET", f"/compare/candidates?run={finished.better}").json["items"]
    assert [one["run_id"] for one in found] == [finished.worse, finished.other]
    assert [[o["kind"] for o in one["obstacles"]] for one in found] == [[], ["metric"]]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("a=x&b=y", 404),
        ("a=x", 422),
        ("a={0}&b={0}", 422),
        ("a={0}&b={1}&allow=x", 422),
        ("a={0}&b={1}&margin=0", 422),
        ("a={0}&b={1}&margin=5e-324", 422),
        ("a={0}&b={1}&margin=1e300", 422),
    ],
)
def test_wrong_questions_are_refused(api: Api, finished: Finished, query: str, status: int) -> None:
    answer = api("GET", f"/compare?{query.format(finished.worse, finished.better)}")
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json")


def test_the_checks_that_a_case_may_name_are_told_with_their_parameters(api: Api) -> None:
    found = {one["identifier"]: one for one in api("GET", "/checks/types").json["items"]}
    assert found["string_matching"]["params"]["required"] == ["keyword"]
    assert (found["correctness"]["is_judged"], found["regex_matching"]["is_judged"]) == (True, False)
