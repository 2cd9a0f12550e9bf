"""Which configuration belongs to which connection, and what a connection's name stands for."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from evalflow.calls.connections import VARIABLE, Connection, Connections, variables_in
from evalflow.errors import Problem, UserError

MODEL = Connection("model", "https://API.example.com:443/v1/", "MODEL_KEY", ("public",))
DEEPER = Connection("deeper", "https://api.example.com/v1/deeper", None, ("public", "10.0.0.0/8"))
LOCAL = Connection("local", "http://10.0.0.5:8000", None, ("10.0.0.5/32",))
KNOWN = Connections((MODEL, DEEPER, LOCAL))


def problem(work: Any, *arguments: Any) -> Problem:
    with pytest.raises(UserError) as caught:
        work(*arguments)
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("url", "key", "belongs"),
    [
        ("https://api.example.com/v1", "MODEL_KEY", MODEL),
        ("HTTPS://Api.Example.com:443/v1/models?a=b", "MODEL_KEY", MODEL),
        ("https://api.example.com/%76%31/x", "MODEL_KEY", MODEL),
        ("https://api.example.com/v1/deeper/x", None, DEEPER),
        ("http://10.0.0.5:8000", None, LOCAL),
        ("http://10.0.0.5:8000/any", None, LOCAL),
        ("https://api.example.com/v1", "OTHER_KEY", "model is called with the key in MODEL_KEY, not with the key in"),
        ("https://api.example.com/v1", None, "not with no key"),
        ("https://api.example.com/v1/deeper", "MODEL_KEY", "deeper is called with no key, not with the key in MODEL"),
        ("http://api.example.com/v1", "MODEL_KEY", "belongs to no connection"),
        ("https://api.example.com:444/v1", "MODEL_KEY", "belongs to no connection"),
        ("https://api.example.com/v10", "MODEL_KEY", "belongs to no connection"),
        ("https://api.example.com/", "MODEL_KEY", "belongs to no connection"),
        ("https://api.example.com.evil.org/v1", "MODEL_KEY", "belongs to no connection"),
        ("http://167772165:8000", None, "belongs to no connection"),
        ("https://api.example.com/v1/../admin", "MODEL_KEY", "must not lead up"),
        ("https://api.example.com/v1/%2e%2E/admin", "MODEL_KEY", "must not lead up"),
        ("https://api.example.com/v1/%252e%252e/admin", "MODEL_KEY", "must not lead up"),
        ("https://api.example.com/v1%2f..%2fadmin", "MODEL_KEY", "must not lead up"),
        ("https://api.example.com/v1/..;a/admin", "MODEL_KEY", "must not lead up"),
        ("https://api.example.com/v1/%5c..", "MODEL_KEY", "must not lead up"),
        ("https://user:hunter2@api.example.com/v1", "MODEL_KEY", "without user and password"),
        ("https://evil.org\\@api.example.com/v1", "MODEL_KEY", "cannot be called"),
        ("https://api.example.com/v1#x", "MODEL_KEY", "cannot be called"),
        ("https://ap\u0131.example.com/v1", "MODEL_KEY", "in ASCII"),
        ("https://api.example.com:99999/v1", "MODEL_KEY", "there is no port 99999"),
        ("ftp://api.example.com/v1", "MODEL_KEY", "cannot be called"),
    ],
)
def test_an_address_belongs_to_one_connection(url: str, key: str | None, belongs: Connection | str) -> None:
    if isinstance(belongs, Connection):
        assert KNOWN.of_model(url, key, "judge") == belongs
        assert KNOWN.of_service(url, {key} if key else (), "target") == belongs
        return
    found = problem(KNOWN.of_model, url, key, "judge")
    assert belongs in found.what
    assert "hunter2" not in found.what
    assert found.key in ("judge.base_url", "judge.api_key_env")
    assert "local (http://10.0.0.5:8000, no key)" in found.hint
    if found.key == "judge.base_url":
        assert belongs in problem(KNOWN.of_service, url, (), "target").what


def test_a_service_reads_the_variable_of_its_connection_only() -> None:
    assert KNOWN.of_service("https://api.example.com/v1", (), "target") == MODEL
    found = problem(KNOWN.of_service, "https://api.example.com/v1", {"MODEL_KEY", "DATABASE_URL"}, "target")
    assert found.what == "model is called with the key in MODEL_KEY; DATABASE_URL cannot be read for it"
    assert "there is no connection yet" in problem(Connections(()).of_service, "http://a", (), "target").hint


def test_variables_are_seen_in_any_form() -> None:
    config = {"a": ["Bearer ${oc.env:A}", {"b": "${oc.env:B,default}${ oc.env : C}"}], "${oc.env:D}": r"\${oc.env:E}"}
    assert variables_in(config) == {"A", "B", "C", "D", "E"}
    assert variables_in({"a": "${target.model}", "b": 1, "c": None}) == set()


@pytest.mark.parametrize(
    ("values", "stands_for"),
    [
        (
            {"kind": "openai", "model": "m", "connection": "model"},
            {"kind": "openai", "model": "m", "base_url": MODEL.address, "api_key_env": "MODEL_KEY"},
        ),
        ({"connection": "local"}, {"base_url": LOCAL.address, "api_key_env": None}),
        (
            {"kind": "http", "connection": "model"},
            {"kind": "http", "url": MODEL.address, "headers": {"Authorization": "Bearer ${oc.env:MODEL_KEY}"}},
        ),
        (
            {"kind": "http", "connection": "model", "url": "/ask?x=1", "headers": {"x-key": "${oc.env:MODEL_KEY}"}},
            {
                "kind": "http",
                "url": "https://API.example.com:443/v1/ask?x=1",
                "headers": {"x-key": "${oc.env:MODEL_KEY}"},
            },
        ),
        (
            {"kind": "http", "connection": "model", "headers": {"authorization": "Basic"}},
            {"kind": "http", "url": MODEL.address, "headers": {"authorization": "Basic"}},
        ),
        ({"kind": "http", "connection": "local", "url": "/ask"}, {"kind": "http", "url": "http://10.0.0.5:8000/ask"}),
        (
            {
                "kind": "http",
                "connection": "local",
                "open": {"url": "/t", "method": "GET"},
                "poll": {"url": "http://b"},
            },
            {
                "kind": "http",
                "url": LOCAL.address,
                "open": {"url": "http://10.0.0.5:8000/t", "method": "GET"},
                "poll": {"url": "http://b"},
            },
        ),
        (
            {"kind": "panel", "members": {"a": {"connection": "local"}, "b": {"base_url": "http://b"}}},
            {
                "kind": "panel",
                "members": {"a": {"base_url": LOCAL.address, "api_key_env": None}, "b": {"base_url": "http://b"}},
            },
        ),
        ({"base_url": "http://b", "connection": None}, {"base_url": "http://b"}),
        ({"connection": "lokal"}, "there is no connection 'lokal'"),
        ({"connection": "model", "base_url": "http://b"}, "the connection has its own base_url"),
        ({"connection": "model", "api_key_env": "OTHER"}, "the connection has its own api_key_env"),
        ({"kind": "http", "connection": "local", "url": "http://b"}, "the connection has its own url"),
    ],
)
def test_a_name_stands_for_address_and_key(values: dict[str, Any], stands_for: dict[str, Any] | str) -> None:
    if isinstance(stands_for, dict):
        assert KNOWN.resolve(values, "target") == stands_for
    else:
        assert problem(KNOWN.resolve, values, "target").what == stands_for


def test_a_connection_is_refused_with_all_that_is_wrong_with_it() -> None:
    with pytest.raises(UserError) as caught:
        Connection(" ", "https://user:hunter2@host/v1", "A KEY", ("everywhere",))
    assert [found.where.removeprefix("connection.") for found in caught.value.problems] == [
        "name",
        "address",
        "networks",
        "api_key_env",
    ]
    assert "its path" in problem(Connection, "a", "https://host/v1?key=b", None, ("public",)).what
    assert "different networks" in problem(Connections, (LOCAL, Connection("b", LOCAL.address, "B", ("public",)))).what
    assert "are called 'local'" in problem(Connections, (LOCAL, LOCAL)).what


def test_a_process_reads_them_from_a_file_of_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Connections.of_process() is None
    file = tmp_path / "connections"
    monkeypatch.setenv(VARIABLE, str(file))
    assert "cannot be read" in problem(Connections.of_process).what
    for known in (KNOWN, Connections((LOCAL,))):
        known.write(file)
        assert Connections.of_process() == known
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for damaged in ("", "[1]", '[{"name": 1, "address": "", "api_key_env": null, "networks": []}]'):
        file.write_text(damaged, encoding="utf-8")
        assert "cannot be read" in problem(Connections.of_process).what
