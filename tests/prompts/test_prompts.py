"""Templates end, whatever is in them, and say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.errors import UserError
from evalflow.prompts import Prompts, render, used_in

HARMLESS = {
    '{{ "a" ~ 1 ~ none ~ ("b" ~ x) }}': "a1Noneb7",
    '{{ "ab" * 2 }}{{ 3 ** 2 }}{{ 7 % 4 }}{{ "%05.1f" % 3 }}{{ [1] + [2] }}': "abab93003.0[1, 2]",
    '{{ "{:,}".format(12345678) }} {{ "%d" | format(12345678) }}': "12,345,678 12345678",
    "{% for i in range(3) %}{{ loop.index }}{% else %}none{% endfor %}": "123",
    "{% for i in [[1, [2]]] recursive %}{{ loop(i) if i is not number else i }}{% endfor %}": "12",
    "{% set n = namespace(x=1) %}{{ n.x }}{{ 7 // 2 }}{{ -x - 1 }}": "13-8",
    "{% for a in [3, 1] | sort if a is gt(0) %}{{ a }}{{ loop.last }}{% endfor %}": "1False3True",
    '{{ "a b".split() }}{{ {"a": [1]} }}{{ "abc"[1:] }}{{ x == 7 and "b" in "abc" }}': "['a', 'b']{'a': [1]}bcTrue",
    "{% autoescape true %}{{ '<' }}{{ '<' | safe }}{{ x }}{% endautoescape %}": "&lt;<7",
    '{{ "x" | center(5) | replace("x", "y") | trim }}{{ [1, 2] | join(", ") }}': "y1, 2",
    "{% macro m(a) %}<{{ a }}{{ caller() }}>{% endmacro %}{% call m(x) %}!{% endcall %}": "<7!>",
}


@pytest.mark.parametrize(("source", "text"), HARMLESS.items())
def test_what_prompts_do_is_as_in_jinja(source: str, text: str) -> None:
    assert render(Prompts([]).inline(source, "here"), {"x": 7}, "here") == text


def test_the_limits_start_anew_for_each_rendering() -> None:
    template = Prompts([]).inline("{% for i in range(90000) %}{{ i }}{% endfor %}", "here")
    assert {len(render(template, {}, "here")) for _ in range(3)} == {438_890}


@pytest.mark.parametrize(("content", "told"), [(b"\xff", "the prompt is not UTF-8"), (b"\n", "the prompt is empty")])
def test_a_prompt_without_a_text_is_said(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "p.jinja").write_bytes(content)
    with pytest.raises(UserError, match=f"p.jinja: {told}"):
        Prompts([tmp_path]).variables("p.jinja")


def test_a_prompt_that_includes_itself_is_said(tmp_path: Path) -> None:
    (tmp_path / "p.jinja").write_text('{{ answer }} {% include "p.jinja" %}')
    prompts = Prompts([tmp_path])
    assert prompts.variables("p.jinja") == {"answer"}
    with pytest.raises(UserError, match=r"metric\.m, p\.jinja: .*includes or calls itself without end"):
        render(prompts.get("p.jinja"), {"answer": "a"}, "metric.m, p.jinja")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{% for i in x %}" * 30 + "{% endfor %}" * 30, "nested too deeply"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "nested too deeply"),
        ("{{ " + "9" * 5000 + " }}", "a number in it has too many digits"),
    ],
)
def test_a_template_that_cannot_be_compiled_is_said(source: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "p.jinja").write_text(source)
    with pytest.raises(UserError, match=rf"p\.jinja: .*{why}"):
        Prompts([tmp_path]).get("p.jinja")
    with pytest.raises(UserError, match=rf"target\.prompt: .*{why}"):
        Prompts([]).inline(source, "target.prompt")


def test_a_template_of_a_stranger_is_not_compiled_if_it_is_too_long(tmp_path: Path) -> None:
    (tmp_path / "p.jinja").write_text("x" * 100_001)
    stranger = Prompts([tmp_path], isolated=True)
    with pytest.raises(UserError, match=r"p\.jinja:1: the template has 100,001 characters, of at most 100,000"):
        stranger.get("p.jinja")
    with pytest.raises(UserError, match="of at most 100,000"):
        stranger.inline("x" * 100_001, "target.prompt")
    assert Prompts([tmp_path]).get("p.jinja").name == "p.jinja"


def test_a_number_that_python_does_not_read_is_said_of_a_text() -> None:
    with pytest.raises(UserError, match="too many digits"):
        used_in("{{ " + "9" * 5000 + " }}")


@pytest.mark.parametrize("source", ['{{ "abc" | truncate(1, true, "long", 0) }}', "{{ [1] | map('abs') | last }}"])
def test_a_filter_that_fails_in_its_own_way_is_said(source: str) -> None:
    with pytest.raises(UserError, match=r"^metric\.m: the prompt cannot be rendered: "):
        render(Prompts([]).inline(source, "metric.m"), {}, "metric.m")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("{{ answer }}", ["answer"]),
        ("{{ answer | trim }} {{ question | upper | fenced('question') }}", ["answer"]),
        ("{{ answer | fenced('answer') | indent(2) }}", []),
        ("{{ 'The answer: ' ~ answer }}{{ question.strip() }}", ["question", "answer"]),
        ("{% for c in contexts %}{{ loop.index }}. {{ c.text }}{% endfor %}", ["contexts"]),
        ("{% for c in contexts %}{{ loop.index }}. {{ c.text | fenced('c') }}{% endfor %}", []),
        ("{{ contexts | map(attribute='text') | join(' ') }}", ["contexts"]),
        ("{{ answer if question else 'none' }}{{ contexts | length }}{{ answer == question }}", ["answer"]),
        ("{% if answer %}An answer.{% endif %}{{ description }}{{ metadata.language }}", []),
        ("{% macro m(answer) %}{{ answer | fenced('a') }}{{ answer }}{% endmacro %}{{ m(answer) }}", []),
        ("{% set x %}{{ answer }}{% endset %}{{ x | fenced('x') }}", []),
        ("{% include 'part.jinja' %}", ["question"]),
    ],
)
def test_what_is_put_out_without_delimiters_is_seen(source: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "p.jinja").write_text(source)
    (tmp_path / "part.jinja").write_text("{{ question }}")
    assert Prompts([tmp_path]).unfenced("p.jinja") == found


def test_shipped_prompts_fence_what_they_show() -> None:
    folder = Path(__file__).parents[2] / "prompts"
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.jinja")]
    assert len(names) > 10
    assert {name: shown for name in names if (shown := Prompts([folder]).unfenced(name))} == {}


def test_a_template_is_read_anew_by_other_prompts(tmp_path: Path) -> None:
    file = tmp_path / "p.jinja"
    for source, text, used in (("{{ a }}!", "1!", {"a"}), ("{{ b }}?", "2?", {"b"}), ("{{ a }}!", "1!", {"a"})):
        file.write_text(source, encoding="utf-8")
        prompts = Prompts([tmp_path])
        assert render(prompts.get("p.jinja"), {"a": 1, "b": 2}, "here") == text
        assert prompts.variables("p.jinja") == used
