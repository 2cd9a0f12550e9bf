"""Checks of a case of the types `rule`, `group` and `command`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.calls import program
from evalflow.errors import UserError
from evalflow.metrics.case_checks import asks_judge, filled, starts_program
from evalflow.records import Usage
from tests.metrics.conftest import Bench

GOOD, BAD = {"op": "contains", "value": "Anna"}, {"op": "contains", "value": "Otto"}


def rule(params: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"identifier": "rule", "params": params, **keys}


def group(*checks: dict[str, Any], **params: Any) -> dict[str, Any]:
    return {"identifier": "group", "params": {"checks": list(checks), **params}}


def bound(bench: Any, *checks: dict[str, Any], **keys: Any) -> list[Any]:
    return list(bench.build("checks", {"kind": "checks", **keys}).bind(bench.case(checks=checks)))


def score(bench: Any, *checks: dict[str, Any], judge: Any = None, answer: Any = None, **keys: Any) -> Any:
    (metric,) = bound(bench, *checks, **keys)
    return bench.score(metric, judge, case=bench.case(checks=checks), answer=answer)


def refused(bench: Any, *checks: dict[str, Any], **keys: Any) -> list[tuple[str, str]]:
    with pytest.raises(UserError) as error:
        bound(bench, *checks, **keys)
    return [(problem.what.removeprefix("case '1', "), problem.hint) for problem in error.value.problems]


# --- rules ------------------------------------------------------------------------------------------------------------


def test_a_rule_is_about_the_answer_unless_it_names_another_field(bench: Any) -> None:
    assert score(bench, rule(GOOD)).score == 1.0
    calls = [{"name": "search", "arguments": {}}]
    looked_up = rule({"field": "actual", "op": "jsonpath", "path": "$[*].name", "equals": "search"})
    assert score(bench, looked_up, answer=bench.answer(actual=calls)).score == 1.0
    brand = rule({"field": "vars.brand", "op": "equals", "value": "Kiosk"})
    (metric,) = bound(bench, brand)
    assert bench.score(metric, case=bench.case(vars={"brand": "Kiosk"})).score == 1.0


def test_time_and_cost_of_an_answer_are_those_of_its_own_calls(bench: Any) -> None:
    fast = rule({"field": "latency_s", "op": "less_than_equals", "value": 2})
    cheap = rule({"field": "cost_usd", "op": "less_than_equals", "value": 0.01})
    paid = bench.answer(requests=1, latency_s=1.5, cost_usd=0.02, usage=Usage(1, 1))
    again = bench.answer(cached=True, latency_s=1.5, cost_usd=0.0, saved_usd=0.02)
    for answer in (paid, again):
        assert score(bench, fast, answer=answer).score == 1.0
        assert score(bench, cheap, answer=answer).reason == "the cost_usd 0.02 is not at most 0.01"
    unknown = bench.answer(requests=1, latency_s=1.5, cost_usd=None)
    assert score(bench, cheap, answer=unknown).reason == "the case has no cost_usd"


def test_time_and_cost_of_a_recorded_answer_are_columns(bench: Any) -> None:
    check = rule({"field": "latency_s", "op": "less_than_equals", "value": 2})
    (metric,) = bound(bench, check)
    case = bench.case(answer="So.", vars={"latency_s": 3.5})
    recorded = bench.answer(answer="So.", actual=None)
    assert bench.score(metric, case=case, answer=recorded).reason == "the latency_s 3.5 is not at most 2"
    new = bench.answer(answer="So.", actual=None, requests=1, latency_s=1.0)
    assert bench.score(metric, case=case, answer=new).score == 1.0


def test_a_missing_field_is_skipped_and_a_failed_answer_an_error(bench: Any) -> None:
    check = rule({"op": "any", "rules": [GOOD, {"field": "latency_s", "op": "less_than", "value": 2}]})
    outcome = score(bench, check)
    assert (outcome.status, outcome.score, outcome.reason) == ("skipped", None, "the case has no latency_s")
    outcome = score(bench, check, answer=bench.answer(answer=None, status="error", error_type="timeout", error="late"))
    assert (outcome.status, outcome.error_type) == ("error", "target: timeout")


@pytest.mark.parametrize(
    ("params", "what", "hint"),
    [
        ({"op": "contain", "value": "x"}, "rule: params: unknown 'contain'", "did you mean 'contains'?"),
        ({"value": "x"}, "rule: params.op is required", ""),
        ({"op": "contains", "vlaue": "x"}, "rule: unknown key params.vlaue", "did you mean 'value'?"),
        (
            {"op": "not", "rule": {"op": "regex", "pattern": "(["}},
            "rule: params.rule: '([' is not a regular expression",
            "",
        ),
        ({"field": "anwser", **GOOD}, "rule: params: field 'anwser' is not a case field; did you mean 'answer'?", ""),
        ({"op": "equals", "against": "refrence"}, "rule: params: against 'refrence' is not a case field", ""),
        ({"op": "any", "rules": [{}]}, "rule: params.rules.0.op is required", ""),
    ],
)
def test_what_is_no_rule_is_said_before_the_run(bench: Any, params: dict[str, Any], what: str, hint: str) -> None:
    (found, said), *_ = refused(bench, rule(params))
    assert found.startswith(f"checks[0]: {what}")
    assert said == hint


# --- groups -----------------------------------------------------------------------------------------------------------


METRIC = Bench().build("checks", {"kind": "checks"})


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), min_size=1, max_size=6), st.floats(0, 1))
def test_a_group_is_the_weighted_share_of_its_checks(checks: list[tuple[bool, float]], limit: float) -> None:
    bench = Bench()
    members = [rule(GOOD if holds else BAD, weight=weight) for holds, weight in checks]
    total = sum(weight for _, weight in checks)
    case = bench.case(checks=(group(*members, threshold=limit), {**group(*members), "name": "share"}))
    if not total:
        with pytest.raises(UserError, match="no check of the group has a weight above 0"):
            METRIC.bind(case)
        return
    share = sum(weight for holds, weight in checks if holds) / total
    decided, open_one = (bench.score(metric, case=case) for metric in METRIC.bind(case))
    assert open_one.score == open_one.value == decided.value == pytest.approx(share)
    assert open_one.score is not None
    assert 0 <= open_one.score <= 1
    assert decided.score == float(share >= limit - 1e-9)


def test_a_group_says_what_failed_and_keeps_every_check(bench: Any) -> None:
    checks = [rule(GOOD, weight=3), rule(BAD, name="names_otto"), rule(BAD, weight=0), rule(BAD, enabled=False)]
    outcome = score(bench, group(*checks, threshold=0.75))
    assert (outcome.score, outcome.value) == (1.0, 0.75)
    assert outcome.reason == (
        '0.75 of the weight of 2 checks, required: 0.75; names_otto: the answer does not contain "Otto"'
    )
    assert [(step["id"], step["passed"]) for step in outcome.steps] == [
        ("rule", True),
        ("names_otto", False),
        ("rule", False),
    ]


def test_a_check_without_a_score_leaves_its_group_without_one(bench: Any) -> None:
    late = rule({"field": "latency_s", "op": "less_than", "value": 2})
    outcome = score(bench, group(rule(GOOD), late, threshold=0.1))
    assert (outcome.status, outcome.score) == ("skipped", None)
    assert outcome.reason == "rule is skipped: the case has no latency_s"
    assert score(bench, group(rule(GOOD), {**late, "weight": 0})).score == 1.0
    broken = rule({"op": "json_schema", "schema": {}})
    outcome = score(bench, group(late, broken), answer=bench.answer(answer='{"a": 1e999}'))
    assert (outcome.status, outcome.error_type) == ("error", "data"), "an error comes before what is missing"
    assert outcome.error.startswith("rule: a number in it is too large")


def test_a_group_may_ask_a_judge_and_is_then_called_so(bench: Any) -> None:
    checks = [rule(GOOD), {"identifier": "conformity", "params": {"rules": ["Be brief."]}}]
    (metric,) = bound(bench, group(*checks))
    assert (metric.name, metric.asks, metric.embeds) == ("judged_group", True, False)
    judge = bench.judge({"verdict": {"reason": "It is long.", "passed": False}})
    outcome = bench.score(metric, judge, case=bench.case(checks=(group(*checks),)))
    assert (outcome.score, len(judge.asked)) == (0.5, 1)
    assert "conformity: It is long." in outcome.reason
    assert len(metric.preview(bench.case(), bench.answer())) == 1
    failing = bench.judge({"verdict": bench.error("timeout", "too late")})
    outcome = bench.score(metric, failing)
    assert (outcome.status, outcome.error) == ("error", "conformity: too late")


def test_what_may_call_a_judge_or_the_embedder_is_known_without_binding(bench: Any) -> None:
    judged = {"identifier": "conformity", "params": {"rules": ["Be brief."]}}
    like = {"identifier": "semantic_similarity", "params": {"reference": "a"}}
    custom = {
        "brief": {"type": "conformity", "params": {"rules": ["Be brief."]}},
        "plain": {"type": "rule", "params": GOOD},
        "both": {"type": "group", "params": {"checks": [rule(GOOD), like]}},
        "outer": {"type": "group", "params": {"checks": [{"identifier": "plain", "params": {}}]}},
    }
    metric = bench.build("checks", {"kind": "checks", "custom": custom})
    for calling in (judged, like, group(rule(GOOD), judged), {"identifier": "brief"}, {"identifier": "both"}):
        assert metric.may_call(bench.case(checks=(rule(BAD), calling)))
    assert metric.may_call(bench.case(checks=({"identifier": "outer"},)))  # not looked into
    for quiet in (rule(GOOD), group(rule(GOOD)), {"identifier": "plain"}):
        assert not metric.may_call(bench.case(checks=(quiet,)))
    assert not metric.may_call(bench.case())
    always = {"kind": "checks", "custom": {"brief": {**custom["brief"], "cases": "every"}}}
    assert bench.build("checks", always).may_call(bench.case())


def test_a_case_is_bound_once_for_all_who_look_at_it(bench: Any) -> None:
    metric = bench.build("checks", {"kind": "checks"})
    case, other = bench.case(checks=(rule(GOOD),)), bench.case(checks=(rule(GOOD), rule(BAD)))
    assert metric.bind(case) is metric.bind(case)
    assert [len(metric.bind(one)) for one in (other, case)] == [2, 1]


def test_checks_of_one_name_are_one_score(bench: Any) -> None:
    checks = [rule(GOOD, name="form", weight=3), rule(BAD, name="form"), rule(BAD), rule(GOOD, name="alone", weight=2)]
    found = bound(bench, *checks)
    assert [metric.name for metric in found] == ["form", "rule", "alone"]
    assert [bench.score(metric).score for metric in found] == [0.75, 0.0, 1.0]
    (metric,) = bound(bench, rule(GOOD, name="form"), rule(BAD, name="form", enabled=False))
    assert bench.score(metric).score == 1.0
    (metric,) = bound(bench, rule(GOOD, name="form", enabled=False), rule(BAD, name="form", enabled=False))
    assert bench.score(metric).reason == "the check is disabled"


def test_groups_hold_groups_and_your_own_checks(bench: Any) -> None:
    custom = {"names_anna": {"type": "rule", "params": GOOD}}
    inner = group(rule(BAD), {"identifier": "names_anna"})
    outcome = score(bench, group(inner, rule(GOOD)), custom=custom)
    assert outcome.score == 0.75
    off = group({"identifier": "names_anna", "enabled": False})
    assert score(bench, off, custom=custom).reason == "the check is disabled"


@pytest.mark.parametrize(
    ("check", "what"),
    [
        (group(), "checks[0]: group: params.checks: list should have at least 1 item"),
        (
            group(rule(GOOD, weight=-1)),
            "checks[0]: group: params.checks.0.weight: must be greater than or equal",
        ),
        (group(rule(GOOD, weight=float("nan"))), "checks[0]: group: params.checks.0.weight: must be a finite"),
        (
            group(rule(GOOD), threshold=1.5),
            "checks[0]: group: params.threshold: must be less than or equal to 1",
        ),
        (group(rule({"op": "x"})), "checks[0].params.checks[0]: rule: params: unknown 'x'"),
        (group(group(rule({"op": "x"}))), "checks[0].params.checks[0].params.checks[0]: rule: params: unknown 'x'"),
        (group({"identifier": "gone"}), "checks[0].params.checks[0]: there is no check 'gone'"),
        (rule(GOOD, weight=2), "checks[0]: a weight only counts among checks of one name or group"),
        (rule(GOOD, name="a", weight="2"), "checks[0]: the weight '2' is not a number of at least 0"),
        (rule(GOOD, name="a", weight=float("nan")), "checks[0]: the weight nan is not a number of at least 0"),
        (rule(GOOD, name="correctness"), "checks[0]: 'correctness' is a built-in check; choose another identifier"),
        (rule(GOOD, name="two words"), "checks[0]: the identifier 'two words' must have no spaces and no #"),
        (rule(GOOD, name=3), "checks[0]: the name 3 is not text"),
    ],
)
def test_what_is_no_group_and_no_name(bench: Any, check: dict[str, Any], what: str) -> None:
    assert refused(bench, check)[0][0].startswith(what)


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture(name="run")
def _run(bench: Any, tmp_path: Path) -> Any:
    def run(source: str, *, timeout_s: float = 60, check: dict[str, Any] | None = None, answer: Any = None) -> Any:
        script = tmp_path / "judge.py"
        script.write_text(f"import json, os, sys, time\n{source}\n", encoding="utf-8")
        commands = {"own": {"argv": [sys.executable, str(script)], "timeout_s": timeout_s}}
        one = check or {"identifier": "command", "params": {"command": "own", "options": {"limit": 3}}}
        return score(bench, one, commands=commands, answer=answer)

    return run


def test_a_program_gets_case_and_answer_and_gives_the_score(run: Any, bench: Any) -> None:
    source = """given = json.load(sys.stdin)
