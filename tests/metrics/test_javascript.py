"""The operation that runs JavaScript."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.limited import javascript
from evalflow.metrics.case_checks import RuleParams
from evalflow.metrics.operations import RuleFinding


def finding(answer: object, **keys: Any) -> RuleFinding:
    rule = RuleParams.model_validate({"op": "javascript", **keys}).root
    return rule.apply("answer", {"answer": answer, "vars": {"days": 21}})


@pytest.mark.parametrize(
    ("script", "passes", "reason"),
    [
        ("output.length > 1", True, "the script returns true: output.length > 1"),
        ("output.length / 10", True, "the script returns 0.3: output.length / 10; to pass: above 0"),
        ("NaN", False, "the script returns NaN"),
        ("1 / 0", True, "to pass: above 0"),
        ("({pass: false, score: 0.9, reason: 'too\\nshort'})", False, "too short"),
        ("({pass: true, score: 0})", True, "the script returns true"),
        ("Promise.resolve(output === 'two')", True, "returns true"),
        ("Promise.reject(new Error('no'))", False, "fails on the answer: Error: no"),
        ("new Promise(() => {})", False, "waits for what never comes"),
        ("JSON.parse(output).a", False, "fails on the answer: SyntaxError"),
        ("output.missing.deep", False, "fails on the answer: TypeError"),
        ("(() => { throw 'x'.repeat(9999) })()", False, "fails on the answer: xxx"),
        ("output.match(/t/)", False, "it returns a list"),
        ("undefined", False, "it returns undefined"),
        ("[1].map(function f(x) { return f(x); })", False, "RangeError"),
    ],
)
def test_what_a_script_returns_decides(script: str, passes: bool, reason: str) -> None:
    found = finding("two", script=script)
    assert (found.passed, reason in found.reason) == (passes, True), found
    assert "\n" not in found.reason
    assert len(found.reason) < 300


def test_half_a_character_of_an_answer_reaches_the_script() -> None:
    assert finding("\ud83d", script=r"output === '\ud83d' && output.length === 1").passed


@pytest.mark.parametrize(
    ("answer", "passes"), [('{"days": 21}', True), ('{"days": 20}', False), ("21 days", False), ({"days": 21}, True)]
)
def test_a_script_may_read_the_parsed_json(answer: object, passes: bool) -> None:
    assert finding(answer, script="output.days === context.vars.days", parsed=True).passed is passes


def test_a_key_of_an_answer_is_a_key_and_no_prototype() -> None:
    found = finding('{"__proto__": {"admin": true}}', script="output.admin === undefined", parsed=True)
    assert found.passed, found


def test_an_answer_that_does_not_fit_is_an_error_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "_MEMORY", 2_000_000)
    with pytest.raises(MemoryError):
        javascript.returned("true", "x" * 3_000_000, {})


def test_the_least_number_that_passes_may_be_given() -> None:
    held = [finding(answer, script="output.length / 10", least=0.4).passed for answer in ("abc", "abcd", "abcde")]
    assert held == [False, True, True]


def test_a_script_that_throws_does_not_hold_either_way() -> None:
    assert [finding("x", script="JSON.parse(output).a", inverse=inverse).passed for inverse in (False, True)] == [
        False,
        False,
    ]
    assert finding("x", script="output === 'y'", inverse=True).passed


@pytest.mark.parametrize(
    "name", ["require", "process", "fetch", "setTimeout", "std", "os", "console", "XMLHttpRequest"]
)
def test_a_script_has_nothing_of_the_machine(name: str) -> None:
    assert finding("x", script=f"typeof {name} === 'undefined'").passed


def test_what_takes_too_long_or_too_much_is_an_error_and_no_verdict() -> None:
    with pytest.raises(ValueError, match="the script takes more than 2 s"):
        finding("a", script="(() => { for (;;); })()")
    with pytest.raises(ValueError, match="memory"):
        finding("a", script="'x'.repeat(1e6).split('').map(x => x.repeat(1e6))")


def test_one_script_leaves_nothing_to_the_next() -> None:
    assert finding("a", script="String.prototype.trim = () => 'b'; globalThis.kept = 1; return true;").passed
    assert finding("a", script="output.trim() === 'a' && typeof kept === 'undefined'").passed


@pytest.mark.parametrize("script", ["a &&", "const a == 1; return a", "(" * 100_000])
def test_a_script_that_cannot_be_compiled_is_refused_before_a_run(script: str) -> None:
    with pytest.raises(ValueError, match="cannot be compiled: "):
        finding("a", script=script)
