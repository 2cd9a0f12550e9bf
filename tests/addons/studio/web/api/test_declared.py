"""Unknown parameters and fields of requests, which every route refuses."""

from __future__ import annotations

import re

import pytest

from evalflow.addons.studio.web.application import rest_api
from tests.addons.studio.web.conftest import Api


def test_every_route_refuses_an_unknown_parameter_before_it_does_anything(api: Api) -> None:
    paths = rest_api().openapi()["paths"]  # not while tests are collected: it takes a second
    routes = sorted((method.upper(), path) for path, methods in paths.items() for method in methods)
    assert len(routes) > 100
    for method, path in routes:
        refused = api(method, re.sub(r"\{\w+\}", "1", path) + "?nonsense=1")
        pointers = [one["pointer"] for one in refused.json["errors"]]
        assert (refused.status, pointers) == (422, ["?nonsense"]), f"{method} {path}"


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/runs?stat=done", "did you mean 'state'?"),
        ("/runs/1/scores?lmit=5", "did you mean 'limit'?"),
        ("/audit?sinse=2026-01-01", "did you mean 'since'?"),
        ("/bots/1?limit=5", "it takes no parameters: remove it"),
        ("/bots?zzz=5", "known: cursor, limit"),
    ],
)
def test_the_nearest_name_is_told(api: Api, path: str, hint: str) -> None:
    refused = api("GET", path)
    (error,) = refused.json["errors"]
    assert (refused.status, error["hint"]) == (422, hint)
    assert error["detail"] == f"this route has no parameter {error['pointer'][1:]!r}"


def test_a_parameter_that_is_given_twice_is_refused(api: Api) -> None:
    """One of two values would otherwise count, while a proxy may have looked at the other."""
    refused = api("GET", "/runs?limit=5&limit=6")
    (error,) = refused.json["errors"]
    assert (refused.status, error["pointer"], error["hint"]) == (422, "?limit", "give it once")


def test_all_unknown_parameters_are_told_at_once_and_known_ones_are_taken(api: Api) -> None:
    refused = api("GET", "/runs?limit=5&stat=done&stat=failed&txt=a")
    assert [one["pointer"] for one in refused.json["errors"]] == ["?stat", "?txt"]
    assert api("GET", "/runs?limit=5&state=done&text=a").status == 200


@pytest.mark.parametrize(
    ("body", "pointer", "hint"),
    [
        ({"old": "a", "new": "b", "dryrun": True}, "/dryrun", "did you mean 'dry_run'?"),
        ({"old": "a", "new": "b", "zzzzzz": 1}, "/zzzzzz", "known: dry_run, merge, new, old"),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest(
    api: Api, body: dict[str, object], pointer: str, hint: str
) -> None:
    (error,) = api("POST", "/tags/rename", body).json["errors"]
    assert error == {"pointer": pointer, "detail": f"there is no field {pointer[1:]!r}", "hint": hint}


def test_an_unknown_field_within_a_list_is_named_by_its_place(api: Api) -> None:
    check = {"name": "c", "type": "rule", "params": {}, "examples": [{"answer": "a", "pass": True}]}
    errors = api("POST", "/checks", check).json["errors"]
    assert {
        "pointer": "/examples/0/pass",
        "detail": "there is no field 'pass'",
        "hint": "did you mean 'passes'?",
    } in errors
