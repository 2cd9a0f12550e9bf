"""Variables in patterns."""

from __future__ import annotations

import pytest

from evalflow.values.patterns import TEMPLATE, declared


@pytest.mark.parametrize("text", ["{{question}}", "{{- answer | trim -}}", "a {{ vars.x }} b", "{{{a}}"])
def test_a_variable_in_a_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="letter for letter"):
        declared(text)


@pytest.mark.parametrize("repeated", ["a", "a ", " ", "{{a", "{{ ", "{"])
def test_a_long_text_that_only_begins_like_a_variable_is_read_once(repeated: str) -> None:
    """By its square it would take hours, in which the whole server waits."""
    assert TEMPLATE.search("{{" + repeated * (2_000_000 // len(repeated))) is None
