"""JavaScript assertions that rules can say."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from evalflow.addons.interop.importers.javascript.regex import BLANK_SET
from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.addons.interop.importers.promptfoo.scripts import rule_of
from evalflow.metrics.case_checks import RuleParams
from tests.addons.interop.importers.conftest import Node

VARIABLES = {"word": "data Café", "list": ["yes", "no", "Straße"], "many": 3}


def passing(rule: dict[str, Any]) -> set[str]:
    """The answers that a rule holds for."""
    operation = RuleParams.model_validate(rule).root
    return {answer for answer in ANSWERS if operation.apply("answer", {"answer": answer}).passed}


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("JSON.parse(output).a === 'x'", {"op": "jsonpath", "path": "$.a", "equals": "x"}),
        ("return JSON.parse(output).a[0].b === 2;", {"op": "jsonpath", "path": "$.a[0].b", "equals": 2}),
        ('output.includes("it\'s")', {"op": "contains", "value": "it's", "normalize": None}),
        ("output.length < 100", {"op": "length", "unit": "utf16", "max": 99}),
        ("output.length >= 3 ? 1 : 0", {"op": "length", "unit": "utf16", "min": 3}),
        (
            "output.trim().toLowerCase() === 'yes'",
            {"op": "equals", "value": "yes", "normalize": None, "trim": True, "letter_case": "lower"},
        ),
        (
            "!output.includes('a') && /^b/i.test(output)",
            {
                "op": "all",
                "rules": [
                    {"op": "not", "rule": {"op": "contains", "value": "a", "normalize": None}},
                    {"op": "regex", "pattern": "(?a)^b", "normalize": None, "case_sensitive": False},
                ],
            },
        ),
        (
            "output.split(/\\s+/).length <= 40",
            {"op": "count", "pattern": f"(?a)[{BLANK_SET}]+", "normalize": None, "max": 39},
        ),
        (
            "(output.match(/why/g) || []).length < 3",
            {"op": "count", "pattern": "(?a)why", "normalize": None, "max": 2},
        ),
        (
            "const data = JSON.parse(output);\n// the reason\nreturn data.a?.b === context.vars.word;",
            {"op": "jsonpath", "path": "$.a.b", "equals": "data Café"},
        ),
        (
            "(typeof output === 'string' ? JSON.parse(output) : output).n === context.vars['word'].toLowerCase()",
            {"op": "jsonpath", "path": "$.n", "equals": "data café"},
        ),
        ("output.kind === 'x'", {"op": "jsonpath", "path": "$.kind", "equals": "x"}),
        (
            "['a', 'b'].includes(output.n)",
            {"op": "any", "rules": [{"op": "jsonpath", "path": "$.n", "equals": one} for one in ("a", "b")]},
        ),
        ("context.vars.many === 3 || output === 'x'", {"op": "length", "min": 0}),
    ],
)
def test_a_condition_is_a_rule(script: str, rule: dict[str, Any]) -> None:
    assert rule_of(script, VARIABLES) == rule


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("output.length < 3 ? 1 : 0.5", "the grade 0.5"),
        ("({pass: output.length < 3, score: 0.5, reason: ''})", "the grade 0.5"),
        ("({pass: output.length < 3, score: 1, reason: ''})", "differs from its pass"),
        ("output.length", "neither true or false"),
        ("output.match(/x/)", "neither true or false"),
        ("output.includes('a')\n  && output.includes('b')", "it returns nothing"),
        ("output.toLowerCase().includes('Yes')", "it fails every answer"),
        ("output.length < 0", "it fails every answer"),
        ("output.length >= 0", "it passes every answer"),
        ("a && b || c", "runs JavaScript"),
        ("1 / (output.length + 1)", "runs JavaScript"),
        ("output.includes(context.vars.list)", "runs JavaScript"),
        ("context.prompt.length > 3", "runs JavaScript"),
        ("output === 1", "runs JavaScript"),
        ("output = 'x'", "runs JavaScript"),
        ("for (const w of ['a']) {}\nreturn true", "runs JavaScript"),
        ("JSON.parse(output).rows.some(row => row.name === 'x')", "runs JavaScript"),  # an item before it may throw
        ("/x/y.test(output)", "flag y"),
        ("output.includes('\\ud83d')", "half a character"),
        ("(" * 500 + "output" + ")" * 500, "nested too deeply"),
        ("output.length > 010", "octal"),
        ("", "runs JavaScript"),
    ],
)
def test_what_rules_cannot_say_is_refused_with_the_reason(script: str, reason: str) -> None:
    with pytest.raises(Untranslatable, match=reason):
        rule_of(script, VARIABLES)


def test_a_threshold_is_for_numbers() -> None:
    assert rule_of("output.includes('a') ? 1 : 0", threshold=0.5) == rule_of("output.includes('a')")
    with pytest.raises(Untranslatable, match="threshold"):
        rule_of("output.includes('a') ? 1 : 0", threshold=0)


SCRIPTS = r"""
!output.match(/sorry/)
output.match(/sorry/i) !== null
output.match(/x/) ? 1 : 0
Boolean(output.match(/ж/i))
/жук/i.test(output) && !/пчела/i.test(output)
/überfüllt/i.test(output)
/^.{5}$/.test(output)
/\bcafé\b/iu.test(output)
!/api[_-]?key/i.test(output)
output.toLowerCase().includes('straße')
output.toUpperCase().includes('STRASSE')
output.toLowerCase() === 'σοφος'
output.trim().toLowerCase() === "οδός"
output.toLowerCase().startsWith('i̇')
output.trim() === 'ja'
output.trim().startsWith('[') && output.trim().endsWith(']')
output.trim().includes(' b')
output.trim().length > 2
output.length === 4
output.length > 3 && output.length <= 12
output.length <= 2.5
2 < output.length
output[0] === 'j'
output.charAt(0) === '['
output.slice(0, 2) === '🙂'
output.slice(-1) === '.'
output.at(-1) === '.'
output.indexOf('a') !== -1 && output.indexOf('a') < 0 === false
output.indexOf('a') === 0
output.search(/я/i) > -1
output.split(/\s+/).length <= 3
output.trim().split(/\s+/).length >= 2
output.trim().split(' ').length === 3
output.split('\n').length > 1
output.split(/[.!?]+/).filter(s => s.trim()).length <= 2
output.split(/[.!?]/).filter(Boolean).length === 2
output.split('\n').filter(line => line.trim().length > 0).length === 2
output.split('\n').filter(line => line.trim().startsWith('- ')).length >= 1
(output.match(/[a-zß]+/gi) || []).length >= 2
(output.match(/./g) || []).length === 4
(output.match(/./gu) ?? []).length === 2
output.match(/a/g)?.length > 1
output.match(/a/g).length < 2
['ja', 'nein'].includes(output.trim().toLowerCase())
['good', 'Größe'].some(w => output.includes(w))
['größe', 'good'].some(word => output.toLowerCase().includes(word.toLowerCase()))
[/a/, /B/i].every(pattern => pattern.test(output))
['a', 'b', 'c'].filter(w => output.includes(w)).length >= 2
!['error', 'fehler'].some(w => output.toLowerCase().includes(w))
context.vars.list.includes(output)
context.vars.list.some(word => output.includes(word))
context.vars.many === 3 && output.length > 2
new RegExp(`\\b${context.vars.word}\\b`, 'i').test(output)
new RegExp('größe', 'iu').test(output)
typeof output === 'string' && output.length > 0
output && output.includes('a')
!!output
output.includes('a') === true
output.includes('a') ? output.length > 3 : output.length > 5
const lower = output.toLowerCase(); return lower.includes('a') || lower.includes('ж');
const words = ['ja', 'nein']; words.some(w => output.includes(w))
JSON.parse(output).a === 'x' || output.length > 40
JSON.parse(output).a !== 'x'
JSON.parse(output).a == 0
JSON.parse(output).a == null
JSON.parse(output).a > 0.5
JSON.parse(output).n.b === 2
JSON.parse(output)?.n?.b !== 2
!(JSON.parse(output).a === 'x' && JSON.parse(output).n.b === 2)
JSON.parse(output).a.toLowerCase().includes('x')
JSON.parse(output).a?.includes('x')
!JSON.parse(output).a?.includes('x')
JSON.parse(output).tags.length > 1
JSON.parse(output).tags.length === 0
JSON.parse(output).tags.includes('x')
Array.isArray(JSON.parse(output).tags) && JSON.parse(output).tags.every(t => t.score >= 1)
!JSON.parse(output).tags.some(t => t.name.includes('k'))
JSON.parse(output).tags.some(t => t === 'x')
typeof JSON.parse(output).a === 'number'
typeof JSON.parse(output).a !== 'string'
'a' in JSON.parse(output)
JSON.parse(output).hasOwnProperty('a')
const {a, n} = JSON.parse(output); return a === 'x' && n.b === 2;
const parsed = JSON.parse(output); return output.length > 8;
""".strip().splitlines()
SCRIPTS += [
    "try {\n  const d = JSON.parse(output);\n  return d.n.b === 2;\n} catch (e) {\n  return false;\n}",
    "try {\n  JSON.parse(output);\n} catch { return output.length < 3; }\nreturn output.length > 5;",
    "if (output.length > 9) return false;\nreturn output.includes('a');",
    "if (output.includes('a')) {\n  return {pass: true, score: 1, reason: `has ${output.length}`};\n}\n"
    "return {pass: false, score: 0, reason: 'none: ' + output};",
    "const bad = ['a', 'ж'];\nconst hits = bad.filter(b => output.toLowerCase().includes(b));\n"
    "return {pass: hits.length === 0, score: hits.length === 0 ? 1 : 0, reason: hits.join(', ')};",
]
ANSWERS = [
    "",
    "a",
    "x",
    "ja",
    " Ja\n",
    "ja\ufeff",
    "\x85ja",
    "nein",
    "Sorry, a.",
    "a b",
    " a b ",
    "ab cab",
    "a.b! C?",
    "a\nb",
    "- a\n  - b\n",
    "a\n\nb\n",
    "Жук и пчела",
    "жук",
    "ПЧЕЛА",
    "ÜBERFÜLLT",
    "überfüllt",
    "Straße",
    "STRASSE",
    "STRAẞE",
    "Größe",
    "GRÖSSE",
    "Das Café.",
    "CAFÉ",
    "cafés",
    "ΣΟΦΟΣ",
    "σοφος",
    "ΟΔΌΣ",
    "İzmir",
    "ılık",
    "ſ",
    "\u212a",
    "🙂",
    "🙂🙂",
    "🙂ok",
    "👩\u200d👧",
    "e\u0301é",
    "文字 文",
    "api_key",
    "[1]",
    "[",
    "{",
    "{}",
    "null",
    "7",
    '"x"',
    '{"a": "x"}',
    '{"a": "X"}',
    '{"a": 0}',
    '{"a": ""}',
    '{"a": false}',
    '{"a": null}',
    '{"a": true}',
    '{"a": 1}',
    '{"a": "1"}',
    '{"a": [1, 2]}',
    '{"a": {"x": 1}}',
    '{"n": {"b": 2}}',
    '{"n": null}',
    '{"n": 3}',
    '{"a": "x", "n": {"b": 2}}',
    '{"tags": []}',
    '{"tags": ["x"]}',
    '{"tags": ["x", "y"]}',
    '{"tags": "xyz"}',
    '{"tags": null}',
    '{"tags": [{"name": "x", "score": 2}]}',
    '{"tags": [{"name": "k", "score": 0}]}',
    '{"tags": [{"name": "x", "score": 1}, null]}',
    '{"tags": [7]}',
    '{"tags": {"p": "x"}}',
    "data café",
    "Data Café!",
    "yes",
    "a\u2028b",
    "aaa",
    "good",
    "error a",
]


def test_scripts_pass_what_they_pass_in_node(node: Node) -> None:
    """The functions are made as promptfoo makes them; what throws, or returns something else, fails either way."""
    found = node(
        """([scripts, answers, vars]) => scripts.map(script => {
            const body = script.includes("\\n") || script.includes("return ") ? script
                : /^const /.test(script) ? script.replace("; ", "; return ") : `return ${script}`;
            const call = new Function("output", "context", body);
            return answers.map(output => {
                try {
                    const result = call(output, {vars});
                    const pass = typeof result === "object" && result ? result.pass : result;
                    return typeof pass === "boolean" || typeof pass === "number" ? pass > 0 : null;
                } catch { return null }
            });
        })""",
        [SCRIPTS, ANSWERS, VARIABLES],
    )
    for script, results in zip(SCRIPTS, found, strict=True):
        by_answer = dict(zip(ANSWERS, results, strict=True))
        assert passing(rule_of(script, VARIABLES)) == {one for one in ANSWERS if by_answer[one] is True}, script
        with suppress(Untranslatable):
            inverse = passing(rule_of(script, VARIABLES, inverse=True))
            assert inverse == {one for one in ANSWERS if by_answer[one] is False}, script
