"""An embedder as a judge, and a judge with an embedder for metrics that need both."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel

from evalflow.errors import CallError, JudgeError
from evalflow.protocols import Embedder, Judge
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


class JudgeWithEmbedder:
    """Implements Judge: the embedder makes the vectors, and the judge answers everything else.

    Its scores rest on both, and so do its name, its identity and whether thresholds count.

    Args:
        judge: Who answers prompts.
        embedder: Who makes vectors, in the place of a judge.
    """

    def __init__(self, judge: Judge, embedder: Judge) -> None:
        self._judge = judge
        self._embedder = embedder

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self._judge.name} + {self._embedder.name}"

    @property
    def nature(self) -> str:
        """What both are."""
        return f"{self._judge.nature}; {self._embedder.nature}"

    @property
    def identity(self) -> str:
        """A digest of both identities."""
        both = f"{self._judge.identity} {self._embedder.identity}"
        return hashlib.sha256(both.encode()).hexdigest()[:16]

    @property
    def calibrated(self) -> bool:
        """Whether a threshold means anything with the one and with the other."""
        return self._judge.calibrated and self._embedder.calibrated

    @property
    def weighted(self) -> bool:
        """Whether the judge's verdicts are always expectations."""
        return self._judge.weighted

    @property
    def tasks(self) -> frozenset[str] | None:
        """The tasks of both; None where the judge can answer any."""
        tasks = self._judge.tasks
        return None if tasks is None else tasks | (self._embedder.tasks or frozenset())

    @property
    def remote(self) -> bool:
        """Whether one of them sends what it is asked to an endpoint."""
        return self._judge.remote or self._embedder.remote

    def explain_refusal(self, task: str | None) -> str | None:
        """Why the one that would be asked cannot answer."""
        return self._for(task).explain_refusal(task)

    async def ask(self, ask: Ask) -> Reply:
        """Have it answered by whom it is for.

        Raises:
            JudgeError: The question could not be answered.
            InfrastructureError, BudgetError: No further call can be made.
        """
        return await self._for(ask.task).ask(ask)

    async def close(self) -> None:
        """Nothing: both are closed by whom they were made by."""

    def _for(self, task: str | None) -> Judge:
        return self._embedder if task in (self._embedder.tasks or ()) else self._judge
