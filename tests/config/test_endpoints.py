"""Every shipped judge and target composes, is valid, and shows every key that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalflow.config.judges import EndpointConfig, OpenAIJudgeConfig
from evalflow.config.load import compose
from evalflow.config.targets import ReplyConfig
from evalflow.errors import UserError
from evalflow.llm.registry import JUDGE_KINDS
from evalflow.paths import share_dir
from evalflow.targets.registry import TARGET_KINDS

pytestmark = pytest.mark.slow

RUN = ["dataset=rag", "metric=faithfulness"]
WANTED = {  # what a file leaves to the user, by group and name
    ("judge", "azure"): {"model", "base_url"},
    ("judge", "cascade"): {"members.second.model"},
    ("judge", "ollama"): {"model"},
    ("judge", "openrouter"): {"model"},
    ("judge", "panel"): {"members.second.model"},
    ("judge", "vllm"): {"model"},
    ("target", "agent"): {"model", "tools"},
    ("target", "command"): {"argv"},
    ("target", "http"): {"url"},
    ("target", "ollama"): {"model"},
    ("target", "python"): {"call"},
    ("target", "vllm"): {"model"},
}
OWN = ("judge", "target")
"""Takes everything from the target."""
OF_OTHERS = ("panel", "cascade")
"""Judges that are made of others."""
KEYS = {
    "openai": "OPENAI_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "gemini": "GEMINI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "ollama": None,
    "vllm": None,
}


def _files() -> list[tuple[str, str]]:
    files: list[Path] = []
    for group in ("judge", "target"):
        files += sorted((share_dir() / "conf" / group).glob("*.yaml"))
    return [(file.parent.name, file.stem) for file in files if not file.stem.startswith("_")]


def _composed(group: str, name: str) -> dict[str, Any]:
    given = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "url": "http://h", "argv": "[ls]", "call": "a:b"}
    given["tools"] = "{look: {description: Look., parameters: {type: object}, argv: [ls]}}"
    wanted = [f"{group}.{key}={given[key.rpartition('.')[2]]}" for key in WANTED.get((group, name), ())]
    live = (group == "target" and name != "recorded") or (group, name) == OWN
    generate = ["generate=true"] if live else []
    target = ["target=openai"] if (group, name) == OWN else []
    return compose([*RUN, f"{group}={name}", *wanted, *generate, *target]).values[group]


def test_the_judge_can_be_the_targets_own_model() -> None:
    target = ["target=vllm", "target.model=theirs", "target.base_url=http://127.0.0.1:9/v1", "generate=true"]
    judge = compose([*RUN, "judge=target", *target]).values["judge"]
    assert (judge["model"], judge["base_url"], judge["api_key_env"]) == ("theirs", "http://127.0.0.1:9/v1", None)


def test_a_target_without_a_model_cannot_lend_it_to_the_judge() -> None:
    with pytest.raises(UserError, match=r"judge\.\w+: .* the target has no \w+\n  hint: .*target=openai"):
        compose([*RUN, "judge=target"])


def test_the_documented_endpoints_are_there() -> None:
    assert {name for group, name in _files() if group == "judge"} == {"embedded", "target", *OF_OTHERS, *KEYS}
    assert {"recorded", "openai", "http", "command", "python"} <= {
        name for group, name in _files() if group == "target"
    }


@pytest.mark.parametrize(("group", "name"), _files())
def test_a_file_is_valid_and_shows_every_key(group: str, name: str) -> None:
    values = _composed(group, name)
    if name in OF_OTHERS:
        values["members"] = {key: OpenAIJudgeConfig(**member) for key, member in values["members"].items()}
    model = (JUDGE_KINDS.config if group == "judge" else TARGET_KINDS.config)(values["kind"])
    config = model.model_validate(values)
    assert set(values) | {"title"} == set(model.model_fields)
    if isinstance(config, ReplyConfig):
        assert values["concurrency"] == config.concurrency.model_dump()
    if isinstance(config, EndpointConfig):
        assert config.api_key_env == ("OPENAI_API_KEY" if name == "target" else KEYS.get(name))
        assert values["concurrency"] == config.concurrency.model_dump()


@pytest.mark.parametrize(("group", "name"), _files())
def test_a_file_begins_with_what_it_is(group: str, name: str) -> None:
    first = (share_dir() / "conf" / group / f"{name}.yaml").read_text().splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")
    if KEYS.get(name):
        assert KEYS[name] in first


@pytest.mark.parametrize(("group", "name"), list(WANTED))
def test_what_has_no_sensible_default_is_asked_for(group: str, name: str) -> None:
    with pytest.raises(UserError, match=rf"{group}\.(members\.second\.)?(model|base_url|url|argv|call)"):
        compose([*RUN, f"{group}={name}"])


def test_one_key_can_be_changed_without_a_plus() -> None:
    overrides = [*RUN, "judge=openai", "judge.concurrency.max=100", "judge.thresholds={faithfulness: 0.5}"]
    judge = compose([*overrides, "judge.base_url=http://127.0.0.1:8000/v1", "judge.api_key_env=MY_KEY"]).values["judge"]
    assert judge["concurrency"] == {"start": 8, "max": 100}
    assert (judge["api_key_env"], judge["thresholds"]) == ("MY_KEY", {"faithfulness": 0.5})
