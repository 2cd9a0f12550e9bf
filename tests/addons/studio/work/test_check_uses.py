from __future__ import annotations

import pytest

from evalflow.addons.studio.work import bots, cases, check_uses, checks, datasets, projects
from evalflow.addons.studio.work.check_uses import CheckUse
from evalflow.addons.studio.work.checks import CheckDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.addons.studio.work.trash import restore
from evalflow.errors import Subject, UserError
from tests.finishing import finish

GREETS = CheckDraft("greets", "string_matching", {"keyword": "Hello"})


def fill(space: Workspace, answers: str = "Hello.") -> list[int]:
    datasets.create_dataset(space, "fees")
    rows = [{"id": f"c{n}", "question": f"{n}?", "answer": answers, "tags": ["odd"] if n % 2 else []} for n in range(4)]
    cases.add_cases(space, "fees", rows)
    checks.create_check(space, GREETS)
    return cases.case_ids(space, "fees")


def switch_off(space: Workspace, case: int) -> None:
    found = cases.get_case(space, "fees", case)
    off = {**found.body, "checks": [{"identifier": "greets", "enabled": False, "params": {}}]}
    cases.update_case(space, "fees", case, found.version, off)


def test_uses_follow_every_change_of_a_case(space: Workspace) -> None:
    first, second, *_ = fill(space)
    assert check_uses.check_uses(space) == {}
    check_uses.enable_check(space, "fees", [first, second], "greets")
    switch_off(space, second)
    assert check_uses.check_uses(space) == {"greets": CheckUse(2, 1)}
    found = check_uses.coverage(space, "fees", "greets", tag="odd")
    assert (len(found.cases), found.naming, found.enabled) == (2, [second], [])
    assert check_uses.coverage(space, "fees", "greets", text="0?").enabled == [first]
    assert [(one.key, one.is_enabled) for one in check_uses.cases_with(space, "greets")] == [
        ("c0", True),
        ("c1", False),
    ]
    assert [one.key for one in check_uses.cases_with(space, "greets", 1, 1)] == ["c1"]
    deleted = cases.delete_cases(space, "fees", [first])
    assert check_uses.check_uses(space) == {"greets": CheckUse(1, 0)}
    restore(space, deleted.trash)
    cases.copy_dataset(space, "fees", "copied")
    assert check_uses.check_uses(space) == {"greets": CheckUse(4, 2)}
    assert check_uses.check_uses(space.in_project(projects.create_project(space, "other").name)) == {}
    assert check_uses.remove_everywhere(space, "greets").count == 4
    assert restore(space, checks.delete_check(space, "greets", 1)).kind == "check"
    assert checks.get_check(space, "greets").params == {"keyword": "Hello"}
    with pytest.raises(UserError, match="there is no check 'greet'"):
        check_uses.enable_check(space, "fees", [first], "greet")


def test_a_removed_check_comes_back_to_its_place_on_the_cases_that_are_left(space: Workspace) -> None:
    first, second, third, fourth = fill(space)
    found = cases.get_case(space, "fees", first)
    named = [{"identifier": name, "params": {}} for name in ("before", "greets", "after")]
    named[1] = {"identifier": "greets", "enabled": False, "params": {"keyword": "Hi"}}
    before = cases.update_case(space, "fees", first, found.version, {**found.body, "checks": named}).body["checks"]
    check_uses.enable_check(space, "fees", [second, third, fourth], "greets")
    cases.copy_dataset(space, "fees", "copied")
    removed = check_uses.remove_everywhere(space, "greets")
    assert (removed.count, check_uses.check_uses(space).get("greets")) == (8, None)
    check_uses.enable_check(space, "fees", [third], "greets")  # again, meanwhile
    cases.delete_cases(space, "fees", [fourth])
    assert restore(space, removed.trash) == Subject("check", "greets")
    assert cases.get_case(space, "fees", first).body["checks"] == before
    assert cases.get_case(space, "fees", third).body["checks"] == [
        {"identifier": "greets", "enabled": True, "params": {}}
    ]
    assert check_uses.check_uses(space)["greets"] == CheckUse(7, 5)
    with pytest.raises(NotFoundError, match="no longer"):
        restore(space, removed.trash)


