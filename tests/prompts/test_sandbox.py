"""No template of a stranger takes much memory or time, whatever multiplies in it."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from jinja2.sandbox import SandboxedEnvironment

from evalflow import prompts
from evalflow.errors import UserError
from evalflow.prompts import Prompts, render, sandbox
from evalflow.records import Context

pytestmark = pytest.mark.slow

LISTS = "".join(
    f"{{% set {name} = namespace(x=['x']) %}}{{% for i in range(60) %}}{{% set {name}.x = [{name}.x, {name}.x] %}}"
    "{% endfor %}"
    for name in ("n", "m")
)
"""Two equal lists of two lists of two lists: 60 lists in memory, 2 ** 60 texts when they are gone through."""
TUPLE = "{% set n = namespace(x=('x',)) %}{% for i in range(60) %}{% set n.x = (n.x, n.x) %}{% endfor %}"


def often(inside: str) -> str:
    """A part of a template 99,999 times."""
    return f"{{% for i in range(99999) %}}{inside}{{% endfor %}}"


MEMORY = {
    "replace": '{{ long | replace("", long) }}',
    "a method replace": '{{ long.replace("x", long) }}',
    "replace by attr": '{{ (long | attr("replace"))("", long) }}',
    "replace in bytes": '{{ long.encode().replace("x".encode(), long.encode()) }}',
    "join": "{{ range(100000) | join(long) }}",
    "a method join": "{{ long.join(long) }}",
    "join what is mapped": '{{ long.join(range(99999) | map("string")) }}',
    "indent": '{{ ("\\n" * 100000) | indent(1000000) }}',
    "indent by a text": '{{ ("\\n" * 100000) | indent(long) }}',
    "expandtabs": '{{ ("\\t" * 100000).expandtabs(1000000) }}',
    "translate": "{{ long.translate({120: long}) }}",
    "wordwrap with a text": "{{ long | wordwrap(1, wrapstring=long) }}",
    "map": '{{ range(100000) | map("string") | map("center", 900000) | join }}',
    "map with a default": '{{ range(100000) | map(attribute="x", default=long) | list }}',
    "fromkeys": "{{ {}.fromkeys(range(100000), long) }}",
    "format": '{{ ("%s" * 100000) | format(*([long] * 100000)) }}',
    "format's width": '{{ "%3000000000d" | format(1) }}',
    "a method format": '{{ ("{0}" * 100000).format(long) }}',
    "format_map": '{{ ("{a}" * 100000).format_map({"a": long}) }}',
    "many widths": '{{ ("{0:999999}" * 100000).format(1) }}',
    "a given width": '{{ "{:{}}".format(1, 3000000000) }}',
    "%": '{{ ("%(a)s" * 100000) % {"a": long} }}',
    "a width given to %": '{{ "%*d" % (3000000000, 1) }}',
    "center": '{{ "x" | center(3000000000) }}',
    "ljust": '{{ "x".ljust(3000000000) }}',
    "zfill": '{{ "x".zfill(3000000000) }}',
    "* of a text": "{{ 3000000000 * long }}",
    "* of a list": "{{ [1] * 3000000000 }}",
    "* of lists in lists": "{{ [[[0] * 10000] * 10000] * 10000 }}",
    "**": "{{ 10 ** 10000000000 }}",
    "to_bytes": '{{ (1).to_bytes(3000000000, "big") }}',
    "hex": '{{ (long * 300).encode().hex("-") | length }}',
    "~ in a loop": "{% set n = namespace(x=long) %}" + often("{% set n.x = n.x ~ n.x %}"),
    "+ in a loop": "{% set n = namespace(x=long) %}" + often("{% set n.x = n.x + n.x %}"),
    **{
        f"lists in lists: {end}": f"{LISTS}{{{{ {end} }}}}"
        for end in (
            "n.x",
            "n.x | string",
            "n.x | tojson",
            "n.x | json",
            "n.x | pprint",
            "n.x ~ 1",
            "n.x | fenced('x')",
            "'%s' % n.x",
            "'{}'.format(n.x)",
            "[n.x] | join",
            "n.x | upper",
            "dict(a=n.x)",
            "n.x | replace('a', 'b')",
        )
    },
    "tojson's indent": "{{ [[[1] * 100000]] | tojson(indent=100000) }}",
    "batch": "{{ [1] | batch(1000000, fill_with=long) | list }}",
    "slice": "{{ [1] | slice(1000000000) | list }}",
    "split": '{{ (("a " * 100000) * 100).split() | length }}',
    "splitlines": '{{ ("\\n" * 20000000).splitlines() | length }}',
    "list": '{{ ("é" * 20000000) | list | length }}',
    "set": "{% set b %}" + often("{{ contexts }}") + "{% endset %}{{ b | length }}",
    "a macro": "{% macro m() %}" + often("{{ contexts }}") + "{% endmacro %}{{ m() | length }}",
    "filter": "{% filter upper %}" + often("{{ contexts }}") + "{% endfilter %}",
    "call": "{% macro m() %}" + often("{{ caller() }}") + "{% endmacro %}{% call m() %}{{ contexts }}{% endcall %}",
    "json of json": "{{ '\\\\' " + "| json " * 60 + "}}",
    "joiner": "{% set j = joiner(long) %}" + often("{{ j() }}"),
    "a large text in a loop": often("{{ long }}"),
}
TIME = {
    "a loop in a loop": often(often("")),
    "a loop in a loop with text": often("{% for j in range(900) %}" + "x" * 9999 + "{% endfor %}"),
    "loops over what is mapped": often("{% for j in range(99999) | map('abs') %}{% endfor %}"),
    "upper": often("{% set x = (long | upper | length) %}"),
    "fenced": often("{% set x = long | fenced('a') %}"),
    "==": often("{% if long == long2 %}{% endif %}"),
    "in": often('{% if "y" in long %}{% endif %}'),
    "a copy": often("{% set x = long[1:] %}"),
    "find": often('{% set x = long.find("y") %}'),
    "is upper": often("{% if long is upper %}{% endif %}"),
    "sort": often("{% set x = range(99999) | sort %}"),
    "sum": often("{% set x = range(99999) | sum %}"),
    "map in a loop": often('{% set x = range(99999) | map("abs") | list %}'),
    "select": often('{% set x = range(99999) | select("eq", -1) | first %}'),
    "sum of lists": "{{ ([[1] * 10] * 100000) | sum(start=[]) | length }}",
    "striptags": '{{ ("<!---->" * 200000) | striptags }}',
    "wordwrap": "{{ (long * 50) | wordwrap(1) }}",
    "large numbers": "{% set n = namespace(x=9) %}{% for i in range(40) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "macros that call each other": "{% macro m(n) %}{% if n %}{{ m(n - 1) ~ m(n - 1) }}{% endif %}{% endmacro %}"
    "{{ m(60) }}",
    "a recursive loop": "{% for i in [1, 2] recursive %}{{ loop([1, 2]) if loop.depth < 60 }}{% endfor %}",
    "blocks": "{% block a0 %}x{% endblock %}"
    + "".join(f"{{% block a{i} %}}{{{{ self.a{i - 1}() * 2 }}}}{{% endblock %}}" * (i > 0) for i in range(40)),
    "arguments": "{% macro m() %}{{ varargs | length }}{% endmacro %}" + often("{{ m(*range(99999)) }}"),
    "an include": often(often('{% include "p" %}')),
    **{
        f"lists in lists: {end}": f"{LISTS}{{{{ {end} }}}}"
        for end in (
            "n.x == m.x",
            "n.x in [m.x]",
            "n.x is in [m.x]",
            "n.x is eq(m.x)",
            "[n.x].index(m.x)",
            "[n.x, m.x] | max",
            "[n.x] | select('eq', m.x) | list",
        )
    },
    **{
        f"a tuple that is looked up: {end}": f"{TUPLE}{{{{ {end} }}}}"
        for end in (
            "{n.x: 1}",
            "{1: 1}[n.x]",
            "{1: 1}.get(n.x)",
            "[n.x] | unique | list",
        )
    },
}
BOMBS = {**MEMORY, **{f"time: {name}": source for name, source in TIME.items()}}
VARIABLES = {"long": "x" * 100_000, "long2": "x" * 99_999 + "x", "contexts": ["x" * 1000] * 100}
LIMITS = (
    "takes more than 0.1 s",
    "takes more than 0.5 s",
    "needs more memory than is available",
    "needs more than 1,024 MB of memory",
    "makes more than 32,000,000 characters of text",
    "Range too big",
    "Exceeds the limit",
)


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Prompts:
    folder = tmp_path_factory.mktemp("prompts")
    (folder / "p").write_text("x")
    return Prompts([folder], isolated=True)


@pytest.mark.parametrize("name", BOMBS)
def test_a_template_of_a_stranger_ends_within_its_limits(
    name: str, isolated: Prompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.1 if name.startswith("time: ") else 0.5  # what fills the memory needs some time to do so
    monkeypatch.setattr(prompts, "SECONDS", seconds - 1)  # one more is given
    try:
        text = render(isolated.inline(BOMBS[name], name), VARIABLES, name)
    except UserError as error:
        ending = str(error).removeprefix(f"{name}: the prompt cannot be rendered: ")
        assert any(limit in ending for limit in LIMITS) or "must be str" in ending, ending
    else:
        assert len(text) <= sandbox.CHARACTERS


def test_a_strangers_template_gives_what_any_gives(tmp_path: Path) -> None:
    (tmp_path / "p.jinja").write_text("{% include 'part.jinja' %}{{ 7 | json }}")
    (tmp_path / "part.jinja").write_text("{% for c in contexts %}{{ c.text | fenced('c') }}{% endfor %}")
    variables = {"contexts": (Context("one"), Context("two"))}
    texts = {
        render(Prompts([tmp_path], isolated=isolated).get("p.jinja"), variables, "here") for isolated in (False, True)
    }
    assert len(texts) == 1
    where = r"in line 1 of \S*part\.jinja"
    for isolated in (False, True):
        with pytest.raises(UserError, match=f"^here: the prompt cannot be rendered: 'contexts' is undefined, {where}$"):
            render(Prompts([tmp_path], isolated=isolated).get("p.jinja"), {}, "here")


def test_the_line_of_a_template_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.jinja").write_text("{% block rules %}\n{{ 1 }}\n{% endblock %}\n\n{{ answer + 1 }}")
    for isolated in (False, True):
        with pytest.raises(UserError, match=r"cannot be rendered: .*, in line 5$"):
            render(Prompts([tmp_path], isolated=isolated).get("p.jinja"), {"answer": "x"}, "here")


def test_every_filter_gives_a_stranger_what_it_gives_anybody(tmp_path: Path) -> None:
    anybodys, strangers = Prompts([tmp_path]), Prompts([tmp_path], isolated=True)
    values = ("'<b>x&amp;</b>'", "['x']", "{'a': 1}", "[{'a': 1}]", "3.7")
    arguments = ("", "('a')", "('a', 'b')", "(3)", "('upper')", "('real')")
    endings = (" | list", "")  # most give an iterator
    for name in [*(SandboxedEnvironment().filters.keys() - {"random"}), "json", "fenced"]:
        for value, given, ending in product(values, arguments, endings):
            source = f"{{{{ {value} | {name}{given}{ending} }}}} {{{{ lipsum(n=0) }}}}"
            with suppress(UserError):
                text = render(anybodys.inline(source, name), {}, name)
                if " at 0x" not in text:
                    break
        else:
            pytest.fail(f"nothing that {name} takes is among the values")
        assert render(strangers.inline(source, name), {}, name) == text, source


def test_a_stranger_hears_that_a_template_opens_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"it opens .*cp1253\.py, but such a template must not open files"):
        render(Prompts([tmp_path], isolated=True).inline("{{ 'x'.encode('cp1253') }}", "t"), {}, "t")


@pytest.mark.parametrize("source", [TIME["a loop in a loop"], TIME["loops over what is mapped"], TIME["an include"]])
def test_any_template_has_a_time_limit(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p").write_text("x")
    monkeypatch.setattr(sandbox, "SECONDS", 0.1)
    with pytest.raises(UserError, match=r"^here: the prompt cannot be rendered: it takes more than 0\.1 s$"):
        render(Prompts([tmp_path]).inline(source, "here"), VARIABLES, "here")


def test_nothing_is_evaluated_before_a_template_is_rendered() -> None:
    for source in ('{{ "x" * 30000000000 }}', '{{ "x" | center(30000000000) }}', '{% set x = "x" * 30000000000 %}'):
        Prompts([]).inline(source, "here")
        assert Prompts([]).inline_variables(source) == set()
    with pytest.raises(UserError, match=r"^here: autoescape needs true or false$"):
        Prompts([]).inline('{% autoescape "x" | center(30000000000) %}{% endautoescape %}', "here")


def test_any_template_has_a_limit_of_text() -> None:
    with pytest.raises(UserError, match=r"cannot be rendered: it makes more than 32,000,000 characters of text$"):
        render(Prompts([]).inline(MEMORY["a large text in a loop"], "here"), VARIABLES, "here")
