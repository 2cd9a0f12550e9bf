from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.addons.studio.web.conftest import Api, api_served
from tests.addons.studio.web.finished import Finished


@pytest.fixture(name="api", scope="module")
def _api(finished: Finished) -> Iterator[Api]:
    with api_served(finished.folder) as server:
        yield Api(server)


def test_runs_are_ranked_as_the_command_does(api: Api, finished: Finished) -> None:
    answer = api("GET", f"/rank?run={finished.worse}&run={finished.better}&items=true&pairwise=true")
    assert answer.status == 200, answer.body
    mean, pairs = answer.json["rankings"]
    assert (mean["metric"], mean["by"], mean["n"], mean["method"]) == ("exact", "mean", 12, "max_t")
    assert [(row["run"], row["rank_low"], row["rank_high"]) for row in mean["rows"]] == [
        (finished.better, 1, 1),
        (finished.worse, 2, 2),
    ]
    assert mean["sentences"][0] == f"{finished.better} is the best."
    assert pairs["by"] == "pairs"
    [table] = answer.json["items"]
    assert table["counts"] == {"separates": 12}


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("run={0}", 422, "needs two runs or more"),
        ("run={0}&run={0}", 422, "named twice"),
        ("run={0}&run={1}", 422, "version"),
        ("run={0}&run={2}&metric=x", 422, "no run has the metric"),
        ("run=x&run=y", 404, "x"),
        ("", 422, "run"),
    ],
)
def test_what_cannot_be_ranked(api: Api, finished: Finished, query: str, status: int, said: str) -> None:
    answer = api("GET", "/rank?" + query.format(finished.better, finished.other, finished.worse))
    assert answer.status == status, answer.body
    assert said in str(answer.json)
    if "{1}" in query:
        assert "allow=metric" in str(answer.json)
        assert api("GET", f"/rank?run={finished.better}&run={finished.other}&allow=metric").status == 200