def test_a_removed_check_cannot_come_back_without_its_definition_or_cases(space: Workspace) -> None:
    first, *_ = fill(space)
    check_uses.enable_check(space, "fees", [first], "greets")
    removed = check_uses.remove_check(space, "fees", [first], "greets")
    deleted = checks.delete_check(space, "greets", 1)
    with pytest.raises(TakenError, match="the check 'greets' was deleted"):
        restore(space, removed.trash)
    restore(space, deleted)
    check_uses.enable_check(space, "fees", [first], "greets")
    with pytest.raises(TakenError, match="have the check again"):
        restore(space, removed.trash)
    check_uses.remove_check(space, "fees", [first], "greets")
    restore(space, removed.trash)
    assert check_uses.check_uses(space) == {"greets": CheckUse(1, 1)}


def test_a_check_within_a_group_is_in_use(space: Workspace) -> None:
    fill(space)
    group = {"checks": [{"identifier": "greets"}, {"identifier": "equals", "params": {"expected_value": "a"}}]}
    checks.create_check(space, CheckDraft("polite", "group", group))
    with pytest.raises(TakenError, match="the check 'polite' has 'greets' in its group"):
        checks.delete_check(space, "greets", 1)
    checks.delete_check(space, "polite", 1)
    case = cases.add_case(space, "fees", {"question": "?", "checks": [{"identifier": "group", "params": group}]})
    assert check_uses.check_uses(space)["greets"] == CheckUse(1, 1)
    for odd in ("abc", [1, {"identifier": 2}, {"identifier": "greets", "params": [3]}]):
        row = {"question": f"{odd}?", "checks": [{"identifier": "mine", "params": {"checks": odd}}]}
        cases.add_case(space, "fees", row)
    assert {name: use.cases for name, use in check_uses.check_uses(space).items()} == {
        **{"group": 1, "equals": 1, "greets": 2, "mine": 2},
    }
    with pytest.raises(TakenError, match="2 cases use the check"):
        checks.delete_check(space, "greets", 1)
    cases.delete_cases(space, "fees", [case.id, *cases.case_ids(space, "fees", text="abc")])
    cases.delete_cases(space, "fees", cases.case_ids(space, "fees", text="identifier"))
    checks.delete_check(space, "greets", 1)


@pytest.mark.slow
def test_the_last_failure_is_the_first_failed_answer_of_the_latest_run_with_one(space: Workspace) -> None:
    ids = fill(space)
    bots.create_bot(space, "desk", {"kind": "recorded"})
    check_uses.enable_check(space, "fees", ids, "greets")
    finish(space, RunRequest("desk", ["fees"], ["checks"]))
    assert check_uses.last_failure(space, "greets") is None
    for case in ids[2:]:
        found = cases.get_case(space, "fees", case)
        cases.update_case(space, "fees", case, found.version, {**found.body, "answer": "Hi."})
    twice = cases.get_case(space, "fees", ids[1])
    both = [{"identifier": "greets", "params": {"keyword": word}} for word in ("Hello", "Hi")]
    cases.update_case(space, "fees", ids[1], twice.version, {**twice.body, "checks": both})
    failed = finish(space, RunRequest("desk", ["fees"], ["checks"], title="Tuesday"))
    found = check_uses.last_failure(space, "greets")
    assert found is not None
    assert (found.run_id, found.title, found.case_id, found.metric) == (failed.run_id, "Tuesday", "c1", "greets#2")
    cases.delete_cases(space, "fees", ids[1:])
    finish(space, RunRequest("desk", ["fees"], ["checks"]))  # all pass
    assert check_uses.last_failure(space, "greets") == found
