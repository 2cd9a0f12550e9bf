"""Every YAML file that ships can be chosen, and passes the check."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.app.assemble import assemble
from evalflow.app.catalogue import options
from evalflow.app.inspect import inspect
from evalflow.app.settings import settings_of
from evalflow.config.load import compose

LLM = ("judge=vllm", "judge.model=m", "judge.base_url=http://127.0.0.1:9/v1")
DATASET = {"jailbreak_guardrails": "jailbreak_guardrails"}


def names(group: str) -> list[str]:
    return [option.name for option in options(None, group)]


@pytest.mark.parametrize("metric", names("metric"))
def test_metric(metric: str) -> None:
    overrides = [f"dataset={DATASET.get(metric, 'rag')}", f"metric={metric}", "limit=3", *LLM]
    found = inspect(assemble(settings_of(compose(overrides))))
    assert found.cells == 3


@pytest.mark.parametrize("dataset", names("dataset"))
def test_dataset(dataset: str) -> None:
    settings = settings_of(compose([f"dataset={dataset}", "metric=bias", "generate=demo", *LLM]))
    assert sum(1 for _ in assemble(settings).cases()) >= 12


@pytest.mark.parametrize("experiment", names("experiment"))
def test_experiment(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    settings = settings_of(compose([f"experiment={experiment}"]))
    assert inspect(assemble(settings)).cells > 0


def test_every_option_says_what_it_is() -> None:
    silent = [f"{option.group}/{option.name}" for option in options(None) if not option.description]
    assert silent == []


def test_metric_files_begin_with_their_package_line() -> None:
    for group in ("metric", "dataset"):
        for option in options(None, group):
            assert option.text.startswith(f"# @package {group}.{option.name}\n"), option.file


def test_no_option_name_stands_for_two_files() -> None:
    root = Path(__file__).parents[2] / "conf"
    assert not list(root.rglob("*.yml"))
