"""Values in fields of text: whatever JSON holds comes back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("nicegui", reason="the extra `web` is not installed")

from evalflow.addons.studio.web.ui.forms import as_text, as_value

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@given(_VALUES)
def test_every_value_comes_back(value: Any) -> None:
    assert as_value(as_text(value)) == value


@pytest.mark.parametrize("said", ["basic", "1e999", "NaN", "{broken", "two words", "", " 3 apples"])
def test_what_is_no_json_is_text(said: str) -> None:
    assert as_value(said) == said == as_text(said)


@pytest.mark.parametrize(("said", "value"), [("3", 3), ("true", True), ('"3"', "3"), ('{"a": [1]}', {"a": [1]})])
def test_what_is_json_is_read(said: str, value: Any) -> None:
    assert as_value(said) == value
