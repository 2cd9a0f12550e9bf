"""Embedders: batched, remembered, booked like judges, and refused where they cannot work."""

from __future__ import annotations

import asyncio
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalflow.calls.budget import Budget
from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.judges import OpenAIEmbedderConfig
from evalflow.config.schema import BudgetConfig
from evalflow.errors import BudgetError, CallError, InfrastructureError, JudgeError
from evalflow.llm.embedders import OpenAIEmbedder
from evalflow.llm.panel import EmbeddingJudge
from evalflow.metrics.base import cosines, embedding_ask
from evalflow.records import Usage
from evalflow.testing import Endpoint, Request, embeddings, status, vector
from evalflow.testing.replies import Computed
from tests.llm.conftest import QUICK

pytestmark = pytest.mark.anyio
PRICE = {"input_per_million": 1.0, "output_per_million": 0.0}
Build = Callable[..., OpenAIEmbedder]


@pytest.fixture
async def build() -> AsyncIterator[Build]:
    made: list[OpenAIEmbedder] = []

    def make(base_url: str, session: CallSession | None = None, **keys: Any) -> OpenAIEmbedder:
        fixed = {"kind": "openai", "model": "e", "base_url": base_url, "api_key_env": None}
        made.append(OpenAIEmbedder(OpenAIEmbedderConfig.model_validate({**fixed, **keys}), "e", session, policy=QUICK))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_texts_that_come_together_go_out_together(build: Build) -> None:
    async with Endpoint(embed=lambda _: embeddings()) as endpoint:
        embedder = build(endpoint.url, price=PRICE)
        both = [asyncio.create_task(embedder.embed([f"text {n}", f"other {n}"])) for n in range(3)]
        made = [await one for one in both]
    assert len(endpoint.requests) == 1
    assert len(endpoint.requests[0].inputs) == 6
    assert sum(one.requests for one in made) == 1
    tokens = sum(len(text) for text in endpoint.requests[0].inputs) // 4
    assert sum((one.usage or Usage()).input_tokens for one in made) == tokens, "the shares add up to the request"
    assert sum(one.cost_usd or 0 for one in made) == pytest.approx(tokens / 1e6)
    assert list(made[2].vectors[1]) == pytest.approx(vector("other 2"), rel=1e-6)


async def test_a_batch_has_a_largest_size(build: Build) -> None:
    async with Endpoint(embed=lambda _: embeddings()) as endpoint:
        await build(endpoint.url, batch=2).embed(["a", "b", "c", "d", "e"])
    assert [len(request.inputs) for request in endpoint.requests] == [2, 2, 1]


async def test_what_was_embedded_is_not_asked_again(build: Build, tmp_path: Path) -> None:
    async with Endpoint(embed=lambda _: embeddings()) as endpoint:
        for run in ("one", "two"):
            session = CallSession(single_flight=SingleFlight(Cache(tmp_path / "cache.db", run_id=run)))
            made = await build(endpoint.url, session, price=PRICE).embed(["a text of some length", "another"])
            session.close()
            assert made.cached is (run == "two")
    assert len(endpoint.requests) == 1
    assert (made.requests, made.cost_usd) == (0, 0.0)
    assert made.saved_usd
    assert list(made.vectors[1]) == pytest.approx(vector("another"), rel=1e-6)


async def test_one_text_that_is_refused_does_not_spoil_the_others(build: Build) -> None:
    def script(request: Any) -> Any:
        return status(400) if "bad" in request.inputs else embeddings()

    async with Endpoint(embed=script) as endpoint:
        embedder = build(endpoint.url)
        good, bad = (asyncio.create_task(embedder.embed([text])) for text in ("good", "bad"))
        assert (await good).vectors
        with pytest.raises(CallError) as caught:
            await bad
    assert caught.value.error_type == "bad_request"


async def test_what_was_embedded_beside_a_text_that_is_refused_is_paid_all_the_same(build: Build) -> None:
    async with Endpoint(embed=lambda request: status(400) if "bad" in request.inputs else embeddings()) as endpoint:
        judge = EmbeddingJudge(build(endpoint.url, price=PRICE))
        ask = embedding_ask("m", "good", "bad")
        with pytest.raises(JudgeError) as caught:
            await judge.ask(ask)
    error = caught.value
    assert error.spend
    assert (error.error_type, error.spend.requests) == ("bad_request", 1)
    assert error.spend.usage
    assert error.spend.cost_usd


@pytest.mark.parametrize("vectors", [[[1.0]], [[1.0], [1.0], [1.0]], [[0.0], [0.0]], [[], [1.0]]])
async def test_vectors_that_make_no_sense_are_refused(build: Build, vectors: list[list[float]]) -> None:
    async with Endpoint(embed=lambda _: embeddings(vectors)) as endpoint:
        with pytest.raises(Exception, match="embedding"):
            await build(endpoint.url).embed(["a", "b"])


async def test_it_is_held_against_the_budget(build: Build) -> None:
    async with Endpoint(embed=lambda _: embeddings()) as endpoint:
        session = CallSession(budget=Budget(BudgetConfig(requests=1)))
        embedder = build(endpoint.url, session)
        await embedder.embed(["a"])
        with pytest.raises(BudgetError):
            await embedder.embed(["b"])


async def test_the_cosine_through_an_embedder_in_the_place_of_a_judge(build: Build) -> None:
    async with Endpoint(embed=lambda _: embeddings([[1.0, 0.0], [1.0, 1.0]])) as endpoint:
        judge = EmbeddingJudge(build(endpoint.url))
        assert await cosines(judge, "m", "a", ["b"]) == [pytest.approx(0.5**0.5)]
        assert (judge.info.name, judge.info.remote, judge.info.tasks) == ("e", True, {"embed"})
        with pytest.raises(JudgeError, match="cannot answer"):
            await judge.ask(replace(embedding_ask("m", "a"), task=None))


@pytest.mark.parametrize("encoded", [False, True])
async def test_a_vector_may_be_nested_or_encoded(encoded: bool, build: Build) -> None:
    def shape(*numbers: float) -> Any:
        return b64encode(struct.pack("<3f", *numbers)).decode() if encoded else [numbers]

    def made(request: Request) -> Any:
        data = [{"embedding": shape(len(text), -0.5, 1.0), "index": 0} for text in request.inputs]
        return Computed(make=lambda _: {"data": data})

    async with Endpoint(embed=made) as endpoint:
        found = await build(endpoint.url).embed(["one", "three"])
    assert [list(vector) for vector in found.vectors] == [[3.0, -0.5, 1.0], [5.0, -0.5, 1.0]]


@pytest.mark.parametrize("given", ["", "no base64", "AAAA", [], [[1.0], [2.0]], {"0": 1.0}, None, ["1"], [0.0, 0.0]])
async def test_what_is_no_vector_is_malformed(given: Any, build: Build) -> None:
    async with Endpoint(embed=lambda _: Computed(make=lambda _: {"data": [{"embedding": given}]})) as endpoint:
        with pytest.raises((CallError, InfrastructureError), match="an embedding"):
            await build(endpoint.url).embed(["one"])
