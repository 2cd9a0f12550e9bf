"""A run's gates in words."""

from __future__ import annotations

import pytest

from evalflow.addons.studio.web.ui import headline
from evalflow.addons.studio.web.ui.headline import gate_name, gates_in_words
from evalflow.addons.studio.work.titles import Titles
from tests.report.outcomes import gate_outcome


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
    assert gates_in_words([gate_outcome(name=f"g{i}", passed=one) for i, one in enumerate(outcomes)], "") == said


def test_a_gate_is_called_by_the_title_of_its_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = Titles({("metric", "helper", "exact"): "Exactly right", ("metric", "other", "exact"): "Another"})
    monkeypatch.setattr(headline, "title_of", titles.of)

    def called(name: str, metric: str | None) -> str:
        return gate_name({"name": name, "of_metric": metric}, "helper")

    assert called("exact mean >= 0.8", "exact") == "Exactly right mean >= 0.8"
    assert called("exact@fees mean >= 0.8", "exact") == "Exactly right@fees mean >= 0.8"
    assert called("exact_match mean >= 0.8", "exact_match") == "exact_match mean >= 0.8"
    assert called("tag:exact mean >= 0.8", "exact") == "tag:exact mean >= 0.8"
    assert called("exact mean >= 0.8", None) == "exact mean >= 0.8"
