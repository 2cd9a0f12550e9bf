from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from evalflow.config.schema import DatasetConfig
from evalflow.datasets import case_to_row, read, short_row, tag_name
from evalflow.datasets.rows import is_empty
from evalflow.records import Case, Context, Message

pytestmark = pytest.mark.slow

texts = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
messages = st.builds(Message, texts, texts, st.none() | objects)
contexts = st.builds(Context, texts, st.none() | texts, st.none() | texts)
checks = st.fixed_dictionaries(
    {"identifier": st.text(min_size=1, max_size=8)}, optional={"enabled": st.booleans(), "params": objects}
)


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


cases = st.builds(
    Case,
    dataset=st.just("mine"),
    index=st.just(0),
    id=st.text(min_size=1, max_size=8),
    messages=tuples(messages),
    answer=st.none() | texts,
    reference=st.none() | texts | st.lists(texts, min_size=2, max_size=3).map(tuple),
    contexts=st.none() | tuples(contexts),
    expected=json_values,
    actual=json_values,
    metadata=st.none() | objects,
    demo_answer=st.none() | messages,
    checks=st.none() | tuples(checks),
    tags=st.lists(texts.map(tag_name).filter(bool), max_size=3, unique=True).map(tuple),
    group=st.none() | texts,
    labels=st.none() | objects,
    vars=objects,
)


ASKED = Case(dataset="mine", index=0, id="a", messages=(Message("user", "Why?"),), reference="x", expected="x")


@given(case=cases)
@example(case=ASKED)
@example(case=replace(ASKED, reference=None))
@example(case=replace(ASKED, reference="[1]", expected="[1]"))
@example(case=replace(ASKED, reference=" ", expected=" ", messages=(Message("user", ""),)))
@example(
    case=replace(ASKED, messages=(Message("user", '["a"]'),), contexts=(Context('["a"]'), Context("<b>", title="")))
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_case_written_as_a_row_reads_again_as_the_same_case(case: Case, here: Path) -> None:
    assume(not is_empty(case_to_row(case)))  # such a row is left out
    for to_row in (case_to_row, short_row):
        row = json.dumps(to_row(case))
        (here / "cases.jsonl").write_text(f"{row}\n")
        (here / "cases.json").write_text(f"[{row}]")
        for name in ("cases.jsonl", "cases.json"):
            assert list(read("mine", DatasetConfig(path=str(here / name), allow_irregular=True))) == [case]


def test_a_short_row_leaves_out_what_reading_adds() -> None:
    case = replace(ASKED, contexts=(Context("c"), Context("d", title="t")))
    contexts = ["c", {"text": "d", "title": "t"}]
    assert short_row(case) == {"id": "a", "question": "Why?", "contexts": contexts, "expected": "x"}
    assert short_row(replace(ASKED, reference=None))["reference"] is None
    turns = (Message("assistant", "Hello."), *ASKED.messages)
    assert len(short_row(replace(ASKED, messages=turns))["messages"]) == 2  # pyright: ignore[reportArgumentType]


def test_absent_fields_are_left_out() -> None:
    assert case_to_row(Case(dataset="mine", index=3, id="a")) == {"id": "a"}
    full = Case(dataset="mine", index=0, id="a", messages=(Message("user", "q"),), contexts=(), expected=False)
    assert case_to_row(full) == {
        "id": "a",
        "messages": [{"role": "user", "content": "q"}],
        "contexts": [],
        "expected": False,
    }
