"""The body of a request to a service: values from the case, put in as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.errors import UserError
from evalflow.prompts import Prompts
from evalflow.records import Case, Context, Message
from evalflow.targets.request_body import Body, variables_of

CASE = Case(
    dataset="d",
    index=0,
    id="c",
    messages=(Message("user", "Hi"), Message("assistant", "Hello!"), Message("user", 'Why "so"?\n')),
    answer="SECRET",
    reference="SECRET",
    expected="SECRET",
    contexts=(Context("Sky.", title="T"),),
    metadata={"channel": "web"},
    vars={"tone": "kind", "n": 3},
)


def made(source: Any, case: Case = CASE) -> Any:
    return Body(source, "target.body", Prompts([Path()])).value(variables_of(case))


def test_without_one_the_case_is_sent_and_never_what_is_expected() -> None:
    body = made(None)
    assert list(body) == ["id", "question", "messages", "contexts", "metadata", "vars"]
    assert body["messages"][1] == {"role": "assistant", "content": "Hello!"}
    assert "SECRET" not in str(body)


def test_texts_are_templates_and_a_single_expression_keeps_its_type() -> None:
    source = {
        "input": "{{ question }}",
        "text": "{{ vars.tone }}: {{ metadata.channel }}",
        "n": "{{ vars.n + 1 }}",
        "turns": ["{{ history }}", "{{ messages | length }}"],
        "fixed": [1, None, True, "plain"],
    }
    assert made(source) == {
        "input": 'Why "so"?\n',
        "text": "kind: web",
        "n": 4,
        "turns": [[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}], 3],
        "fixed": [1, None, True, "plain"],
    }


def test_one_text_is_a_template_of_a_whole_document() -> None:
    comma = "{{ m.role }}{% if not loop.last %},{% endif %}"
    roles = f"{{% for m in messages %}}{comma}{{% endfor %}}"
    assert made(f'{{"q": {{{{ question }}}}, "n": [{roles}]}}') == {
        "q": 'Why "so"?\n',
        "n": ["user", "assistant", "user"],
    }
    assert made('{"q": {{ question | tojson }}, "m": {{ metadata }}}') == {
        "q": 'Why "so"?\n',
        "m": {"channel": "web"},
    }


@given(text=st.text())
def test_no_text_can_break_out_of_its_place(text: str) -> None:
    case = Case(dataset="d", index=0, id="c", messages=(Message("user", text),))
    assert made({"a": "{{ question }}", "b": 1}, case) == {"a": text, "b": 1}
    assert made('{"a": {{ question }}, "b": 1}', case) == {"a": text, "b": 1}


@pytest.mark.parametrize(
    ("source", "where", "what"),
    [
        ({"a": {"b": ["{{ reference }}"]}}, "target.body.a.b[0]", "uses 'reference', which a target does not get"),
        ({"a": "{{ question"}, "target.body.a", ""),
        ({"a": "{% if %}"}, "target.body.a", ""),
        ('{"q": "{{ question }}"}', "target.body", "does not make JSON"),
        ("just text", "target.body", "does not make JSON"),
        ("{{ answer }}", "target.body", "uses 'answer'"),
    ],
)
def test_a_broken_body_is_refused_before_the_run(source: Any, where: str, what: str) -> None:
    with pytest.raises(UserError) as failed:
        Body(source, "target.body", Prompts([Path()]))
    assert failed.value.problems[0].where == where
    assert what in failed.value.problems[0].what


def test_what_one_case_does_not_have_fails_that_case_only() -> None:
    for source in ({"c": "{{ vars.color }}"}, '{"c": {{ vars.color }}}'):
        body = Body(source, "target.body", Prompts([Path()]))
        with pytest.raises(UserError, match="color"):
            body.value(variables_of(CASE))


def test_the_sandbox_holds() -> None:
    with pytest.raises(UserError):
        made({"a": "{{ question.__class__.__mro__ }}"})
