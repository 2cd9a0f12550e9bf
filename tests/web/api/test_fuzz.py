"""Requests made up from the OpenAPI document, sound and unsound ones: none is answered as a fault of the server."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode

from ..conftest import Api, Server

pytestmark = pytest.mark.slow
TRIES = 5
"""Requests for each operation and kind."""
NO_HTTP = "Invalid HTTP request received."
"""What the server itself says to what is no HTTP."""


@pytest.fixture(name="schema", scope="module")
def _schema(api: Api) -> Any:
    return schemathesis.openapi.from_dict(api("GET", "/openapi.json").json)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_is_a_fault_of_the_server(schema: Any, api: Api, mode: GenerationMode) -> None:
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    for operation in operations:
        try_out(operation, mode, api.server)


def try_out(operation: Any, mode: GenerationMode, server: Server) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=TRIES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    def ask(case: Any) -> None:
        response = case.call(
            base_url=f"{server.address.url}/api/v1", headers={"X-Requested-With": "test", **server.known}
        )
        assert response.status_code < 500, (case.as_curl_command(), response.text)
        if response.text == NO_HTTP:  # a header that is none never reaches the application
            return
        if response.status_code >= 400 and response.status_code != 404:
            assert response.headers["content-type"] == ["application/problem+json"], (operation.label, response.text)
            assert response.json()["status"] == response.status_code

    ask()
