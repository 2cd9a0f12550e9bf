from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from evalflow.addons.studio.work.metric_yaml import metric_yaml, read_metric_yaml
from evalflow.errors import UserError

pytestmark = pytest.mark.slow

TEXT = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" \n"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_definition_comes_back(definition: dict[str, object]) -> None:
    assert read_metric_yaml(metric_yaml(definition)) == definition


@given(st.dictionaries(st.sampled_from(["kind", "criteria", "needs"]), VALUES, max_size=3))
@example({"kind": "0E0", "criteria": "${oc.env:HOME}", "needs": ["1_000", "yes", "2026-01-01", "1:30", ""]})
def test_what_is_shown_is_a_file_of_conf(definition: dict[str, object]) -> None:
    assert OmegaConf.to_container(OmegaConf.create(metric_yaml(definition)), resolve=True) == definition


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("kind: [", "not YAML in line 1"),
        ("a: 1\nb: {", "not YAML in line 2"),
        ("", "not a map of keys"),
        ("- kind", "not a map of keys"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "aliases"),
        ("a: !!python/object:os.system x", "not valid YAML"),
        ("[" * 5000, "not YAML: more than 200 brackets"),
        ("x" * 200_001, "of at most"),
        ("a: !!binary aGk=", "not JSON"),
        ("a: .inf", "not YAML"),
        ("a: ${judge.model}", "takes its value from elsewhere"),
    ],
)
def test_what_is_no_definition_is_told(text: str, what: str) -> None:
    with pytest.raises(UserError, match=what) as refused:
        read_metric_yaml(text)
    assert refused.value.problems[0].key == "yaml"
