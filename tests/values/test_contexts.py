from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.records import Context
from evalflow.values.contexts import contexts, html_text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<p>Hello <b>bold</b> &amp; more</p><p>next</p>", "Hello bold & more\n\nnext"),
        ("<h2>Head</h2><ul><li>one</li><li>two</li></ul>", "Head\n\n  * one\n  * two"),
        ("<table><tr><th>Age</th><th>Fee</th></tr><tr><td>18</td><td>5</td></tr></table>", "Age  Fee\n18   5"),
        ("<dl><dt>E07</dt><dd>No signal.</dd><dt>E12</dt><dd>Too hot.</dd></dl>", "E07\nNo signal.\nE12\nToo hot."),
        ("a<br>b", "a\nb"),
        ("<div>one</div><div>two <div>three</div></div>", "one\ntwo\nthree"),
        ("<script>alert(1)</script><p>seen</p>", "seen"),
        ("<!-- nothing --><p></p>", ""),
        ("20&nbsp;&euro; &lt;b&gt;", "20\xa0€ <b>"),
        ("line one\n  line two, 3 < 4 and 5 > 4", "line one\n  line two, 3 < 4 and 5 > 4"),
        ("R&D; A & B", "R&D; A & B"),
    ],
)
def test_html_becomes_what_a_reader_sees(source: str, text: str) -> None:
    assert html_text(source) == text


@given(st.text(alphabet="<>/!-&;#x0aptdbr \n\x00é", max_size=40))
def test_no_markup_is_too_broken(source: str) -> None:
    assert isinstance(html_text(source), str)


@pytest.mark.parametrize(
    ("chunk", "text"),
    [
        ({"html_content": "<p>a</p>", "heading_hierarchy": None, "description": None, "title": None}, "a"),
        ({"html_content": "a", "heading_hierarchy": [], "description": ""}, "a"),
        ({"html_content": "a", "heading_hierarchy": ["H", None, "I"], "description": None}, "H > I\n\na"),
        ({"html_content": None, "description": "d"}, "d"),
        ({"exact_path": "/p", "html_content": None}, ""),
    ],
)
def test_absent_parts_of_a_chunk_leave_nothing_behind(chunk: dict[str, object], text: str) -> None:
    (context,) = contexts([chunk])
    assert context.text == text
    assert context.title is None


def test_a_text_under_content_and_a_blank_text() -> None:
    assert contexts([{"content": "Parking is free.", "score": 0.5}]) == (Context("Parking is free."),)
    assert contexts(" ") == ()


def test_a_title_alone_is_not_the_text() -> None:
    with pytest.raises(ValueError, match="got the keys title, body"):
        contexts([{"title": "Parking", "body": "Parking is free."}])
