"""Long texts of a case are compared after the first paint, when it is the visitor's turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from nicegui import Client, ui

from evalflow.addons.studio.web.ui import reading
from evalflow.addons.studio.web.ui.reading import AnswerShown, Reading


@pytest.mark.parametrize(("characters", "waiting"), [(10, 0), (10_000, 1)])
def test_long_texts_are_compared_in_the_turn_of_the_visitor(
    characters: int, waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = list[Callable[[], Awaitable[object]]]()
    monkeypatch.setattr(reading, "after_paint", later.append)
    with Client(ui.page("/of-this-test")):
        reading.show_reading(Reading(turns=(), answers=(AnswerShown(text="x" * characters),)))
    assert len(later) == waiting
