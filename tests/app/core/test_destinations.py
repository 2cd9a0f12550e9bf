"""Where a run would send data to."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.app.core.assemble import assemble, composed_settings
from evalflow.app.core.destinations import destinations
from evalflow.app.core.inspect import inspect

pytestmark = pytest.mark.slow

JUDGED = ["dataset=rag", "metric=[faithfulness,relevance]"]


def places(*overrides: str) -> list[str]:
    return [str(one) for one in destinations(inspect(assemble(composed_settings(overrides, None))))]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none-of-anyone")


def test_nothing_is_sent_by_what_runs_here() -> None:
    assert places(*JUDGED) == []
    assert places("dataset=rag", "metric=exact_match") == []
    assert places(*JUDGED, "generate=true", "target=command", "target.argv=[cat]") == []


def test_each_address_is_named_once_with_its_key_and_what_goes_there() -> None:
    assert places(*JUDGED, "judge=openai", "generate=true", "target=openai", "target.model=bot") == [
        "https://api.openai.com/v1 (key in OPENAI_API_KEY): target openai:bot: questions; "
        "judge openai:gpt-4.1-mini: question, answer, contexts, for faithfulness, relevance"
    ]
    assert places(*JUDGED, "judge=vllm", "judge.model=m", "judge.base_url=http://u@10.1.2.3:8000/v1?x=1") == [
        "http://10.1.2.3:8000/v1 (no key): judge vllm:m: question, answer, contexts, for faithfulness, relevance"
    ]


def test_panels_services_simulators_and_receivers_are_places_too() -> None:
    found = places(
        *JUDGED,
        "judge=panel",
        "judge.members.second.model=small",
        "generate=true",
        "target=http",
        "target.url=http://localhost:9000/ask",
        "otel.endpoint=http://[::1]:4318",
        "otel.text=all",
        "copy_to=s3://bucket/runs",
        "cache.url=postgresql://u@db/x",
    )
    heads = [one.partition("): ")[0] for one in found]
    assert heads == [
        "http://localhost:9000/ask (this machine, no key",
        "https://api.openai.com/v1 (key in OPENAI_API_KEY",
        "http://127.0.0.1:11434/v1 (this machine, no key",
        "http://[::1]:4318 (this machine, no key",
        "postgresql://db/x (no key",
        "s3://bucket/runs (no key",
    ]
    assert found[3].endswith("otel: scores, reasons, questions and answers")


def test_an_embedder_is_a_place(tmp_path: Path) -> None:
    found = places(
        "dataset=rag", "metric=semantic_similarity", "embedder=openai", "embedder.base_url=http://e.example/v1"
    )
    assert found == [
        "http://e.example/v1 (key in OPENAI_API_KEY): embedder openai:text-embedding-3-small: answer, reference, for "
        "semantic_similarity"
    ]