print(json.dumps({"score": 0.25, "reason": json.dumps(given)}))"""
    outcome = run(source, answer=bench.answer(latency_s=1.5, metadata={"a": 1}))
    assert (outcome.status, outcome.score, outcome.value) == ("scored", 0.25, 0.25)
    given = json.loads(outcome.reason)
    assert list(given) == ["case", "answer", "options"]
    assert given["case"]["reference"] == "Anna wrote it in 1999."
    assert given["case"]["question"] == "Who wrote it, and when?"
    assert given["answer"] == {
        "answer": "Anna, in 1998.",
        "full_answer": "Anna, in 1998.",
        "extracted": None,
        "actual": True,
        "thoughts": None,
        "finish_reason": None,
        "contexts": [{"text": "Anna wrote it in 1999.", "title": "The book", "path": None}],
        "metadata": {"a": 1},
        "latency_s": 1.5,
        "cost_usd": None,
        "target": "t",
    }
    assert given["options"] == {"limit": 3}


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        ("""print('{"score": true}')""", "scored", "the command gave 1"),
        ("""print('{"score": null, "reason": "no idea"}')""", "undefined", "no idea"),
        ("""print('{"score": null}')""", "undefined", "the command returned neither a score nor a reason"),
        ("""print('{"score": NaN}')""", "malformed", 'own: its output is not JSON: "{"score": NaN}"'),
        ("""print('{"score": 1.5}')""", "malformed", "own: its score is a number (1.5); expected a number from 0 to 1"),
        ("""print('{"score": "1"}')""", "malformed", "own: its score is text; expected a number from 0 to 1"),
        ("""print('{"score": 1, "reason": 3}')""", "malformed", "own: its reason is a number (3); expected text"),
        ("""print('{"passed": true}')""", "malformed", "own: its reply has no score"),
        ("print(1)", "malformed", "own: its reply has no score"),
        ("pass", "malformed", "own: it wrote nothing"),
        ("sys.exit('no words')", "exit_code", "own: the command ended with exit code 1; stderr: no words"),
        ("os.kill(os.getpid(), 9)", "exit_code", "own: the command was killed by SIGKILL"),
    ],
)
def test_what_a_program_may_say(run: Any, source: str, status: str, said: str) -> None:
    outcome = run(source)
    assert (outcome.error_type or outcome.status) == status
    assert (outcome.score is None) == (status != "scored")
    assert (outcome.error or outcome.reason).startswith(said)


def test_a_program_without_end_is_killed_and_too_much_output_cut_off(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run("print('waiting', file=sys.stderr, flush=True); time.sleep(600)", timeout_s=0.5)
    assert (outcome.error_type, outcome.error) == (
        "timeout",
        "own: the command returned no score within 0.5 s; stderr: waiting",
    )
    monkeypatch.setattr(program, "MAX_OUTPUT", 1000)
    outcome = run("sys.stdout.write('x' * 5000)")
    assert (outcome.error_type, outcome.error) == ("too_large", "own: the command wrote more than 1,000 bytes")


def test_no_program_is_started_without_an_answer(run: Any, bench: Any) -> None:
    silent = bench.answer(answer=None, actual=None, status="absent")
    assert run("sys.exit(1)", answer=silent).reason == "the case has no answer"
    failed = bench.answer(answer=None, actual=None, status="error", error_type="timeout")
    assert run("sys.exit(1)", answer=failed).error_type == "target: timeout"
    assert run("print('{\"score\": 1}')", answer=bench.answer(answer=None, actual=[])).score == 1.0


def test_a_case_names_a_program_and_never_brings_one(bench: Any) -> None:
    check = {"identifier": "command", "params": {"command": "own"}}
    (problem,) = refused(bench, check)
    assert problem == (
        "checks[0]: the metric declares no program 'own'; a case cannot define one, only the command line can",
        "if you trust the program: metric.checks.commands={own:{argv:[PROGRAM,ARGUMENT]}}",
    )
    commands = {"owl": {"argv": [sys.executable]}}
    assert refused(bench, group(check), commands=commands)[0][1] == "did you mean 'owl'?"
    brought = {"identifier": "command", "params": {"command": "own", "argv": ["sh", "-c", "true"]}}
    assert refused(bench, brought, commands=commands)[0][0] == "checks[0]: command: unknown key params.argv"
    with pytest.raises(UserError, match="there is no program 'no-such-program'"):
        bench.build("checks", {"kind": "checks", "commands": {"own": {"argv": ["no-such-program"]}}})


def test_without_its_programs_a_metric_starts_none(bench: Any) -> None:
    metric = bench.build("checks", {"kind": "checks", "commands": {"own": {"argv": [sys.executable, "-c", "1"]}}})
    assert metric.config.programs == [[sys.executable, "-c", "1"]]
    disarmed = type(metric).build("checks", metric.config.without_programs(), bench.prompts)
    check = {"identifier": "command", "params": {"command": "own"}}
    (one,) = disarmed.bind(bench.case(checks=(check,)))
    assert bench.score(one).reason == "its program is not started here"


def test_what_starts_a_program_is_found_in_any_shape() -> None:
    command = {"identifier": "command", "params": {"command": "own"}}
    assert starts_program("command", None)
    assert starts_program("group", {"checks": [rule(GOOD), group(command)]})
    for params in (None, [], {"checks": "command"}, {"checks": ["command", None, {"identifier": 3}]}, {}):
        assert not starts_program("group", params)
    assert not starts_program("rule", {"op": "equals", "value": "command"})
    assert asks_judge("group", {"checks": [group({"identifier": "conformity"})]})
    assert not asks_judge("group", {"checks": [command]})


# --- rules of conformity ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("Say {{ shop }}.", "Say Bookworm."),
        ("Keep {% raw %}{{shop}}{% endraw %} and {%- raw -%}{{a b}}{%- endraw -%}", "Keep {{shop}} and {{a b}}"),
        ("Keep {{ '{{shop}}' }} and {{\"{{x}}\"}} of {{shop}}", "Keep {{shop}} and {{x}} of Bookworm"),
        ("Open with {{ '{{' }} or {{ \"it's {{\" }}", "Open with {{ or it's {{"),
        (r"Keep \{{shop}}.", "Keep {{shop}}."),
    ],
)
def test_braces_can_stand_for_themselves(bench: Bench, rule: str, text: str) -> None:
    assert filled(rule, bench.case(vars={"shop": "Bookworm"})) == text


def test_a_rule_that_cannot_be_filled_names_the_escape(bench: Bench) -> None:
    ((what, _),) = refused(bench, {"identifier": "conformity", "params": {"rules": ["Show {{price}}."]}})
    assert "no value for {{price}} (for literal braces: {% raw %}{{price}}{% endraw %})" in what


def test_a_raw_block_without_an_end_is_refused(bench: Bench) -> None:
    ((what, _),) = refused(bench, {"identifier": "conformity", "params": {"rules": ["Show {% raw %}{{price}}."]}})
    assert "{% raw %} has no {% endraw %}" in what


def test_a_blank_context_means_that_nothing_was_retrieved(bench: Any) -> None:
    judge = bench.judge({"verdict": {"reason": "Nothing supports it.", "passed": False}})
    outcome = score(bench, {"identifier": "groundedness", "params": {"context": " "}}, judge=judge)
    assert (outcome.status, outcome.score) == ("scored", 0.0)
    assert "Nothing was retrieved.\n" in judge.asked[0].text
    assert score(bench, {"identifier": "groundedness", "params": {}}, judge=judge).status == "skipped"
