"""No template takes much memory or time, whatever multiplies in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

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
RENDERING = """
import json, sys
from pathlib import Path
from evalflow.errors import UserError
from evalflow.prompts import Prompts, render

try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
except ImportError:
    pass
variables = {"long": "x" * 100_000, "long2": "x" * 99_999 + "x", "contexts": ["x" * 1000] * 100}
prompts, ends = Prompts([Path(sys.argv[1])]), {}
for name, source in json.load(sys.stdin).items():
    try:
        ends[name] = f"made {len(render(prompts.inline(source, name), variables, name))} characters"
    except UserError as error:
        ends[name] = str(error)
    except BaseException as error:
        ends[name] = repr(error)
json.dump(ends, sys.stdout)
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """How each rendering ends, in a process that may have 1 GiB."""
    folder = tmp_path_factory.mktemp("prompts")
    (folder / "p").write_text("x")
    words = [sys.executable, "-c", RENDERING, str(folder)]
    root = Path(__file__).parents[1]
    done = subprocess.run(words, input=json.dumps(BOMBS), capture_output=True, text=True, cwd=root, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_template_that_explodes_ends_with_an_error(name: str, ends: Mapping[str, str]) -> None:
    ending = ends[name].removeprefix(f"{name}: the prompt cannot be rendered: ")
    assert ending in (
        "it makes more than 32,000,000 characters of text",
        "its loops take more than 2,000,000 steps",
    )
