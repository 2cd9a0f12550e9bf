from __future__ import annotations

import pytest

from tests.addons.studio.web.conftest import Api


def test_a_connection_shows_whether_its_key_is_set_and_never_the_key(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    new = {"name": "models", "address": "https://models.example.org/v1/", "api_key_env": "MODELS_KEY"}
    made = api("POST", "/connections", new)
    assert (made.status, made.headers["Location"]) == (201, "/api/v1/connections/models")
    monkeypatch.setenv("MODELS_KEY", "a secret")
    (listed,) = api("GET", "/connections").json["items"]
    assert listed == {**made.json, "is_key_set": True}
    assert "a secret" not in str(listed)
    changed = api("PATCH", "/connections/models", {"networks": ["10.0.0.0/8"]}, If_Match=made.headers["ETag"])
    assert (changed.json["networks"], changed.json["api_key_env"]) == (["10.0.0.0/8"], "MODELS_KEY")
    keyless = api("PATCH", "/connections/models", {"api_key_env": None}, If_Match=changed.headers["ETag"])
    assert (keyless.json["api_key_env"], keyless.json["is_key_set"]) == (None, None)
    refused = api("PATCH", "/connections/models", {"address": "x"}, If_Match=keyless.headers["ETag"])
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/connection/address")
    assert api("DELETE", "/connections/models", If_Match=made.headers["ETag"]).status == 412
    assert api("DELETE", "/connections/models", If_Match=keyless.headers["ETag"]).status == 204
    assert api("GET", "/connections/models").status == 404
