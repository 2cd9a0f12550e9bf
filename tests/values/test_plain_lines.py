"""Values as people read them."""

from __future__ import annotations

from evalflow.values.plain_lines import in_lines


def test_no_sign_of_json_is_left() -> None:
    value = {
        "keep_it": None,
        "is_on": False,
        "checks": [{"identifier": "greets", "params": {"rules": ["Be kind.", "Be"]}}],
    }
    assert (
        in_lines(value) == "is on: no\nchecks:\n  identifier: greets\n  params:\n    rules:\n      Be kind.\n      Be"
    )
    assert [in_lines(one) for one in (None, 3, "as it is", [], ["a", "b"])] == ["", "3", "as it is", "", "a\nb"]
