"""An embedder as a judge, and a judge with an embedder for metrics that need both."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from pydantic import BaseModel

from evalflow.errors import CallError, JudgeError
from evalflow.protocols import Embedder, Judge
from evalflow.records import EMBED, Ask, JudgeInfo, Reply


class EmbeddingJudge:
    """Implements Judge: the `results` of a reply are the vectors of an ask's items.

    Args:
        embedder: Makes the vectors.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.info = replace(embedder.info, tasks=frozenset({EMBED}), limits="an embedder makes vectors")

    async def ask(self, ask: Ask) -> Reply:
        """The vectors of the ask's items.

        Raises:
            JudgeError: They could not be embedded.
            InfrastructureError, BudgetError: No further call can be made.
        """
        refusal = self.info.explain_refusal(ask.task)
        if refusal:
            raise JudgeError("unsupported", f"{ask.metric}, step {ask.step}: {refusal}")
        try:
            made = await self._embedder.embed([str(item) for item in ask.items or ()])
        except CallError as error:
            raise JudgeError(error.error_type, str(error), error.raw, error.spend) from None
        # Not validated: a vector has hundreds of numbers, and the embedder has checked every one.
        parsed: BaseModel = ask.reply_model.model_construct(results=made.vectors)
        return Reply(
            parsed=parsed,
            raw="",
            requests=made.requests,
            usage=made.usage,
            cost_usd=made.cost_usd,
            saved_usd=made.saved_usd,
            latency_s=made.latency_s,
            cached=made.cached,
            identity=self.info.identity,
        )

    async def close(self) -> None:
        """Release the embedder's connections."""
        await self._embedder.close()


class JudgeWithEmbedder:
    """Implements Judge: the embedder makes vectors, and the judge answers everything else.

    Scores depend on both, and so do the name, the identity and whether thresholds apply.

    Args:
        judge: Answers prompts.
        embedder: Makes vectors.
    """

    def __init__(self, judge: Judge, embedder: Judge) -> None:
        self._judge = judge
        self._embedder = embedder
        one, other = judge.info, embedder.info
        self.info = JudgeInfo(
            name=f"{one.name} + {other.name}",
            nature=f"{one.nature}; {other.nature}",
            identity=hashlib.sha256(f"{one.identity} {other.identity}".encode()).hexdigest()[:16],
            calibrated=one.calibrated and other.calibrated,
            remote=one.remote or other.remote,
            weighted=one.weighted,
            tasks=None if one.tasks is None else one.tasks | (other.tasks or frozenset()),
            limits=one.limits,
        )

    async def ask(self, ask: Ask) -> Reply:
        """Pass the ask to the judge or the embedder.

        Raises:
            JudgeError: The question could not be answered.
            InfrastructureError, BudgetError: No further call can be made.
        """
        makes_vectors = ask.task in (self._embedder.info.tasks or ())
        return await (self._embedder if makes_vectors else self._judge).ask(ask)

    async def close(self) -> None:
        """Do nothing: the creators of both close them."""
