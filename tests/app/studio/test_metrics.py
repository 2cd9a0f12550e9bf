from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.app.studio.metrics import metric_yaml, read_metric_yaml
from evalflow.errors import UserError

TEXT = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" \n"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_definition_comes_back(definition: dict[str, object]) -> None:
    assert read_metric_yaml(metric_yaml(definition)) == definition


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("kind: [", "no YAML in line 1"),
        ("a: 1\nb: {", "no YAML in line 2"),
        ("", "no map of keys"),
        ("- kind", "no map of keys"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "aliases"),
        ("a: !!python/object:os.system x", "no YAML"),
        ("[" * 5000, "no YAML: more than 200 brackets"),
        ("x" * 200_001, "of at most"),
        ("a: 2026-13-45", "no YAML"),
    ],
)
def test_what_is_no_definition_is_told(text: str, what: str) -> None:
    with pytest.raises(UserError, match=what) as refused:
        read_metric_yaml(text)
    assert refused.value.problems[0].key == "yaml"
