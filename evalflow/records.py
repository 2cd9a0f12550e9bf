"""The values that everything passes along, all frozen; a score is returned, never state on a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from evalflow.bill import NOTHING, Bill
from evalflow.frozen import record

if TYPE_CHECKING:
    from pydantic import BaseModel

Status = Literal["scored", "undefined", "error", "skipped"]
AnswerStatus = Literal["answered", "absent", "error"]
Path = Literal["weighted", "direct", "reasked"]
Direction = Literal["higher_is_better", "lower_is_better"]
# How likely each value of a reply's field is: {"verdict": {"supported": 0.8, "contradicted": 0.2}}.
Distribution = Mapping[str, Mapping[Any, float]]


@record()
class Message:
    """One turn of a conversation."""

    role: str
    content: str
    metadata: Mapping[str, Any] | None = None


@record()
class Context:
    """A piece of text that the target was given, or found, to answer from."""

    text: str
    title: str | None = None
    path: str | None = None


@record()
class Usage:
    """Tokens of one or several calls."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@record(kw_only=True)
class Case:
    """One thing to evaluate: a conversation that ends with a user message, and what is known about it.

    A field that the data does not have is None (never an empty value): metrics that need it are skipped.

    Attributes:
        dataset, index: The dataset it came from, and its position in it, from 0.
        id, messages: The file's own id, else a hash of the content, unique in the dataset; and the conversation.
        answer, reference: The recorded answer, and the ideal one.
        contexts: What was retrieved; an empty tuple means that nothing was found.
        expected, actual: The true label and the recorded prediction; or the expected ids and the retrieved ones.
        metadata, demo_answer: What the target sent beside its answer; an example answer to try metrics on.
        checks: Checks this case brings along: identifier, enabled, params.
        tags, group: Names for slicing, hierarchical with " > "; the cluster for error bars (source, user, template).
        labels, vars: People's judgements that stand in the data, by metric name; and all other columns.
    """

    dataset: str
    index: int
    id: str
    messages: tuple[Message, ...] = ()
    answer: str | None = None
    reference: str | None = None
    contexts: tuple[Context, ...] | None = None
    expected: Any = None
    actual: Any = None
    metadata: Mapping[str, Any] | None = None
    demo_answer: Message | None = None
    checks: tuple[Mapping[str, Any], ...] | None = None
    tags: tuple[str, ...] = ()
    group: str | None = None
    labels: Mapping[str, Any] | None = None
    vars: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def question(self) -> str | None:
        """The last user message, or None."""
        return next((m.content for m in reversed(self.messages) if m.role == "user"), None)

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages before the last user message."""
        last = max((i for i, m in enumerate(self.messages) if m.role == "user"), default=0)
        return self.messages[:last]


@record(kw_only=True)
class Answer:
    """What a target said to a case, once.

    Attributes:
        dataset, index, case_id, target, target_repeat: Which answer it is; target_repeat counts from 0.
        status, error_type, error: answered; absent (recorded data has none); error (generation failed), and why.
        messages: The conversation as played, without the final answer.
        requests, paid: Calls that were answered for it, and so have been paid; their digests (see `Bill`).
        usage, cost_usd, latency_s (seconds): None where unknown, and for recorded answers; never a false 0. A cached
            answer cost nothing, and took as long as when it was made.
        cached, saved_usd: Whether no call was made for it, and what it had cost then; None where unknown.
    """

    dataset: str
    index: int
    case_id: str
    target: str
    target_repeat: int = 0
    status: AnswerStatus = "answered"
    messages: tuple[Message, ...] = ()
    answer: str | None = None
    actual: Any = None
    contexts: tuple[Context, ...] | None = None
    metadata: Mapping[str, Any] | None = None
    requests: int = 0
    usage: Usage | None = None
    cost_usd: float | None = None
    saved_usd: float | None = 0.0
    paid: tuple[int, ...] = ()
    latency_s: float | None = None
    cached: bool = False
    error_type: str | None = None
    error: str | None = None

    @property
    def generated(self) -> bool:
        """Whether a target made it, or tried to; False for what stands in the data."""
        return self.status == "error" or self.requests > 0 or self.latency_s is not None


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


@record(kw_only=True)
class Reply:
    """A judge's answer to an Ask, valid against its reply model.

    Attributes:
        parsed, raw: The validated reply, and the text it was parsed from.
        probabilities: One distribution per item (one in all without items); None where the judge gives none.
        samples, mass: How many replies they are frequencies of; by field, the valid values' part of the tokens'.
        reasks, requests: Invalid replies sent back before this one; answered calls in all, none for a cached reply.
        usage, cost_usd: Summed over the re-asks; None where unknown. A cached reply cost nothing.
        latency_s: Seconds, waiting for a free slot left out; of a cached reply, when it was made.
        cached, saved_usd, paid: Whether no call was made for it; what it had cost then; its paid calls (see `Bill`).
    """

    parsed: BaseModel
    raw: str
    probabilities: Sequence[Distribution] | None = None
    samples: int = 1
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


@record(kw_only=True)
class Outcome:
    """What a metric says of one answer, before it is filed under its cell.

    Attributes:
        status: One of the four states; only `scored` has a score.
        score, value: 0..1 for a scale, natural otherwise, and on the metric's own scale; None unless scored.
        reason, steps: Why (also why undefined or skipped), and what the judge said, step by step.
        path, parts: How the score came about (by probabilities, direct, after a re-ask); a panel's members.
    """

    status: Status
    score: float | None = None
    value: Any = None
    reason: str | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    path: Path | None = None
    error_type: str | None = None
    error: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    cached: bool = False
    parts: tuple[Outcome, ...] = ()


@record(kw_only=True)
class ScoreRecord:
    """One cell (dataset, case, target, target_repeat, metric, judge, repeat) and its outcome; a row of `scores`."""

    run_id: str
    dataset: str
    index: int
    case_id: str
    group: str | None
    tags: tuple[str, ...]
    target: str
    target_repeat: int
    metric: str
    metric_version: int
    judge: str | None
    repeat: int
    status: Status
    member_of: str | None = None
    score: float | None = None
    value: Any = None
    reason: str | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    error_type: str | None = None
    error: str | None = None
    path: Path | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    cached: bool = False
    bill: Bill = NOTHING
    finished_at: str = ""


@record(kw_only=True)
class Label:
    """A person's judgement of one answer on one metric."""

    case_id: str
    metric: str
    value: Any
    by: str
    answer_hash: str | None = None
    weight: float = 1.0
    comment: str | None = None
    at: str | None = None


@record()
class FigureSpec:
    """Which figures a metric has over a run: of a classification accuracy, precision, recall, F1 and the matrix.

    `positive` is the label that precision and recall are about; None where there are several classes.
    """

    kind: Literal["classification"]
    positive: Any = None


@record(kw_only=True)
class Figure:
    """A number over a run that is more than a mean of scores.

    Attributes:
        statistic, value: Its name, such as recall, and the number; None where there is nothing to divide by.
        n: What it was divided by, or how many cases it rests on.
        std_error, ci_low, ci_high, ci_method: 95 % interval and how it was made; None where there is none to give.
        details: A matrix or a list that goes with it.
    """

    statistic: str
    value: float | None
    n: int
    std_error: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str | None = None
    details: Mapping[str, Any] | None = None
