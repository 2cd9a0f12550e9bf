"""Questions to judges and embedders, and their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.frozen import record
from evalflow.records.answers import Message
from evalflow.records.spend import Spend, Usage

if TYPE_CHECKING:
    from pydantic import BaseModel

EMBED = "embed"
"""The task of an ask for vectors, one for each item; the embedder answers it."""
EVIDENCE_TASKS = frozenset({"extract_claims", "verify_claims", "rate_relevance"})
"""The tasks that the embedded judge can answer; a language model can answer any."""

# How likely each value of a reply's field is: {"verdict": {"supported": 0.8, "contradicted": 0.2}}.
Distribution = Mapping[str, Mapping[Any, float]]


@record(kw_only=True)
class Ask:
    """One question to a judge.

    Attributes:
        metric, step: Who asks; step is the step's id.
        task: What a judge without language can answer (such as extract_claims; embed: the embedder), or None.
        messages: The rendered prompt.
        reply_model: The pydantic model of the reply; where `items` is given, of a list `results`, one entry per item.
        variables: The step's template variables. A step with a task also has `source` (extract_claims: the text
            to split) or `against` (verify_claims: the text, or contexts, to hold claims against).
        items: What a one_per step goes over, else None.
        logprobs, samples: Whether token probabilities are wanted, and how many replies to draw if none can be had.
        repeat: The judge's repeat, from 0; makes repeats distinct in caches.
    """

    metric: str
    step: str
    task: str | None
    messages: tuple[Message, ...]
    reply_model: type[BaseModel]
    variables: Mapping[str, Any]
    items: tuple[Any, ...] | None = None
    samples: int = 1
    logprobs: bool = False
    repeat: int = 0

    @property
    def embeds(self) -> bool:
        """Whether it asks for vectors, which the embedder makes."""
        return self.task == EMBED


@record(kw_only=True)
class JudgeInfo:
    """What is known of a judge or an embedder before it is asked.

    Attributes:
        name: The column value.
        nature: One phrase on what it is, shown over every table.
        identity: A digest of all that decides its replies.
        calibrated: Whether a threshold on its scores means anything.
        remote: Whether it sends what it is asked to an endpoint, where it takes requests, tokens and perhaps money.
        weighted: Whether scores are always expectations over its probabilities.
        tasks: The tasks it can answer; None: anything.
        limits: Why it cannot answer anything else, as the beginning of a sentence.
    """

    name: str
    nature: str
    identity: str
    calibrated: bool = True
    remote: bool = True
    weighted: bool = False
    tasks: frozenset[str] | None = None
    limits: str = "it"

    def explain_refusal(self, task: str | None) -> str | None:
        """Why it cannot answer a step of this task (None: a free prompt), and what to do; None where it can."""
        if self.tasks is None or task in self.tasks:
            return None
        asked = f"the task {task!r}" if task else "a free prompt"
        known = ", ".join(sorted(self.tasks))
        return f"{self.limits} and cannot answer {asked}, only {known}; name an LLM judge"


@record(kw_only=True)
class Reply:
    """A judge's answer to an Ask, valid against its reply model.

    Attributes:
        parsed, raw: The validated reply, and the text it was parsed from.
        probabilities: One distribution per item (one in all without items); None where the judge gives none.
        samples, failed: How many replies they are frequencies of, and how many more were asked for and failed.
        mass: By field, the valid values' part of the tokens'.
        reasks, requests: Invalid replies sent back before this one; answered calls in all, none for a cached reply.
        usage, cost_usd: Summed over the re-asks; None where unknown. A cached reply cost nothing.
        latency_s: Seconds, waiting for a free slot left out; of a cached reply, when it was made.
        cached, saved_usd, paid: Whether no call was made for it; what it had cost then; its paid calls (see `Spend`).
    """

    parsed: BaseModel
    raw: str
    probabilities: Sequence[Distribution] | None = None
    samples: int = 1
    failed: int = 0
    mass: Mapping[str, float] | None = None
    reasks: int = 0
    requests: int = 1
    usage: Usage | None = None
    cost_usd: float | None = None
    saved_usd: float | None = 0.0
    paid: tuple[int, ...] = ()
    latency_s: float = 0.0
    cached: bool = False
    identity: str = ""

    @property
    def spend(self) -> Spend:
        """What it took."""
        return Spend(
            requests=self.requests,
            reasks=0 if self.cached else self.reasks,
            usage=self.usage,
            cost_usd=self.cost_usd,
            latency_s=self.latency_s,
            cached=int(self.cached),
            saved_usd=self.saved_usd,
            paid=self.paid,
        )


@record(kw_only=True)
class Embedded:
    """Texts as vectors, and what that took.

    Attributes:
        vectors: One for each text, all of the same length.
        requests, usage, cost_usd, latency_s, cached, saved_usd: As in a Reply; of a request that carried texts of
            several calls, this call's share.
    """

    vectors: Sequence[Sequence[float]]
    requests: int = 0
    usage: Usage | None = None
    cost_usd: float | None = 0.0
    saved_usd: float | None = 0.0
    latency_s: float = 0.0
    cached: bool = False
