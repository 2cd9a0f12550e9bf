from __future__ import annotations

from decimal import Decimal
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from evalflow.config.judges import EmbeddedJudgeConfig, OpenAIJudgeConfig
from evalflow.config.targets import OpenAITargetConfig, RecordedTargetConfig
from evalflow.errors import UserError
from evalflow.llm.registry import JUDGE_KINDS, build_judge
from evalflow.prompts import Prompts
from evalflow.targets.registry import TARGET_KINDS, build_target
from evalflow.targets.reply import Form

KEYLESS = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """What installed packages claim to bring along; a test fills it."""
    claimed: list[EntryPoint] = []
    monkeypatch.setattr("evalflow.doors.installed_points", lambda: EntryPoints(claimed))
    return claimed


def test_each_kind_has_its_model_and_its_default_name() -> None:
    assert JUDGE_KINDS.config("openai") is OpenAIJudgeConfig
    assert JUDGE_KINDS.config("embedded") is EmbeddedJudgeConfig
    assert build_judge(OpenAIJudgeConfig.model_validate(KEYLESS), "ollama").info.name == "ollama:m"
    assert build_judge(OpenAIJudgeConfig.model_validate({**KEYLESS, "name": "x"}), "ollama").info.name == "x"
    assert build_judge(EmbeddedJudgeConfig(kind="embedded"), "embedded").info.name == "embedded"


@pytest.mark.parametrize(
    ("generate", "name"), [(False, "bot:m"), (True, "bot:m"), ("missing", "recorded+bot:m"), ("demo", "demo")]
)
def test_what_is_generated_decides_the_target(generate: Any, name: str) -> None:
    config = OpenAITargetConfig.model_validate(KEYLESS)
    assert build_target(config, "bot", Prompts([]), {"d": Form("answer")}, generate).name == name


def test_recorded_answers_are_called_so() -> None:
    assert TARGET_KINDS.config("recorded") is RecordedTargetConfig
    assert build_target(RecordedTargetConfig(kind="recorded"), "recorded", Prompts([]), {}, False).name == "recorded"


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'openai'"):
        JUDGE_KINDS.config("opnai")
    with pytest.raises(UserError, match="no target kind 'http9'"):
        TARGET_KINDS.config("http9")


def test_a_package_may_bring_a_kind_along(plugins: list[EntryPoint]) -> None:
    plugins.append(EntryPoint("oracle", "decimal:Decimal", "evalflow.judges"))
    assert JUDGE_KINDS.names() == ["openai", "panel", "cascade", "oracle"]
    assert JUDGE_KINDS.get("oracle") is Decimal


@pytest.mark.parametrize("names", [["openai"], ["oracle", "oracle"]])
def test_two_meanings_of_one_kind_are_refused(names: list[str], plugins: list[EntryPoint]) -> None:
    plugins.extend(EntryPoint(name, "decimal:Decimal", "evalflow.judges") for name in names)
    with pytest.raises(UserError, match=r"is defined by .* and by decimal:Decimal"):
        JUDGE_KINDS.get("openai")


def test_a_package_that_cannot_be_imported_is_named(plugins: list[EntryPoint]) -> None:
    plugins.append(EntryPoint("oracle", "no_such_module:X", "evalflow.judges"))
    with pytest.raises(UserError, match="cannot be loaded from no_such_module:X"):
        JUDGE_KINDS.get("oracle")
    assert JUDGE_KINDS.config("openai") is OpenAIJudgeConfig
