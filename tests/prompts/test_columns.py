"""Which columns of `vars` a case must have: those without which a prompt cannot be rendered."""

from __future__ import annotations

import pytest

from evalflow.errors import UserError
from evalflow.prompts import Prompts, render, used_in

NEEDED = [
    "{{ vars.x }}",
    "{{ vars['x'] }}",
    "{% if vars.x %}a{% endif %}",
    "{{ 'a' if vars.x else 'b' }}",
    "{% for one in vars.x %}{{ one }}{% endfor %}",
    "{% if vars.x.y is defined %}a{% endif %}",
    "{% if vars.x is defined %}a{% endif %}{{ vars.x }}",
    "{% if vars.x is undefined %}{{ vars.x }}{% endif %}",
    "{% if not vars.x is defined %}{{ vars.x }}{% endif %}",
    "{% if vars.x is defined or true %}{{ vars.x }}{% endif %}",
    "{% if vars.y is defined %}a{% else %}{{ vars.x }}{% endif %}",
    "{{ vars.x | upper | default('') }}",
    "{{ vars.get('x').y }}",
    "{{ vars.get('x')['y'] }}",
    "{{ vars.get('x').y.z | default('') }}",
    "{% if vars.get('x') is none %}{{ vars.x }}{% endif %}",
    "{% if vars.get('x', 1) %}{{ vars.x }}{% endif %}",
    "{% if vars.get('x', 1) is not none %}{{ vars.x }}{% endif %}",
    "{% set p = vars.x %}{{ p }}",
    "{% if vars.x is defined %}a{% endif %}{% block a %}{{ vars.x }}{% endblock %}",
]
OPTIONAL = [
    "{% if vars.x is defined %}{{ vars.x }}{% endif %}",
    "{% if vars.x is defined and vars.x %}{{ vars.x }}{% endif %}",
    "{% if vars.x is undefined %}a{% else %}{{ vars.x }}{% endif %}",
    "{% if not vars.x is defined %}a{% elif vars.x %}{{ vars.x }}{% endif %}",
    "{% if vars.x is undefined or not vars.x %}a{% else %}{{ vars.x }}{% endif %}",
    "{{ vars.x if vars.x is defined else 'b' }}",
    "{{ vars.x | default('') }}",
    "{{ vars['x'] | d('') | upper }}",
    "{{ vars.get('x') }}",
    "{% if vars.get('x') %}{{ vars.x }}{% endif %}",
    "{% if vars.get('x') is not none %}{{ vars.x }}{% endif %}",
    "{% if vars.get('x') is none %}a{% else %}{{ vars.x }}{% endif %}",
    "{% if vars.get('x') %}{{ vars.get('x').y }}{% endif %}",
    "{{ vars.get('x').y | default('') }}",
    "{% if vars.get('x').y is defined %}a{% endif %}",
    "{{ vars.get('x', {'y': 1}).y }}",
    "{% if 'x' in vars %}{{ vars.x }}{% endif %}",
    "{% if vars.x is none %}a{% endif %}",
]


def renders(source: str) -> bool:
    try:
        render(Prompts([]).inline(source, "metric.m"), {"vars": {}}, "metric.m")
    except UserError:
        return False
    return True


@pytest.mark.parametrize("source", NEEDED)
def test_a_column_that_rendering_fails_without_is_needed(source: str) -> None:
    assert used_in(source)[1]["x"]
    assert not renders(source)


@pytest.mark.parametrize("source", OPTIONAL)
def test_a_column_that_rendering_does_without_is_optional(source: str) -> None:
    assert dict(used_in(source)[1]) == {"x": False}
    assert renders(source)
