"""Nunjucks templates become Jinja over `vars`, and render as JavaScript writes values."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.addons.interop.importers.nunjucks import jinja_of, render, rendered_variables


@pytest.mark.parametrize(
    ("source", "jinja"),
    [
        ("Hi {{ name }}", "Hi {{ vars.name }}"),
        ("{{a.b}} {{ a | upper }}", "{{vars.a.b}} {{ vars.a | upper }}"),
        ("{% for x in xs %}{{ x }}{{ y }}{% endfor %}", "{% for x in vars.xs %}{{ x }}{{ vars.y }}{% endfor %}"),
        ("{{ items }}", "{{ vars['items'] }}"),
        (
            "{% if a === 'x === y' && b.length %}1{% elseif c %}2{% endif %}",
            "{% if vars.a == 'x === y'  and  vars.b|length %}1{% elif vars.c %}2{% endif %}",
        ),
        ("{{ x | dump }}", "{{ vars.x | json }}"),
        ("plain {braces}", "plain {braces}"),
    ],
)
def test_variables_stand_below_vars(source: str, jinja: str) -> None:
    assert jinja_of(source)[0] == jinja


def test_variables_are_named() -> None:
    assert jinja_of("{{ a }} {% for b in c %}{{ b }}{% endfor %}")[1] == {"a", "c"}


@pytest.mark.parametrize(
    ("source", "variables", "text"),
    [
        ("{{x}} {{y}}", {"x": 1.0, "y": ""}, "1 "),
        ("{{x}} {{y}} {{z}}", {"x": True, "y": None, "z": ["a", 1]}, "true  a,1"),
        ("{% if x.y.z %}yes{% endif %}{{ x | default('no') }}{{ y or 'no' }}", {}, "nono"),
        ("{% if x %}yes{% else %}no{% endif %}", {"x": False}, "no"),
        ("a\n", {}, "a\n"),
        ("{{ o | dump }}", {"o": {"k": [1]}}, '{"k":[1]}'),
    ],
)
def test_values_are_written_as_javascript_writes_them(source: str, variables: dict[str, Any], text: str) -> None:
    assert render(source, variables) == text


def test_variables_may_use_others() -> None:
    assert rendered_variables({"a": "{{b}}!", "b": "x", "c": ["{{b}}"]}) == {"a": "x!", "b": "x", "c": ["x"]}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ env.KEY }}", "environment variable KEY"),
        ("{% include 'a' %}", "include"),
        ("{{ a", "template"),
        ("{{ a | own }}", "own"),
        ("{{ _conversation }}", "only promptfoo has"),
        ("{% for i in range(100000000) %}x{% endfor %}", "template"),
    ],
)
def test_what_has_no_like_says_so(source: str, said: str) -> None:
    with pytest.raises(Untranslatable, match=said):
        render(source, {})


@pytest.mark.parametrize(
    "source", ["{{ x }}", "{{ x.y.z }}", "a {{ o.missing }}", "{% for one in x %}{% endfor %}", "{{ x | upper }}"]
)
def test_a_variable_that_is_not_set_is_named(source: str) -> None:
    with pytest.raises(Untranslatable, match=r"it uses \{\{(x|missing)\}\}, which is not set"):
        render(source, {"o": {}})
