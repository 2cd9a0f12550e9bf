"""One-line JavaScript that a rule can say."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.importers.ledger import Untranslatable
from evalflow.importers.promptfoo.scripts import rule_of

VARIABLES = {"word": "data Café", "list": ["a"]}


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("JSON.parse(output).a === 'x'", {"op": "jsonpath", "path": "$.a", "equals": "x"}),
        ("return JSON.parse(output).a[0].b === 2;", {"op": "jsonpath", "path": "$.a[0].b", "equals": 2}),
        ('output.includes("it\'s")', {"op": "contains", "value": "it's", "normalize": None}),
        ("output.length < 100", {"op": "length", "unit": "characters", "max": 99}),
        ("output.length >= 3", {"op": "length", "unit": "characters", "min": 3}),
        (
            "output.trim().toLowerCase() === 'yes'",
            {"op": "equals", "value": "yes", "normalize": None, "case_sensitive": False, "trim": True},
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
            "const data = JSON.parse(output);\n// the reason\nreturn data.a?.b === context.vars.word;",
            {"op": "jsonpath", "path": "$.a.b", "equals": "data Café"},
        ),
        (
            "(typeof output === 'string' ? JSON.parse(output) : output).n === context.vars['word'].toLowerCase()",
            {"op": "jsonpath", "path": "$.n", "equals": "data café"},
        ),
        ("output.kind === 'x'", {"op": "jsonpath", "path": "$.kind", "equals": "x"}),
        ("output.length <= 280 ? 1 : 0", {"op": "length", "unit": "characters", "max": 280}),
        (
            "['a', 'b'].includes(output.n)",
            {"op": "any", "rules": [{"op": "jsonpath", "path": "$.n", "equals": one} for one in ("a", "b")]},
        ),
        (
            "JSON.parse(output).n == 5",
            {"op": "any", "rules": [{"op": "jsonpath", "path": "$.n", "equals": one} for one in (5, "5")]},
        ),
        (
            "JSON.parse(output).a.n === 1 || !(output.includes('(') && String(output).includes('b'))",
            {
                "op": "all",
                "rules": [
                    {"op": "jsonpath", "path": "$.a", "missing": False},
                    {"op": "not", "rule": {"op": "jsonpath", "path": "$.a", "equals": None}},
                    {
                        "op": "any",
                        "rules": [
                            {"op": "jsonpath", "path": "$.a.n", "equals": 1},
                            {
                                "op": "not",
                                "rule": {
                                    "op": "all",
                                    "rules": [
                                        {"op": "contains", "value": one, "normalize": None} for one in ("(", "b")
                                    ],
                                },
                            },
                        ],
                    },
                ],
            },
        ),
        (
            "JSON.parse(output).n > 0.5",
            {"op": "jsonpath", "path": "$.n", "rule": {"op": "greater_than", "value": 0.5}},
        ),
    ],
)
def test_a_comparison_is_a_rule(script: str, rule: dict[str, Any]) -> None:
    assert rule_of(script, VARIABLES) == rule


@pytest.mark.parametrize(
    "script",
    [
        "output.split(' ').length < 3", "output.length < 3 ? 1 : 0.5", "a && b || c", "const x = 1;\nreturn x;",
        "!(JSON.parse(output).a === 1)", "JSON.parse(output)?.a !== 1", "output.includes(context.vars.list)",
        "output === 'a' || JSON.parse(output).b === 1 || output === 'c'", "1 / (output.length + 1)",
        "output.toLowerCase().includes('Yes')", "JSON.parse(output).a == null", "/a/g.test(output)",
        "output.length < 0",
        "output === 1", "",
    ],
)  # fmt: skip
def test_a_program_is_none(script: str) -> None:
    with pytest.raises(Untranslatable):
        rule_of(script, VARIABLES)
