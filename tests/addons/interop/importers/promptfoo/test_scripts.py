"""JavaScript assertions, whose scripts run as they are."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.addons.interop.importers.promptfoo.scripts import rule_of, rule_of_file, rule_of_pattern
from evalflow.metrics.case_checks import RuleParams
from evalflow.metrics.operations import RuleFinding

VARIABLES = {"word": "data Café", "list": ["yes", "no", "Straße"], "many": 3}


def finding(rule: dict[str, Any], answer: str) -> RuleFinding:
    return RuleParams.model_validate(rule).root.apply("answer", {"answer": answer, "vars": VARIABLES})


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("JSON.parse(output).a === 'x'", {}),
        ("output.kind === 'x'", {"parsed": True}),
        ("const {kind} = output; return kind === 'x'", {"parsed": True}),
        ("'kind' in output && output['kind'] === 1", {"parsed": True}),
        ("output.trim().length < 100", {}),
        ("output?.includes('x') && output[0] === 'x'", {}),
    ],
)
def test_a_script_that_reads_an_object_gets_the_json(script: str, rule: dict[str, Any]) -> None:
    assert rule_of(script) == {"op": "javascript", "script": script, **rule}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("output.includes('a')\n  && output.includes('b')", "it returns nothing"),
        ("a &&", "cannot be compiled: SyntaxError"),
        ("(" * 100_000 + "output" + ")" * 100_000, "cannot be compiled"),
        ("require('fs').existsSync(output)", "it needs require"),
        ("context.prompt.length > 3", "it needs context.prompt"),
        ("process.env.KEY === output", "it needs process"),
        ("import('fs').then(() => true)", "it needs import"),
        ("", "no script"),
    ],
)
def test_what_cannot_run_here_is_refused_with_the_reason(script: str, reason: str) -> None:
    with pytest.raises(Untranslatable, match=reason):
        rule_of(script)


def test_a_file_that_exports_a_function_is_run() -> None:
    program = "const few = 4;\n// an export\nmodule.exports = (output, context) => output.length < few;\n"
    rule = rule_of_file(program, "", inverse=False, threshold=None)
    assert (finding(rule, "abc").passed, finding(rule, "abcd").passed) == (True, False)
    named = rule_of_file("exports.long = output => ({pass: output.length > 4});", "long", inverse=True, threshold=None)
    assert (finding(named, "abc").passed, finding(named, "abcde").passed) == (True, False)


@pytest.mark.parametrize(
    ("pattern", "answer", "matches"),
    [
        (r"^\d+$", "7", True),
        (r"^\d+$", "7\n", False),
        (r"^\d+$", "\u0667", False),
        ("^.{4}$", "🙂🙂", True),
        ("(?<year>[0-9]{4})-\\k<year>", "2024-2024", True),
        ('a\\/"b', 'a/"b', True),
    ],
)
def test_a_pattern_is_javascripts(pattern: str, answer: str, matches: bool) -> None:
    assert finding(rule_of_pattern(pattern), answer).passed is matches


def test_a_pattern_that_javascript_has_not_fails_every_answer_and_says_so() -> None:
    found = finding(rule_of_pattern("(?P<x>a)"), "a")
    assert (found.passed, "SyntaxError" in found.reason) == (False, True)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("script", "passes", "fails", "throws"),
    [
        ("!output.match(/sk-[a-z]{5,}/)", ["sk-1"], ["sk-abcdef"], []),
        ("/überfüllt/i.test(output)", ["ÜBERFÜLLT"], ["voll"], []),
        ("output.toLowerCase().includes('straße')", ["Die Straße"], ["STRASSE"], []),
        ("output.trim() === 'ja'", [" ja\ufeff"], ["\x85ja"], []),
        ("output.trim().split(/\\s+/).length <= 2", ["a b"], ["a b c"], []),
        ("output.split(/[.!?]+/).filter(s => s.trim()).length === 1", ["One."], ["One. Two."], []),
        ("(output.match(/a/g) || []).length < 3", ["aa"], ["aaa"], []),
        ("output.match(/a/g).length < 2", ["a"], ["aa"], ["b"]),
        ("['good', 'Größe'].some(w => output.includes(w))", ["Größe"], ["gut"], []),
        ("context.vars.list.includes(output)", ["Straße"], ["maybe"], []),
        ("new RegExp(`\\\\b${context.vars.word}`, 'i').test(output)", ["DATA CAFÉ"], ["data"], []),
        ("JSON.parse(output).a?.b === 2 ? 1 : 0", ['{"a": {"b": 2}}'], ["{}"], ["a", "null"]),
        ("output.tags.every(t => t.score >= 1)", ['{"tags": [{"score": 1}]}'], ['{"tags": [{}]}'], ["a", "{}"]),
        ("(typeof output === 'string' ? JSON.parse(output) : output).n === 3", ['{"n": 3}'], ['{"n": 4}'], ["n"]),
        ("const lower = output.toLowerCase(); return lower.includes('ж');", ["Ж"], ["x"], []),
        ("const words = ['ja']; words.some(w => output.includes(w))", ["ja"], ["nein"], []),
        ("try {\n  return JSON.parse(output).n === 3;\n} catch (e) {\n  return false;\n}", ['{"n": 3}'], ["n"], []),
        (
            "const hits = ['a', 'b'].filter(w => output.includes(w));\n"
            "return {pass: !hits.length, score: 1 - hits.length / 2, reason: hits.join()};",
            ["c"],
            ["ab"],
            [],
        ),
    ],
)
def test_scripts_as_people_write_them(
    script: str, passes: list[str], fails: list[str], throws: list[str], inverse: bool
) -> None:
    rule = rule_of(script, inverse=inverse)
    held = {answer: finding(rule, answer).passed for answer in [*passes, *fails, *throws]}
    assert held == dict.fromkeys(passes, not inverse) | dict.fromkeys(fails, inverse) | dict.fromkeys(throws, False)
