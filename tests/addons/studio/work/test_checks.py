"""The sentences of the annotation guide that a person can hold the application to, each a test."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from evalflow.addons.studio.work import cases, check_uses, checks, datasets
from evalflow.addons.studio.work.bots import create_bot
from evalflow.addons.studio.work.case_choice import LeftOutCases
from evalflow.addons.studio.work.check_trial import CheckTrial, example_row, judge_check, try_checks, try_examples
from evalflow.addons.studio.work.check_uses import CheckUse
from evalflow.addons.studio.work.checks import CheckDraft, CheckExample
from evalflow.addons.studio.work.metrics import MetricDraft, create_metric
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import estimate_run
from evalflow.addons.studio.work.scores import list_scores
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.addons.studio.work.transfer import export_files
from evalflow.errors import UserError
from evalflow.testing import Endpoint, Request
from tests.app.test_schema import assert_explained
from tests.cli.conftest import Program
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = pytest.mark.slow

QUESTION = "Hello, which language is your open-source library written in?"
EVEREST = (
    "Sir Edmund Hillary, a New Zealand mountaineer, became famous for being one of the first people to reach the "
    "summit of Mount Everest with Tenzing Norgay on May 29, 1953."
)
PARIS = "Paris is the capital of France, it was founded around 200 BC."
NO_ADVICE = "The agent should not give any financial advice or personalized recommendations."
JUDGED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"identifier": "correctness", "params": {"reference": PARIS}},
        "The capital of France is Paris.",
        "The answer does not specify when the city of Paris was founded",
    ),
    (
        {"identifier": "correctness", "params": {"reference": PARIS}},
        "The capital of France is Paris, it was founded in 200 AD.",
        "The answer contradicts the reference which states that Paris was founded around 200 BC, and not 200 AD",
    ),
    (
        {"identifier": "correctness", "params": {"reference": PARIS}},
        "The capital of France is Paris, the first settlement dates from 200 BC.",
        "",
    ),
    (
        {"identifier": "conformity", "params": {"rules": [NO_ADVICE]}},
        "You should definitely invest into bitcoin in addition to your saving plan, since you want to buy a flat "
        "quickly, the yield is much higher with bitcoin.",
        "The agent answer contradicts the rule",
    ),
    (
        {"identifier": "conformity", "params": {"rules": [NO_ADVICE]}},
        "I'm sorry, I cannot give you specific financial advice, to get personalized recommandation I suggest that you "
        "contact our dedicated customer service.",
        "",
    ),
    (
        {"identifier": "groundedness", "params": {"context": EVEREST}},
        "Edmund Hillary, born in 1919, was a great mountaineer who climb Mount Everest first.",
        "The reference context does not specify that Hillary was born in 1919",
    ),
    (
        {"identifier": "groundedness", "params": {"context": EVEREST}},
        "Edmund Hillary reached the summit of Mount Everest in 1952.",
        "The reference context states that Hillary reached the summit of Mount Everest in 1953, and not in 1952",
    ),
    (
        {"identifier": "groundedness", "params": {"context": EVEREST}},
        "Edmund Hillary was the first person to reach the summit of Mount Everest in 1953.",
        "",
    ),
]


def name_rule(path: str, value: Any, kind: str) -> dict[str, Any]:
    rule = {"json_path": path, "expected_value": value, "expected_value_type": kind}
    return {"identifier": "metadata", "params": {"json_path_rules": [rule]}}


HELLO = {"identifier": "string_matching", "params": {"keyword": "Hello"}}
JOHN = name_rule("$.user.name", "John", "string")
SUCCESS = name_rule("$.output.success", True, "boolean")
NORTH = "The capital of France is Paris, which is located in the northern part of the country."
SOUTH = "The capital of France is Paris, which is located in the southern part of the country."
FREE: list[tuple[dict[str, Any], str | dict[str, Any], CheckTrial]] = [
    (HELLO, "Hi, can I help you?", CheckTrial("failed", "The agent answer does not contain the keyword 'Hello'")),
    (HELLO, "Hello, how may I help you today?", CheckTrial("passed", "The agent answer contains the keyword 'Hello'")),
    (JOHN, {"user": {"name": "Doe"}}, CheckTrial("failed", "Expected John at $.user.name but got Doe")),
    (JOHN, {"user": {"name": "John"}}, CheckTrial("passed")),
    (JOHN, {"user": {"name": "John Doe"}}, CheckTrial("passed")),
    (
        SUCCESS,
        {"output": {"success": False}},
        CheckTrial("failed", "Expected true at $.output.success but got false"),
    ),
    (SUCCESS, {"output": {}}, CheckTrial("failed", "JSON path $.output.success does not exist in metadata")),
    (SUCCESS, {"output": {"success": True}}, CheckTrial("passed")),
]


def tried(space: Workspace, check: dict[str, Any], answer: str, metadata: Any = None) -> CheckTrial:
    example = {"role": "assistant", "content": answer, "metadata": metadata}
    (found,) = try_checks(space, {"question": QUESTION, "demo_answer": example, "checks": [check]})
    return found


@ON_SQLITE
@pytest.mark.parametrize(("check", "given", "expected"), FREE)
def test_rules_are_tried_on_the_answer_example_with_the_reason_in_words(
    space: Workspace, check: dict[str, Any], given: Any, expected: CheckTrial
) -> None:
    found = tried(space, check, given) if isinstance(given, str) else tried(space, check, "Done.", given)
    assert found.state == expected.state
    assert expected.reason in found.reason


@ON_SQLITE
@pytest.mark.parametrize(("check", "answer", "reason"), JUDGED)
@pytest.mark.anyio
async def test_checks_of_a_judge_are_tried_when_asked(
    space: Workspace, check: dict[str, Any], answer: str, reason: str
) -> None:
    def judge(request: Request) -> dict[str, Any]:
        assert answer in request.text.replace("\\n", "\n")
        return {"reason": reason or "It holds.", "passed": not reason}

    with Endpoint(judge) as endpoint:
        create_bot(space, "desk", {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None})
        row = {"question": QUESTION, "demo_answer": answer}
        found = await judge_check(space, "desk", row, check)
    assert found == (CheckTrial("failed", reason) if reason else CheckTrial("passed", "It holds."))
    assert endpoint.count == 1


@ON_SQLITE
def test_a_judge_is_never_asked_while_one_types_and_what_is_wrong_is_said(space: Workspace) -> None:
    wrong = {"identifier": "string_matching", "params": {"keyword": ""}}
    off = {**HELLO, "enabled": False}
    alike = {"identifier": "semantic_similarity", "params": {"reference": NORTH, "threshold": 0.8}}
    others = [wrong, off, JUDGED[0][0], {"identifier": "gone"}, alike]
    found = try_checks(space, {"question": QUESTION, "demo_answer": NORTH, "checks": others})
    assert [one.state for one in found] == ["wrong", "off", "judge", "wrong", "passed"]
    assert "keyword" in found[0].reason
    assert found[3].reason == "there is no check 'gone'"
    assert "similarity to the reference" in found[4].reason
    assert SOUTH != NORTH


@ON_SQLITE
def test_a_check_is_tried_on_each_of_its_examples(space: Workspace) -> None:
    examples = [
        CheckExample("Hello!", passes=True),
        CheckExample("Hi!", passes=False),
        CheckExample("", passes=False),
        CheckExample("Done.", passes=True, metadata={"user": {"name": "John"}}, question="Who?"),
    ]
    rows = [example_row(one) for one in examples]
    assert (rows[3]["question"], rows[0]["question"]) == ("Who?", "(no question)")
    states = [one.state for one in try_examples(space, "string_matching", {"keyword": "Hello"}, rows)]
    assert states == ["passed", "failed", "failed", "failed"]
    assert [one.state for one in try_examples(space, "metadata", JOHN["params"], rows)][2:] == ["failed", "passed"]
    assert {one.state for one in try_examples(space, "correctness", {"reference": "Hello"}, rows)} == {"judge"}
    wrong = try_examples(space, "conformity", {"rules": ["No talk of {{rival}}."]}, rows)
    assert (wrong[0].state, "no value for {{rival}}" in wrong[0].reason) == ("wrong", True)
    assert try_examples(space, "string_matching", {"keyword": ""}, rows)[0].state == "wrong"
    assert try_examples(space, "string_matching", {"keyword": "a"}, []) == []


@ON_SQLITE
def test_a_check_is_defined_once_and_enabled_on_many_conversations(space: Workspace) -> None:
    datasets.create_dataset(space, "fees")
    rows = [{"id": f"c{n}", "question": f"{n}?", "answer": "Hi.", "tags": ["Loans"] if n else []} for n in range(3)]
    cases.add_cases(space, "fees", rows)
    examples = [CheckExample("Hello!", passes=True), CheckExample("Hi!", passes=False)]
    draft = CheckDraft("greets", "string_matching", {"keyword": "Hello"}, "It greets", "Politely.", examples)
    made = checks.create_check(space, draft)
    assert (made.title, made.examples, made.version) == ("It greets", examples, 1)
    found = cases.case_ids(space, "fees", tag="Loans")
    assert check_uses.enable_check(space, "fees", found, "greets") == 2
    assert check_uses.enable_check(space, "fees", found, "greets") == 0
    assert check_uses.check_uses(space) == {"greets": CheckUse(2, 2)}
    with pytest.raises(TakenError, match="2 cases use the check"):
        checks.delete_check(space, "greets", 1)
    create_bot(space, "desk", {"kind": "recorded"})
    run = finish(space, RunRequest("desk", ["fees"], ["checks"]))
    scores = list_scores(space, run.run_id).items
    assert [(one.case_id, one.metric, one.score) for one in scores] == [("c1", "greets", 0.0), ("c2", "greets", 0.0)]
    definition = {"kind": "checks", "description": "What each case asks for.", "needs": ["answer"]}
    create_metric(space, "desk", MetricDraft("asked", definition))
    export_files(space, space.root / "out", "desk", ["fees"])  # the command line knows the check too
    words = ("--config-dir", "out/conf", "dataset=fees", "metric=asked")
    done = Program(space.root)("run", *words)
    assert (done.returncode, "greets" in done.stdout) == (0, True), done.stderr
    assert check_uses.remove_check(space, "fees", found, "greets").count == 2
    checks.delete_check(space, "greets", 1)
    with pytest.raises(NotFoundError):
        checks.get_check(space, "greets")


@ON_SQLITE
@pytest.mark.parametrize(
    ("draft", "what"),
    [
        (CheckDraft("has spaces", "conformity", {"rules": ["Be kind."]}), "cannot be a name"),
        (CheckDraft("correctness", "conformity", {"rules": ["Be kind."]}), "a built-in check has this name"),
        (CheckDraft("mine", "kindness", {}), "there is no check 'kindness'"),
        (CheckDraft("mine", "regex_matching", {"pattern": "("}), "pattern"),
        (CheckDraft("mine", "correctness", {}), "params.reference: is required"),
        (CheckDraft("mine", "conformity", {"rules": []}), "params.rules: is required"),
        (CheckDraft("mine", "group", {"checks": [{"identifier": "gone"}]}), "there is no check 'gone'"),
        (CheckDraft("mine", "group", {"checks": [{"identifier": "mine"}]}), "the group contains itself"),
    ],
)
def test_a_wrong_check_is_refused(space: Workspace, draft: CheckDraft, what: str) -> None:
    with pytest.raises(UserError, match=what):
        checks.create_check(space, draft)


@ON_SQLITE
def test_groups_that_contain_each_other_are_refused_wherever_they_come_from(space: Workspace) -> None:
    rule = {"identifier": "rule", "params": {"op": "contains", "value": "a"}}
    checks.create_check(space, CheckDraft("one", "group", {"checks": [rule]}))
    checks.create_check(space, CheckDraft("two", "group", {"checks": [rule, {"identifier": "one"}]}))
    assert tried(space, {"identifier": "two"}, "a").state == "passed"
    inner = {"identifier": "group", "params": {"checks": [{"identifier": "two"}]}}
    with pytest.raises(UserError, match="the group contains itself"):
        checks.update_check(space, 1, CheckDraft("one", "group", {"checks": [inner]}))
    custom = {"one": {"type": "group", "params": {"checks": [{"identifier": "one"}]}}}
    definition = {"kind": "checks", "description": "Checks.", "needs": ["answer"], "custom": custom}
    create_bot(space, "desk", {"kind": "recorded"})
    with pytest.raises(UserError, match="its group contains itself"):
        create_metric(space, "desk", MetricDraft("asked", definition))


def test_drafts_stay_out_of_runs_and_are_counted(space: Workspace) -> None:
    datasets.create_dataset(space, "fees")
    ready = cases.add_case(space, "fees", {"id": "a", "question": QUESTION, "answer": "Hello", "checks": [HELLO]})
    draft = cases.add_case(space, "fees", {"id": "b", "question": "Not yet?", "checks": [HELLO]}, draft=True)
    assert (ready.is_draft, draft.is_draft) == (False, True)
    assert cases.case_ids(space, "fees", draft=True) == [draft.id]
    create_bot(space, "desk", {"kind": "recorded"})
    request = RunRequest("desk", ["fees"], ["checks"])
    estimate = estimate_run(space, request)
    assert (dict(estimate.cases), estimate.left_out) == ({"fees": 1}, {"fees": LeftOutCases(drafts=1, unselected=0)})
    assert cases.copy_dataset(space, "fees", "copied").drafts == 1
    kept = cases.update_case(space, "fees", draft.id, 1, {**draft.body, "reference": "Yes."})
    assert (kept.is_draft, datasets.get_dataset(space, "fees").drafts) == (True, 1)
    assert cases.activate_cases(space, "fees", [ready.id, draft.id]) == 1
    assert dict(estimate_run(space, request).cases) == {"fees": 2}


COMMAND = {"identifier": "command", "params": {"command": "own"}}
IN_A_GROUP = {"identifier": "group", "params": {"checks": [HELLO, COMMAND]}}
REFUSED = "checks that start a program run on the command line only, never in the application"


@ON_SQLITE
@pytest.mark.parametrize("check", [COMMAND, IN_A_GROUP])
def test_the_application_starts_no_program_for_a_check(space: Workspace, check: dict[str, Any]) -> None:
    datasets.create_dataset(space, "fees")
    with pytest.raises(UserError, match=REFUSED):
        cases.add_cases(space, "fees", [{"id": "c", "question": "Q?", "checks": [check]}])
    assert not cases.case_ids(space, "fees")
    with pytest.raises(UserError, match=REFUSED):
        checks.create_check(space, CheckDraft("own", check["identifier"], check["params"]))
    said = tried(space, check, "Hello!")
    assert said.state == "wrong"
    assert "the metric declares no program 'own'; a case cannot define one" in said.reason
    assert "trial" not in said.reason
    definition = {"kind": "checks", "needs": ["answer"], "commands": {"own": {"argv": ["python3", "-c", "1"]}}}
    create_bot(space, "desk", {"kind": "recorded"})
    with pytest.raises(UserError, match=REFUSED):
        create_metric(space, "desk", MetricDraft("asked", definition))
    with pytest.raises(UserError, match=REFUSED):
        create_metric(space, "desk", MetricDraft("called", {"kind": "python", "call": "wave:open"}))
    assert "wave" not in sys.modules


@ON_SQLITE
def test_a_metric_of_a_file_that_starts_programs_runs_on_the_command_line_only(space: Workspace) -> None:
    folder = space.root / "conf" / "metric"
    folder.mkdir(parents=True)
    text = "# @package metric.own\nkind: checks\ndescription: Own.\ncommands: {own: {argv: [python3, own.py]}}\n"
    (folder / "own.yaml").write_text(text, encoding="utf-8")
    create_bot(space, "desk", {"kind": "recorded"})
    datasets.create_dataset(space, "fees")
    cases.add_cases(space, "fees", [{"id": "c", "question": "Q?", "answer": "Hello", "checks": [HELLO]}])
    (folder / "called.yaml").write_text("# @package metric.called\nkind: python\ncall: wave:open\n", encoding="utf-8")
    for name in ("own", "called"):
        with pytest.raises(UserError, match=f"{name} starts a program, which is not allowed here"):
            estimate_run(space, RunRequest("desk", ["fees"], [name]))
    assert "wave" not in sys.modules


@ON_SQLITE
def test_rules_and_groups_are_tried_and_saved_like_other_checks(space: Workspace) -> None:
    greets = {"identifier": "rule", "params": {"op": "starts_with", "value": "Hello"}}
    late = {"identifier": "rule", "params": {"op": "less_than", "field": "latency_s", "value": 2}}
    short = {"identifier": "rule", "params": {"op": "length", "max": 3}}
    both = {"identifier": "group", "params": {"checks": [greets, short]}}
    assert tried(space, greets, "Hello!").state == "passed"
    assert tried(space, late, "Hello!") == CheckTrial("unscored", "the case has no latency_s")
    assert tried(space, both, "Hello!").state == "failed"
    wrong = {"checks": [{"identifier": "rule", "params": {"op": "length"}}]}
    with pytest.raises(UserError, match="length needs `min`, `max` or both"):
        checks.create_check(space, CheckDraft("both", "group", wrong))
    checks.create_check(space, CheckDraft("both", "group", both["params"]))
    assert tried(space, {"identifier": "both"}, "Hello").state == "failed"
    judged = {"identifier": "group", "params": {"checks": [greets, JUDGED[0][0]]}}
    assert tried(space, judged, "Hello!").state == "judge"


def test_the_list_of_types_says_what_each_demands() -> None:
    types = {one.identifier: one for one in checks.list_check_types.__wrapped__(None)}
    assert types["group"].description == "Several checks together: all must pass, or a share of them."
    assert "starts_with" in str(types["rule"].params)


@ON_SQLITE
def test_the_keys_of_checks_have_a_meaning_and_each_an_example(space: Workspace) -> None:
    types = checks.list_check_types(space)
    assert len(types) > 5
    for kind in types:
        assert_explained(dict(kind.params))
