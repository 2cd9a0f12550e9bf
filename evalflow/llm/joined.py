"""A judge and an embedder as one: for a metric that needs words and vectors for the same score."""

from __future__ import annotations

import hashlib

from evalflow.protocols import Judge
from evalflow.records import Ask, Reply


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
