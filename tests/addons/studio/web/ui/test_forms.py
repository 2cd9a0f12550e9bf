"""Problems in the words of a form, at the field that has to be changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nicegui import Client
from nicegui.page import page

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.work.validate import check_bot, check_judge, check_metric, check_name
from evalflow.errors import Problem, UserError


@pytest.fixture(autouse=True)
def _shown() -> Iterator[None]:
    client = Client(page("/"), request=None)
    with client:
        yield
    client.delete()


def field(value: str = "x", *, required: bool = False) -> forms.Field:
    return forms.line(forms.About("Field", required=required), value)


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (Problem("target.model is required", key="target.model"), "This field is required"),
        (Problem("is required", key="target.model"), "This field is required"),
        (Problem("base_url must start with http://", "target.base_url"), "This field must start with http://"),
        (Problem("target.model: too long", key="target.model", hint="shorten it"), "Too long (shorten it)"),
        (Problem("no key", key="target.model", hint="set target.model=x"), "No key"),
        (Problem("unknown key metric.price.bogus", key="metric.price.bogus"), "Unknown key bogus"),
    ],
)
def test_a_problem_is_said_without_the_keys_of_the_command_line(problem: Problem, shown: str) -> None:
    at = field()
    elsewhere, first = forms.place(UserError(problem), {"model": at, "base_url": at, "bogus": at})
    assert (elsewhere, first) == ([], at)
    assert at.error == shown


def test_an_empty_field_that_is_required_says_so() -> None:
    at = field("", required=True)
    forms.place(UserError(Problem("'' cannot be a name", "bot.name", "lower-case letters")), {"bot.name": at})
    assert at.error == "This field is required"


def test_a_field_tells_all_that_is_wrong_with_it() -> None:
    at = field()
    forms.place(UserError([Problem("one", key="a"), Problem("two", key="b"), Problem("one", key="a")]), {"": at})
    assert at.error == "One\nTwo\nOne"


def test_a_field_with_a_whole_definition_says_where_in_it() -> None:
    at, other = field(), field()
    with pytest.raises(UserError) as refused:
        check_metric("price", {**METRIC, "threshold": "high", "scale": {"type": "likert", "min": 9, "max": 1}})
    forms.place(refused.value, {"": at, "metric.title": other})
    number = "threshold: must be a number, not 'high' (write threshold: 0.5)"
    assert at.error == f"{number}\nscale: min must be below max, but min is 9 and max is 1"
    assert other.error is None


def test_what_names_no_key_has_no_field() -> None:
    at = field()
    elsewhere, first = forms.place(UserError(Problem("the endpoint is down")), {"": at})
    assert ([problem.what for problem in elsewhere], first, at.error) == (["the endpoint is down"], None, None)


def test_the_topmost_field_is_focused_whichever_problem_comes_first() -> None:
    above, below = field(), field()
    problems = [Problem("late", key="below"), Problem("early", key="above")]
    assert forms.place(UserError(problems), {"above": above, "below": below}) == ([], above)


def test_a_name_and_what_it_names_are_refused_together() -> None:
    with pytest.raises(UserError) as refused:
        check_bot("3 fees", {**BOT, "temperature": 9})
    assert [problem.key or problem.where for problem in refused.value.problems] == ["bot.name", "target.temperature"]


BOT = {"kind": "openai", "model": "m"}
HTTP = {"kind": "http", "url": "http://127.0.0.1:9/"}
METRIC = {"kind": "g_eval", "criteria": "Right.", "needs": ["answer"]}


@pytest.mark.parametrize(
    ("wrong", "keys"),
    [
        (lambda: check_name("3 fees", "bot"), ["bot.name"]),
        (lambda: check_name("new", "dataset"), ["dataset.name"]),
        *(
            (lambda change=change: check_bot("b", {**BOT, **change}), [f"target.{key}" for key in change])
            for change in (
                {"model": None},
                {"base_url": "nowhere", "temperature": 9, "max_tokens": -1, "timeout_s": 0},
                {"system_prompt": "{{ nope"},
                {"api_key_env": "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF"},
            )
        ),
        *(
            (lambda change=change: check_bot("b", {**HTTP, **change}), [f"target.{key}" for key in change])
            for change in (
                {"url": "ftp://x"},
                {"answer": "output"},
                {"headers": {"Authorization": "Bearer sk-12345678"}},
            )
        ),
        *(
            (
                lambda change=change: check_judge("j", {**BOT, **change}),
                [f"judge.{key}" for key in change],
            )
            for change in ({"model": None}, {"base_url": "nowhere"}, {"max_tokens": -1})
        ),
        *(
            (lambda change=change: check_metric("m", {**METRIC, **change}), [f"metric.m.{key}" for key in change])
            for change in (
                {"criteria": " "},
                {"threshold": 2},
                {"scale": {"type": "likert", "min": 5, "max": 5}},
                {"needs": ["nothing"]},
                {"steps": [" "]},
            )
        ),
    ],
)
def test_every_wrong_value_has_its_error_at_its_field(wrong, keys: list[str]) -> None:  # type: ignore[no-untyped-def]
    fields = {key.replace(".m.", "."): field("wrong") for key in keys}
    with pytest.raises(UserError) as refused:
        wrong()
    known = {key.removeprefix("metric.") if key.startswith("metric.") else key: one for key, one in fields.items()}
    elsewhere, first = forms.place(refused.value, known)
    assert elsewhere == []
    assert first is not None
    for one in known.values():
        assert one.error
        assert "target." not in one.error
        assert "metric." not in one.error
