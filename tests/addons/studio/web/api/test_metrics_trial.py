from __future__ import annotations

from evalflow.testing import Endpoint
from tests.addons.studio.web.conftest import Api


def test_a_bot_is_asked(api: Api) -> None:
    with Endpoint(lambda request: f"You asked: {request.text}") as endpoint:
        config = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        assert api("POST", "/bots", {"name": "asked", "config": config}).status == 201
        said = api("POST", "/bots/asked/try", {"question": "Why?"})
    assert (said.status, said.json["status"]) == (200, "answered")
    assert said.json["answer"] == "You asked: Why?"


def test_what_cannot_be_asked_says_why(api: Api) -> None:
    assert api("POST", "/bots/recorded/try", {"question": "Why?"}).status == 422
    assert api("POST", "/bots/nobody/try", {"question": "Why?"}).status == 404
    assert api("POST", "/bots/recorded/try", {"question": ""}).status == 422
