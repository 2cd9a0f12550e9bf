"""What validation says of a plain configuration; no Hydra needed."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.app.core.assemble import settings_of
from evalflow.config.validate import Composed
from evalflow.errors import UserError

VALUES: dict[str, Any] = {
    "dataset": {"d": {"path": "d.jsonl"}},
    "metric": {"m": {"kind": "recorded", "field": "mark", "scale": "number"}},
    "judge": {"kind": "embedded"},
    "embedder": {"kind": "embedded"},
    "target": {"kind": "recorded"},
}
LIVE = {"kind": "openai", "model": "m"}


def composed(**values: Any) -> Composed:
    return Composed({**VALUES, **values}, {"judge": "embedded", "target": "recorded"}, {}, (), (), ())


def complaints(**values: Any) -> list[str]:
    with pytest.raises(UserError) as caught:
        settings_of(composed(**values))
    return [problem.what for problem in caught.value.problems]


def test_a_sound_configuration_is_typed() -> None:
    run = settings_of(composed(limit=3)).run
    assert (run.limit, run.target.kind, list(run.metric)) == (3, "recorded", ["m"])


@pytest.mark.parametrize("generate", [False, 0])
def test_a_live_target_that_is_not_asked_is_refused(generate: Any) -> None:
    assert complaints(generate=generate, target=LIVE) == ["generate is false, so the target would never be asked"]


@pytest.mark.parametrize("generate", [True, "missing"])
def test_recorded_answers_cannot_be_asked_for(generate: Any) -> None:
    assert complaints(generate=generate) == ["generate asks for new answers, but the target is `recorded`"]


def test_choices_are_told_as_yaml_writes_them() -> None:
    assert complaints(generate="maybe") == ["generate: must be false, true, 'missing' or 'demo', not 'maybe'"]


def test_what_does_not_go_together_is_said_with_what_is_wrong_by_itself() -> None:
    told = complaints(limit=2, sample=3, generate=True, seed="x", judge={"kind": "embedded", "calibratd": False})
    assert len(told) == 4
    assert "unknown key judge.calibratd" in told
    assert any(what.startswith("seed:") for what in told)
    assert "limit and sample exclude each other" in told
    assert "generate asks for new answers, but the target is `recorded`" in told


def test_a_target_that_is_wrong_by_itself_is_not_held_against_generate() -> None:
    told = complaints(target={"kind": "opnai"}, limit=2, sample=3)
    assert len(told) == 2
    assert "limit and sample exclude each other" in told
    assert not any("generate" in what for what in told)
