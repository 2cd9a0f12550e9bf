"""Keys of other tools' rows: each is read, kept or listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.interop.importers.columns import Columns, is_missing
from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.readers import parsed

ROW: dict[str, Any] = {
    "input": {"question": "When?", "lang": "en"},
    "turns": [{"role": "user", "id": 7}, {"role": "tool"}],
    "id": "a",
    "notes": "asked often",
    "blank": "",
    "nothing": None,
    "nan": float("nan"),
    "empty": [],
}


def test_what_nobody_reads_is_listed() -> None:
    row, ledger = Columns(ROW, "f:1"), Ledger()
    assert row.child("input").get("query", "question") == "When?"
    assert [turn.get("role") for turn in row.children("turns")] == ["user", "tool"]
    row.close(ledger)
    assert [(one.what, one.where) for one in ledger.left_out] == [
        (f"column {name}", "f:1") for name in ("input.lang", "turns[0].id", "id", "notes")
    ]
    assert ledger.counts() == {"columns": (6, 2, 4)}
    ledger.expect_balanced()


def test_what_nobody_reads_can_be_kept() -> None:
    row, ledger = Columns(ROW, "f:1"), Ledger()
    row.child("input").get("question")
    row.children("turns")[0].get("role")
    row.get("id")
    row.leave("it says nothing", "notes", "blank", "id")
    assert row.rest() == {"input": {"lang": "en"}, "turns": [{"id": 7}, {"role": "tool"}], "empty": []}
    row.close(ledger)
    assert [(one.what, one.reason) for one in ledger.left_out] == [("column notes", "it says nothing")]
    assert ledger.counts() == {"columns": (5, 4, 1)}


def test_a_column_that_any_row_gave_is_taken_and_its_other_values_are_listed() -> None:
    ledger = Ledger()
    for number, value in enumerate(({"q": 1}, "text", {"q": 2})):
        row = Columns({"input": value}, f"f:{number}")
        row.child("input").get("q")
        row.close(ledger)
    assert ledger.counts() == {"columns": (1, 1, 0)}
    assert [(one.what, one.where) for one in ledger.left_out] == [("column input", "f:1")]


def test_names_without_end_are_one_line() -> None:
    ledger = Ledger()
    for number in range(5000):
        Columns({f"c{number}": 1}, f"f:{number}").close(ledger)
    assert len(ledger.left_out) == 1001
    assert sum(one.count for one in ledger.left_out) == 5000
    ledger.expect_balanced()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """The places of all values that say something."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{number}]")
    elif not is_missing(value):
        yield path


@given(st.dictionaries(st.sampled_from("abcdef"), VALUES), st.lists(st.sampled_from("abcdef")), st.booleans())
def test_every_value_is_read_kept_or_listed(data: dict[str, Any], looked_at: list[str], keep: bool) -> None:
    row, ledger = Columns(data, "f:1"), Ledger()
    read: set[str] = set()
    for number, name in enumerate(looked_at):
        if number % 3 == 0 and row.get(name) is not None:
            read.add(name)
        elif number % 3 == 1 and row.child(name).get("a") is not None:
            read.add(f"{name}.a")
        elif number % 3 == 2:
            items = [at for at, one in enumerate(row.children(name)) if one.get("b") is not None]
            read |= {place for at in items for place in (f"{name}[{at}].b", f"{name}.b")}
    kept = list(leaves(row.rest())) if keep else []
    row.close(ledger)
    found = [*read, *kept, *(one.what.removeprefix("column ") for one in ledger.left_out)]
    for leaf in leaves(data):
        assert any(leaf == one or leaf.startswith((f"{one}.", f"{one}[")) for one in found), leaf


def test_json_texts_are_read_as_what_they_hold() -> None:
    assert [parsed(text) for text in ('{"a": [1]}', '"x"', "[1", "3", "[NaN]")] == [{"a": [1]}, "x", "[1", "3", "[NaN]"]
    assert Columns({"turns": '[{"role": "user"}]'}, "f:1").children("turns")[0].get("role") == "user"


def test_an_id_is_text_or_a_whole_number_and_anything_else_stays_unread() -> None:
    assert Columns({"case": "a-1", "id": 7}, "file:1").case_id("case", "id") == "a-1"
    assert Columns({"case": None, "id": 7}, "file:1").case_id("case", "id") == 7
    for own in (7.0, True, ["a-1"], {"$oid": "a-1"}):
        row = Columns({"id": own}, "file:1")
        assert row.case_id("id") is None
        assert row.rest() == {"id": own}


def test_blank_tags_are_listed_and_others_taken() -> None:
    ledger = Ledger()
    for number, tags in enumerate((["a", " ", "b > c"], '["", "d"]', [" > "], [], ["e", 1])):
        row = Columns({"tags": tags}, f"f:{number}")
        assert row.tags("tags") == [["a", "b > c"], ["d"], None, None, None][number]
        row.close(ledger)
    assert [(entry.reason, entry.where) for entry in ledger.left_out] == [
        ("a tag is blank", "f:0, f:1, f:2"),
        ("evalflow has no field for it", "f:4"),
    ]
    ledger.expect_balanced()
