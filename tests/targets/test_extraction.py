"""The part of an answer that is scored: by pattern, JSON path, marker or line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalflow.config.extraction import Extraction
from evalflow.limited import LimitExceeded
from evalflow.targets.extraction import cleaned, extracted


def part(text: str, **keys: Any) -> str | None:
    return extracted(Extraction.model_validate(keys), text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("CHOICE: C", "C"),
        ("A and B are out.\nCHOICE: $C$", "C"),
        ("The choice is **(C)**, not A.", "C"),
        ("3 times 14 is 42.\n#### 42", "42"),
        ("I cannot say.", None),
        ("CHOICE:", None),
    ],
)
def test_a_pattern_gives_its_group(text: str, found: str | None) -> None:
    assert part(text, pattern=r"(?:CHOICE:|choice is|####)\W*(\w+)") == found


def test_the_last_match_counts_unless_the_first_is_asked_for() -> None:
    text = "CHOICE: A? No.\nCHOICE: D"
    assert part(text, pattern=r"CHOICE: (\w)") == "D"
    assert part(text, pattern=r"CHOICE: (\w)", match="first") == "A"
    assert part(text, after="CHOICE:") == "D"
    assert part(text, after="CHOICE:", match="first") == "A? No.\nCHOICE: D"


def test_a_group_is_named_by_number_or_name_and_else_the_first_that_took_part() -> None:
    assert part("x=1, y=2", pattern=r"x=(\d), y=(\d)", group=2) == "2"
    assert part("x=1, y=2", pattern=r"x=(?P<x>\d), y=(?P<y>\d)", group="y") == "2"
    assert part("x=1, y=2", pattern=r"x=(\d), y=(\d)", group=0) == "x=1, y=2"
    assert part("y=2", pattern=r"x=(\d)|y=(\d)") == "2"
    assert part("room 12b", pattern=r"\d+b") == "12b"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"sum": 250.10}', "250.10"),
        ('{"sum": "250.1"}', "250.1"),
        ('{"sum": 1e400}', "1e400"),
        ('{"sum": true}', "true"),
        ('{"sum": {"eur": 2}}', '{"eur": 2}'),
        ('Here it is:\n```json\n{"sum": 7}\n```\nAnything else?', "7"),
        ('First I had {"sum": 6}, but it is {"sum": 7}.', "7"),
        ('{"sum": null}', None),
        ('{"total": 7}', None),
        ('{"sum": 7', None),
        ('{"sum": NaN}', None),
        ("seven", None),
    ],
)
def test_a_path_reads_json_as_it_is_written(text: str, found: str | None) -> None:
    assert part(text, path="$.sum") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"So \frac{a}{b}, " * 30 + '{"sum": 4}', "4"),
        ('{"sum": 1} ' * 30 + '{"sum": 4}', "4"),
        ('{"sum": 4} as in {"unit": "m"}', "4"),
        ('```json\n{"sum": 4}\n```\n```json\n{"unit": "m"}\n```', "4"),
        ('{"sum": [250.10, 1e3, {"b": 1.0, "a": "1.0"}]}', '[250.10, 1e3, {"a": "1.0", "b": 1.0}]'),
    ],
)
def test_a_path_leads_into_the_last_object_that_has_it(text: str, found: str) -> None:
    assert part(text, path="$.sum") == found


def test_too_many_braces_are_named() -> None:
    with pytest.raises(ValueError, match="more than 1,000 braces"):
        part("{x} " * 1001 + '{"sum": 4}', path="$.sum")


def test_of_several_matches_of_a_path_one_counts() -> None:
    text = '{"steps": [{"sum": 1}, {"sum": 2}]}'
    assert part(text, path="$.steps[*].sum") == "2"
    assert part(text, path="$.steps[*].sum", match="first") == "1"


def test_a_line_counts_if_it_is_not_blank() -> None:
    assert part("\n first \n\n last \n \n", line="last") == "last"
    assert part("\n first \n\n last \n \n", line="first") == "first"
    assert part(" \n", line="last") is None


@pytest.mark.parametrize(
    "text", ["**C**", "$C$", "`C`", r"\boxed{C}", r"\boxed{\text{C}}.", "“C”", "((C))", "**C.**", "C."]
)
def test_markup_is_taken_away_if_asked(text: str) -> None:
    assert part(f"So:\n{text}", line="last", clean=True) == "C"
    assert part(f"So:\n{text}", line="last") == text


@pytest.mark.parametrize("text", ["(a) or (b)", "-5", "*a* and *b*", "f(x)", "**a** b **c**", r"\frac{1}{2}"])
def test_marks_within_a_text_are_part_of_it(text: str) -> None:
    assert cleaned(text) == text


@given(st.text())
def test_cleaning_ends_and_finds_nothing_more_the_second_time(text: str) -> None:
    assert cleaned(cleaned(text)) == cleaned(text)


def test_a_pattern_that_never_ends_is_given_up() -> None:
    with pytest.raises(LimitExceeded):
        part("a" * 60 + "!", pattern=r"(a|a)*$")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({}, "exactly one of pattern, path, after, line"),
        ({"pattern": "a", "line": "last"}, "has pattern and line"),
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "a", "group": 1}, "it has none"),
        ({"pattern": "(?P<x>a)", "group": "y"}, "it has 1, x"),
        ({"line": "last", "group": 1}, "which is not set"),
        ({"path": "sum"}, "begins with $"),
        ({"pattern": "CHOICE: {{ reference }}"}, r"\{\{ reference \}\}"),
    ],
)
def test_what_cannot_be_meant_is_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Extraction.model_validate(keys)
    assert told in str(refused.value)
