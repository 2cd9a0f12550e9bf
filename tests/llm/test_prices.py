"""List prices: offline, by address, and never for what somebody serves himself."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest

from evalflow.config.judges import EmbeddedJudgeConfig, OpenAIJudgeConfig, Price
from evalflow.llm.prices import list_price, price_facts, priced


def judge(**keys: Any) -> OpenAIJudgeConfig:
    return OpenAIJudgeConfig.model_validate({"kind": "openai", "model": "gpt-4.1-mini", **keys})


@pytest.mark.parametrize(
    ("model", "base_url", "listed_as"),
    [
        ("gpt-4.1-mini", "https://api.openai.com/v1", "openai/gpt-4.1-mini"),
        ("gpt-4.1-mini-2025-04-14", "https://api.openai.com/v1", "openai/gpt-4.1-mini"),
        ("claude-sonnet-4-6", "https://api.anthropic.com/v1", "anthropic/claude-sonnet-4-6"),
        ("openai/gpt-4.1-mini", "https://openrouter.ai/api/v1", "openrouter/openai/gpt-4.1-mini"),
        ("gpt-4.1-mini", "https://mine.openai.azure.com/openai/v1", "azure/gpt-4.1-mini"),
    ],
)
def test_known_providers_are_known_by_their_address(model: str, base_url: str, listed_as: str) -> None:
    price = list_price(model, base_url)
    assert price is not None
    assert price.listed_as == listed_as
    assert price.library == f"genai-prices {metadata.version('genai-prices')}"
    assert 0 < price.input_per_million < price.output_per_million < 1000


@pytest.mark.parametrize(
    "base_url",
    [
        "http://127.0.0.1:8000/v1",
        "http://localhost:11434/v1",
        "http://[::1]/v1",
        "http://10.0.0.7/v1",
        "http://vllm:8000/v1",
        "https://models.example.org/v1",
    ],
)
def test_what_somebody_serves_himself_has_no_list_price(base_url: str) -> None:
    assert list_price("gpt-4.1-mini", base_url) is None


def test_a_model_that_nobody_lists_has_none() -> None:
    assert list_price("my-own-tune", "https://api.openai.com/v1") is None


def test_what_the_configuration_says_comes_first() -> None:
    own = judge(price=Price(input_per_million=0, output_per_million=7))
    assert priced(own) is own
    assert price_facts(own) == {"source": "yaml", "input_per_million": 0.0, "output_per_million": 7.0}
    facts = price_facts(priced(judge()))
    assert facts is not None
    assert (facts["source"], facts["listed_as"]) == ("library", "openai/gpt-4.1-mini")
    assert price_facts(priced(judge(base_url="http://127.0.0.1:1/v1"))) == {"source": "none"}
    assert price_facts(priced(EmbeddedJudgeConfig(kind="embedded"))) is None


def test_input_from_the_providers_cache_has_its_own_price() -> None:
    price = list_price("gpt-4.1-mini", "https://api.openai.com/v1")
    assert price is not None
    assert price.cached_input_per_million == pytest.approx(0.1)
    assert price.saved(1000) == pytest.approx(0.3e-3)
    assert price.by_batch().cached_input_per_million == pytest.approx(0.05)
    assert Price(input_per_million=1, output_per_million=1).saved(1000) is None
