"""Ids of cases whose rows have none."""

from __future__ import annotations

import re
from typing import Any

import pytest

ROW: dict[str, Any] = {
    "question": "When does it open?",
    "answer": "At 9.",
    "contexts": ["It opens at 9."],
    "reference": "At 9.",
    "day": "Mon",
}


def test_the_id_stays_if_another_version_of_the_bot_answers(load: Any) -> None:
    other = {**ROW, "answer": "At 10.", "contexts": [], "day": "Tue", "labels": {"relevance": 1}, "latency_s": 2}
    [first], [second] = load([ROW]), load([other])
    assert re.fullmatch("[0-9a-f]{16}", first.id)
    assert second.id == first.id


@pytest.mark.parametrize("change", [{"question": "When does it close?"}, {"reference": "At 8."}, {"expected": "x"}])
def test_the_id_is_of_what_is_asked_and_expected(load: Any, change: dict[str, Any]) -> None:
    [first], [second] = load([ROW]), load([{**ROW, **change}])
    assert second.id != first.id


def test_rows_that_ask_the_same_have_a_second_part(load: Any) -> None:
    first, second, third = load([ROW, {**ROW, "answer": "At 10.", "latency_s": 2}, ROW])
    assert re.fullmatch(f"{first.id}-[0-9a-f]{{8}}", second.id)
    assert third.id == f"{second.id}-2"


def test_ids_stay_if_a_row_that_asks_the_same_is_removed(load: Any) -> None:
    rows = [{"question": "Summarise the text.", "answer": "x", "contexts": [text]} for text in "abcd"]
    before = {case.contexts[0].text: case.id for case in load(rows)}
    after = {case.contexts[0].text: case.id for case in load([{**row, "answer": "y"} for row in rows[1:]])}
    assert len(set(before.values())) == len(before)
    assert [text for text in after if after[text] == before[text]] == ["c", "d"]
    assert set(after.values()) & set(before.values()) == {before["a"], before["c"], before["d"]}


def test_how_long_earlier_answers_took_does_not_count(load: Any) -> None:
    def turns(**more: Any) -> list[dict[str, Any]]:
        said = {"role": "assistant", "content": "Hello.", **more}
        return [{"role": "user", "content": "Hi"}, said, {"role": "user", "content": "When does it open?"}]

    [first] = load([{"messages": turns(metadata={"ms": 5})}])
    [second] = load([{"messages": turns(metadata={"ms": 9})}])
    [other] = load([{"messages": turns(content="Hi!")}])
    assert second.id == first.id != other.id


def test_texts_that_are_classified_are_told_apart_by_themselves(load: Any) -> None:
    rows = [{"text": "a", "expected": "x", "actual": "x"}, {"text": "b", "expected": "x", "actual": "x"}]
    first, second = load(rows)
    [again] = load([{**rows[0], "actual": "y"}])
    assert again.id == first.id != second.id
