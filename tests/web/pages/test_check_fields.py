from __future__ import annotations

from typing import Any

import pytest

from evalflow.metrics.case_checks import PARAMS
from evalflow.web.pages.check_fields import about_kind, in_words


@pytest.mark.parametrize(
    ("kind", "params", "words"),
    [
        ("string_matching", {"keyword": "Hello"}, "The answer contains “Hello”."),
        (
            "string_matching",
            {"keyword": "Hello", "case_sensitive": False},
            "The answer contains “Hello”, in capital or small letters.",
        ),
        (
            "conformity",
            {"rules": ["Be kind.", "Be short.", "Be right.", "Be quick."]},
            "Be kind. Be short. Be right. And 1 more.",
        ),
        ("groundedness", {}, "All of the answer is in the earlier turns."),
        ("equals", {"expected_value": 40}, "The answer equals “40”."),
        ("less_than", {"expected_value": 3, "field": "metadata.n"}, "metadata.n is a number below “3”."),
        ("rule", {"op": "not_contains", "value": "refund"}, "The answer does not contain “refund”."),
        ("rule", {"op": "one_of", "values": ["a", "b"], "field": "actual"}, "actual is one of “a”, “b”."),
        ("rule", {"op": "length", "max": 50, "unit": "words"}, "The answer has at most 50 words."),
        (
            "group",
            {"checks": [{"identifier": "greets"}, {"identifier": "rule"}]},
            "Several checks together: greets, rule.",
        ),
        (
            "metadata",
            {"json_path_rules": [{"json_path": "$.ok", "expected_value": True, "expected_value_type": "boolean"}]},
            "The answer's metadata: $.ok is true.",
        ),
    ],
)
def test_a_check_is_said_in_words(kind: str, params: dict[str, Any], words: str) -> None:
    assert in_words(kind, params) == words


def test_every_kind_has_a_name_and_a_sentence_also_with_wrong_parameters() -> None:
    for kind in PARAMS:
        title, about, icon = about_kind(kind)
        assert all((title, about.endswith("."), icon, in_words(kind, {}))), kind
