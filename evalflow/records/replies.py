"""Questions to judges and embedders, and their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.frozen import record
from evalflow.records.answers import Message
from evalflow.records.spend import CallCosts

if TYPE_CHECKING:
    from pydantic import BaseModel

EMBED = "embed"
"""The task of an ask for vectors, one for each item; the embedder answers it."""
EVIDENCE_TASKS = frozenset({"extract_claims", "verify_claims", "rate_relevance"})
"""The tasks that the embedded judge can do; a language model can do any."""

# The probability of each value of a reply's field: {"verdict": {"supported": 0.8, "contradicted": 0.2}}.
Distribution = Mapping[str, Mapping[Any, float]]


@record(kw_only=True)
class Ask:
    """One question to a judge.

    Attributes:
        metric, step: The metric and step id that the question comes from.
        task: What a judge without a language model can do (such as extract_claims; embed: the embedder), or None.
        messages: The rendered prompt.
        reply_model: The pydantic model of the reply; where `items` is given, of a list `results`, one entry per item.
        variables: The step's template variables. A step with a task also has `source` (extract_claims: the text to
            split) or `against` (verify_claims: the text, or contexts, to check claims with).
        items: The items of a one_per step, else None.
        logprobs, samples: Whether token probabilities are wanted, and the number of samples if they are not available.
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
    """Properties of a judge or an embedder that are known before it is asked.

    Attributes:
        name: The column value.
        nature: One phrase that describes it, shown above every table.
        identity: A digest of everything that determines its replies.
        calibrated: Whether a threshold on its scores is meaningful.
        remote: Whether it sends data to an endpoint, which takes requests, tokens and perhaps money.
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
        """Why it cannot answer a step of this task (None: a free prompt), and what to do; None if it can."""
        if self.tasks is None or task in self.tasks:
            return None
        asked = f"the task {task!r}" if task else "a free prompt"
        known = ", ".join(sorted(self.tasks))
        return f"{self.limits} and cannot answer {asked}, only {known}; name an LLM judge"


@record(kw_only=True)
class Reply(CallCosts):
    """A judge's answer to an Ask, valid against its reply model.

    Attributes:
        parsed, raw: The validated reply, and the text it was parsed from.
        probabilities: One distribution per item (one in all without items); None if the judge gives none.
        samples, failed: The number of samples behind these frequencies, and how many more were requested and failed.
        mass: By field, the share of the token probability on valid values.
    """

    parsed: BaseModel
    raw: str
    probabilities: Sequence[Distribution] | None = None
    samples: int = 1
    failed: int = 0
    mass: Mapping[str, float] | None = None
    requests: int = 1
    latency_s: float = 0.0
    identity: str = ""


@record(kw_only=True)
class Embedded(CallCosts):
    """Texts as vectors, one per text, all of the same length.

    Its costs are those of this call: of a request that carried texts of several calls, this call's share.
    """

    vectors: Sequence[Sequence[float]]
    cost_usd: float | None = 0.0
    latency_s: float = 0.0
