"""A judge and an embedder as one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from evalflow.addons.embedded.judge import EmbeddedJudge
from evalflow.config.judges import EmbeddedJudgeConfig
from evalflow.llm.panel import EmbeddingJudge, JudgeWithEmbedder
from evalflow.records import EMBED, Ask, Embedded, JudgeInfo

pytestmark = pytest.mark.anyio


class Vectors(BaseModel):
    results: list[list[float]]


class Embedder:
    def __init__(self, calibrated: bool = True) -> None:
        self.info = JudgeInfo(name="vectors", nature="written vectors", identity="e1", calibrated=calibrated)

    async def embed(self, texts: Any) -> Embedded:
        return Embedded(vectors=[[1.0]] * len(texts))

    async def close(self) -> None:
        raise AssertionError("it belongs to another")


@pytest.fixture
def judge() -> EmbeddedJudge:
    return EmbeddedJudge(EmbeddedJudgeConfig(kind="embedded", name="overlap", calibrated=True))


def test_it_is_named_after_both_and_is_what_both_are(judge: EmbeddedJudge) -> None:
    both = JudgeWithEmbedder(judge, EmbeddingJudge(Embedder()))
    assert both.info.name == "overlap + vectors"
    assert both.info.nature.endswith("; written vectors")
    assert both.info.identity not in (judge.info.identity, "e1")
    assert (both.info.calibrated, both.info.remote) == (True, True)
    assert both.info.tasks == judge.tasks | {EMBED}
    assert JudgeWithEmbedder(judge, EmbeddingJudge(Embedder(calibrated=False))).info.calibrated is False


async def test_each_is_asked_what_it_can_answer(judge: EmbeddedJudge) -> None:
    both = JudgeWithEmbedder(judge, EmbeddingJudge(Embedder()))
    ask = Ask(metric="m", step="s", task=EMBED, messages=(), reply_model=Vectors, variables={}, items=("a", "b"))
    assert (await both.ask(ask)).parsed.model_dump() == {"results": [[1.0], [1.0]]}
    assert both.info.explain_refusal(EMBED) is None
    assert "not a language model" in (both.info.explain_refusal(None) or "")
    await both.close()
