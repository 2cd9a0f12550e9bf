from __future__ import annotations

from tests.addons.studio.web.api.test_datasets import fill
from tests.addons.studio.web.conftest import Api


def test_a_check_is_tried_on_its_examples_and_enabled_by_a_filter(api: Api) -> None:
    examples = [{"answer": "Hello!", "passes": True}, {"answer": "hello", "passes": True, "question": "Who?"}]
    check = {"name": "greets", "type": "string_matching", "params": {"keyword": "Hello"}, "examples": examples}
    assert api("POST", "/checks", check).status == 201
    assert api("GET", "/checks/greets").json["examples"][1]["question"] == "Who?"
    trials = api("GET", "/checks/greets/trials").json
    assert [(one["passes"], one["state"]) for one in trials] == [(True, "passed"), (True, "failed")]
    fill(api, "fees", [{"id": f"{n}", "question": f"What of {n}?", "tags": ["odd"] if n % 2 else []} for n in range(4)])
    wanted = {"dataset": "fees", "tag": "odd", "text": "of 3"}
    assert api("POST", "/checks/greets/cases", wanted).json == {"count": 1}
    assert api("POST", "/checks/greets/cases", {"dataset": "fees", "draft": True}).json == {"count": 0}
    used = api("DELETE", "/checks/greets", If_Match='"1"')
    assert (used.status, "1 case uses the check" in used.body.decode()) == (409, True)
    assert api("POST", "/checks/greets/cases", {"dataset": "fees", "remove": True}).json == {"count": 1}
    assert api("DELETE", "/checks/greets", If_Match='"1"').status == 204
    assert api("GET", "/checks/greets/trials").status == 404


def test_rules_and_groups_are_tried_and_programs_are_refused(api: Api) -> None:
    rule = {"identifier": "rule", "params": {"op": "any", "rules": [{"op": "contains", "value": "3"}]}}
    late = {"identifier": "rule", "params": {"op": "less_than", "field": "latency_s", "value": 2}}
    group = {"identifier": "group", "params": {"checks": [rule], "threshold": 1}}
    program = {"identifier": "command", "params": {"command": "own"}}
    row = {"question": "How many?", "demo_answer": "3 of them.", "checks": [rule, late, group, program]}
    tried = api("POST", "/checks/try", row).json
    assert [one["state"] for one in tried] == ["passed", "unscored", "passed", "wrong"]
    assert tried[1]["reason"] == "the case has no latency_s"
    refused = "checks that start a program run on the command line only, never in the application"
    saved = api("POST", "/checks", {"name": "own", "type": "command", "params": program["params"]})
    assert (saved.status, refused in saved.body.decode()) == (422, True)
    fill(api, "programs", [row | {"checks": [rule, group]}])
    added = api("POST", "/datasets/programs/cases", {"items": [{"question": "Q?", "checks": [program]}]})
    assert (added.status, refused in added.body.decode()) == (422, True)
    for broken in ([{"type": "rule"}], ["rule"], "rule", [{"identifier": 1}]):
        assert api("POST", "/checks/try", row | {"checks": broken}).status == 422, broken
    types = {one["identifier"]: one for one in api("GET", "/checks/types").json["items"]}
    assert types["rule"]["params"]["examples"][0]["op"] == "contains"
