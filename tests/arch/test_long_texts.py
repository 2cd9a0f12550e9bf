"""Texts of strangers take time by their length, not by its square, in which a whole server or run would wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("nicegui", reason="the extra `web` is not installed")

from evalflow.addons.studio.web.pages import metric_prompt
from evalflow.addons.studio.work import archives
from evalflow.app.core import saved
from evalflow.config.exchanges import example_address
from evalflow.config.yaml_text import interpolations, unescaped
from evalflow.metrics.case_checks import _PLACEHOLDER, filled
from evalflow.metrics.kinds.sql import is_ordered
from evalflow.records import Case
from evalflow.targets import openai
from evalflow.targets.simulated import UserTurn
from evalflow.values.contexts import html_text
from evalflow.values.segments import sentence_ends

LONG = 300_000
"""By the square of it, each of these texts would take several minutes."""


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (example_address, "http://a/" + "{{" * LONG, "http://a/" + "{{" * LONG),
        (lambda text: [*sentence_ends(text)], "." * LONG, []),
        (lambda text: [*sentence_ends(text)], "é" + "." * LONG, []),
        (html_text, "a" + " " * LONG + "b", "a" + " " * LONG + "b"),
        (openai._FENCED.fullmatch, "```" + " " * LONG + "x", None),
        (lambda text: UserTurn(reason="", state="goes_on", message=text).state, "a" + "\n" * LONG, "goes_on"),
        (unescaped, "\\" * LONG, "\\" * LONG),
        (lambda text: [*interpolations(text)], "${" * LONG, ["${" * LONG]),
        (lambda text: len([*interpolations(text)]), "${" * LONG + "}", 1),
        (lambda text: len([*interpolations(text)]), "${" * LONG + "}" * LONG, 1),
        (archives._KEY.findall, "\n" * LONG, []),
        (lambda text: filled(text, Case(dataset="d", index=0, id="c")), "{{" + " " * LONG, "{{" + " " * LONG),
        (lambda text: filled(text, Case(dataset="d", index=0, id="c")), "{{'" * LONG, "{{'" * LONG),
        (lambda text: _PLACEHOLDER.sub("", text), "{%raw%}" * LONG, ""),
        (is_ordered, "/*" * LONG, False),
        (is_ordered, "[" * LONG, False),
        (metric_prompt.mentioned, "{{ " + "import " * LONG, ([], {})),
        (lambda text: [*filter(saved._DESCRIPTION.search, saved._TAG.findall(text))], "{" * LONG, []),
    ],
    ids=[
        "address",
        "sentences",
        "sentences beyond ASCII",
        "spaces",
        "fence",
        "user's turn",
        "escapes",
        "open interpolations",
        "one closed interpolation",
        "nested interpolations",
        "keys",
        "placeholder",
        "quoted placeholder",
        "raw block",
        "comments",
        "names",
        "imports",
        "tags",
    ],
)
def test_a_long_text_is_read_once(read: Callable[[str], object], text: str, expected: object) -> None:
    assert read(text) == expected
