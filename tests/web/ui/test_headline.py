"""A run's gates in words."""

from __future__ import annotations

import pytest

from evalflow.web.ui.headline import gates_in_words


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([], ""),
        ([True], "The gate passed."),
        ([False], "Gate failed: g0."),
        ([True, True], "All 2 gates passed."),
        ([True, False, None, False], "2 of 4 gates failed: g1, g3. 1 of 4 gates undecided: g2."),
    ],
)
def test_gates_are_said_in_words(outcomes: list[bool | None], said: str) -> None:
    assert gates_in_words([{"name": f"g{i}", "passed": one} for i, one in enumerate(outcomes)]) == said
