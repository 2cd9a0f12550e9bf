"""Requests made up from the OpenAPI document, sound and unsound ones: none is answered as a fault of the server.

The store is filled before, and half of the requests are about what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans

from evalflow.addons.studio.work import cases, comments, tasks
from evalflow.addons.studio.work.comments import CommentedOn
from evalflow.addons.studio.work.tasks import TaskDraft
from tests.addons.studio.web.conftest import Api, api_served, working_in
from tests.addons.studio.web.finished import finish_runs

pytestmark = pytest.mark.slow
TRIES = 3
"""Requests for each operation and kind."""
NO_HTTP = "Invalid HTTP request received."
"""What the server itself says to what is not an HTTP."""


@dataclass(frozen=True)
class Filled:
    """A served workspace with a bot, a metric, a dataset and runs that have ended; and how a request names these."""

    api: Api
    path: Mapping[str, str]
    query: Mapping[str, str]


@pytest.fixture(name="filled", scope="module")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp("filled")
    with working_in(folder) as space:
        made = finish_runs(space)
        case = cases.list_cases(space, "questions").items[0].id
        on = CommentedOn(task=tasks.create_task(space, TaskDraft("Look", run=made.worse, position=0)).id)
        comments.add_comment(space, on, "Why?")
    names = {"bot": "fees", "dataset": "questions", "metric": "exact", "case": str(case), "score": "0-0"}
    names |= {"project": "default", "task": "1", "comment": "1"}
    runs = {"a": made.worse, "b": made.better, "run": made.better}
    with api_served(folder) as server:
        yield Filled(Api(server), {**names, "run": made.worse}, runs)


@pytest.fixture(name="schema", scope="module")
def _schema(filled: Filled) -> Any:
    import schemathesis  # here, and not where every worker collects the tests: it takes over a second

    return schemathesis.openapi.from_dict(filled.api("GET", "/openapi.json").json)


def test_what_is_asked_about_is_there(filled: Filled) -> None:
    for path in ("/bots/{bot}/metrics", "/datasets/{dataset}/cases/{case}", "/runs/{run}/scores/{score}"):
        assert filled.api("GET", path.format(**filled.path)).status == 200
    assert filled.api("GET", "/compare?a={a}&b={b}".format(**filled.query)).status == 200


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_request_is_a_fault_of_the_server(schema: Any, filled: Filled, mode: str) -> None:
    from schemathesis.generation import GenerationMode

    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    for operation in operations:
        try_out(operation, GenerationMode(mode), filled)


def try_out(operation: Any, mode: Any, filled: Filled) -> None:
    server = filled.api.server

    @given(case=operation.as_strategy(generation_mode=mode), is_there=booleans())
    @settings(
        max_examples=TRIES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    def ask(case: Any, is_there: bool) -> None:
        for values, known in ((case.path_parameters, filled.path), (case.query, filled.query)):
            if is_there and values:
                values.update({name: value for name, value in known.items() if name in values})
        response = case.call(
            base_url=f"{server.address.url}/api/v1", headers={"X-Requested-With": "test", **server.known}
        )
        assert response.status_code < 500, (case.as_curl_command(), response.text)
        if (
            response.status_code < 400 or response.text == NO_HTTP
        ):  # a header that is none never reaches the application
            return
        if response.status_code != 404:
            assert response.headers["content-type"] == ["application/problem+json"], (operation.label, response.text)
            assert response.json()["status"] == response.status_code

    ask()
