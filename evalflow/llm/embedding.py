"""An embedder in the place of a judge: it answers the one task `embed`, and its scores are booked like a judge's."""

from __future__ import annotations

from pydantic import BaseModel

from evalflow.errors import CallError, JudgeError
from evalflow.protocols import Embedder
from evalflow.records import EMBED, Ask, Reply


class EmbeddingJudge:
    """Implements Judge: the `results` of a reply are the vectors of an ask's items.

    Args:
        embedder: Who makes the vectors.
    """

    weighted = False
    tasks = frozenset({EMBED})

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """The embedder's."""
        return self._embedder.name

    @property
    def nature(self) -> str:
        """What the embedder is."""
        return self._embedder.nature

    @property
    def identity(self) -> str:
        """The embedder's."""
        return self._embedder.identity

    @property
    def calibrated(self) -> bool:
        """Whether a threshold on similarities means anything."""
        return self._embedder.calibrated

    @property
    def remote(self) -> bool:
        """Whether texts are sent to an endpoint."""
        return self._embedder.remote

    def explain_refusal(self, task: str | None) -> str | None:
        """Why it cannot answer: it makes vectors only."""
        return None if task == EMBED else f"an embedder makes vectors and cannot answer {task!r}"

    async def ask(self, ask: Ask) -> Reply:
        """The vectors of the ask's items.

        Raises:
            JudgeError: They could not be embedded.
            InfrastructureError, BudgetError: No further call can be made.
        """
        refusal = self.explain_refusal(ask.task)
        if refusal:
            raise JudgeError("unsupported", f"{ask.metric}, step {ask.step}: {refusal}")
        try:
            made = await self._embedder.embed([str(item) for item in ask.items or ()])
        except CallError as error:
            raise JudgeError(
                error.error_type,
                str(error),
                error.raw,
                requests=error.requests,
                usage=error.usage,
                cost_usd=error.cost_usd,
                latency_s=error.latency_s,
            ) from None
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
            identity=self.identity,
        )

    async def close(self) -> None:
        """Release the embedder's connections."""
        await self._embedder.close()
