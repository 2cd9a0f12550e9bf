"""A judge as one cell sees it: every ask goes through, and what it took is added up."""

from __future__ import annotations

from dataclasses import replace

from evalflow.bill import Bill
from evalflow.errors import CallError
from evalflow.protocols import Judge
from evalflow.records import Ask, Outcome, Reply, Usage
from evalflow.run.tally import Tally


class Meter:
    """Implements Judge around another one, and fills usage, cost and time into the cell's outcome.

    Args:
        judge: Who answers.
        tally: The run's counts; every call is added to them.
    """

    def __init__(self, judge: Judge, tally: Tally) -> None:
        self._judge = judge
        self._tally = tally
        self._usage: Usage | None = None
        self._cost = 0.0
        self._latency = 0.0
        self._calls = 0
        self._cached = 0
        self._unpriced = False
        self._requests = 0
        self._reasks = 0
        self._sent = Usage()
        self._saved: float | None = 0.0
        self._paid: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The judge's column value."""
        return self._judge.name

    @property
    def nature(self) -> str:
        """What the judge is."""
        return self._judge.nature

    @property
    def identity(self) -> str:
        """The judge's identity."""
        return self._judge.identity

    @property
    def calibrated(self) -> bool:
        """Whether a threshold on its scores means anything."""
        return self._judge.calibrated

    @property
    def weighted(self) -> bool:
        """Whether scores are always expectations."""
        return self._judge.weighted

    @property
    def tasks(self) -> frozenset[str] | None:
        """The tasks it can answer."""
        return self._judge.tasks

    @property
    def remote(self) -> bool:
        """Whether it sends what it is asked to an endpoint."""
        return self._judge.remote

    def explain_refusal(self, task: str | None) -> str | None:
        """Why the judge cannot answer a task."""
        return self._judge.explain_refusal(task)

    async def ask(self, ask: Ask) -> Reply:
        """Ask the judge, and count; a call that failed has been paid for too."""
        try:
            reply = await self._judge.ask(ask)
        except CallError as error:
            if error.requests:
                self._paid += error.paid
                self._add(error.requests, error.usage, error.cost_usd, error.latency_s)
            raise
        self._tally.count_saved(reply.saved_usd)
        self._paid += reply.paid
        self._saved = None if self._saved is None or reply.saved_usd is None else self._saved + reply.saved_usd
        if reply.cached:
            self._cached += 1
            self._tally.cached += 1
        else:
            self._tally.reasks += reply.reasks
            self._reasks += reply.reasks
        self._add(reply.requests, reply.usage, reply.cost_usd, reply.latency_s)
        return reply

    async def close(self) -> None:
        """Nothing: the judge outlives the cell."""

    def fill(self, outcome: Outcome) -> Outcome:
        """The outcome with what its calls took; unchanged where the judge was not asked."""
        if not self._calls:
            return outcome
        return replace(
            outcome,
            usage=self._usage,
            cost_usd=self.cost_usd,
            latency_s=self._latency,
            cached=self._cached == self._calls,
        )

    @property
    def cost_usd(self) -> float | None:
        """What its calls cost; None where one has no known price."""
        return None if self._unpriced else self._cost

    def bill(self) -> Bill:
        """What its calls took, in full."""
        sent = self._sent
        return Bill(
            requests=self._requests,
            reasks=self._reasks,
            input_tokens=sent.input_tokens,
            output_tokens=sent.output_tokens,
            remembered=self._cached,
            saved_usd=self._saved,
            paid=self._paid,
        )

    def _add(self, requests: int, usage: Usage | None, cost_usd: float | None, latency_s: float) -> None:
        self._calls += 1
        self._latency += latency_s
        self._tally.requests += requests
        self._requests += requests
        if usage:
            self._usage = usage + (self._usage or Usage())
        if cost_usd is None:
            self._unpriced = True
        else:
            self._cost += cost_usd
        if requests:
            self._sent += usage or Usage()
            self._tally.count_call(usage, cost_usd)
