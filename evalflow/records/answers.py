"""Test cases, a target's answers to them, and the questions to judges with their replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from evalflow.records.spend import NOTHING, CallCosts, Spend

if TYPE_CHECKING:
    from pydantic import BaseModel


CUT_OFF = "length"
"""The `finish_reason` of an answer that was cut off at a limit of tokens."""
FILTERED = "content_filter"
"""The `finish_reason` of an answer that a filter withheld, fully or in part."""
AnswerStatus = Literal["answered", "absent", "error"]
UserState = Literal["goes_on", "goal_reached", "gave_up", "script_over"]
RECORDED_FAILURE = "recorded"  # the error_type of an answer whose failure is recorded in the data


def texts_of(reference: str | Sequence[str] | None) -> tuple[str, ...]:
    """The texts of one or several references, each once."""
    if reference is None:
        return ()
    return (reference,) if isinstance(reference, str) else tuple(dict.fromkeys(reference))


def numbered(texts: Sequence[str]) -> str:
    """Several texts as one, one below the other and numbered; a single one as it is."""
    if len(texts) == 1:
        return texts[0]
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool: its arguments as an object, or the text that was sent if that is not a JSON object."""

    name: str
    arguments: Mapping[str, object] | str | None = None
    id: str | None = None  # which a tool's result names


class CalledFunction(TypedDict):
    """The function of a `SentCall`, with its arguments as JSON text."""

    name: str
    arguments: str


class SentCall(TypedDict):
    """A call of a tool as chat completions write it."""

    id: str
    type: str
    function: CalledFunction


class ApiKeys(TypedDict, total=False):
    """Further fields of a message in chat APIs; `parts` is the whole content if some of it is not text."""

    tool_calls: Sequence[SentCall]
    tool_call_id: str
    name: str
    parts: Sequence[Mapping[str, object]]


@dataclass(slots=True, unsafe_hash=True)  # not enforced, as in `CallCosts`
class Message:
    """One turn of a conversation.

    Example:
        >>> Message("user", "Well?").role
        'user'
    """

    role: str
    content: str
    metadata: Mapping[str, object] | None = None
    api: ApiKeys | None = None

    @property
    def tool_calls(self) -> Sequence[SentCall]:
        return self.api.get("tool_calls", ()) if self.api else ()

    @property
    def only_calls(self) -> bool:
        """Whether the turn calls tools and says nothing."""
        return bool(self.api) and bool(self.tool_calls) and not self.content.strip()

    @property
    def parts(self) -> Sequence[Mapping[str, object]]:
        """The parts of its content if some of them are not text, else nothing."""
        return self.api.get("parts", ()) if self.api else ()

    @property
    def text(self) -> str:
        """The turn for readers: its words, `[image]` and the like for other parts, and the tools that it calls."""
        if not self.api:
            return self.content
        texts = [part_text(part) for part in self.parts] if self.parts else [self.content]
        calls = [f"[calls {call['function']['name']}({call['function']['arguments']})]" for call in self.tool_calls]
        return "\n".join(line for line in (*texts, *calls) if line.strip())

    @property
    def sent(self) -> dict[str, object]:
        """The turn as chat completions take it."""
        more = {key: value for key, value in (self.api or {}).items() if key != "parts"}
        return {"role": self.role, "content": self.parts or (None if self.only_calls else self.content), **more}


def part_text(part: Mapping[str, object]) -> str:
    """The text of a part of a message's content; of another part its kind, such as `[image]`."""
    text = part.get("text")
    kind = str(part.get("type") or "part").removeprefix("input_").removesuffix("_url")
    return text if isinstance(text, str) else f"[{kind}]"


class CaseInput(TypedDict):
    """What a target gets of a case, for type checkers; `messages` as in chat completions, `vars` are other columns.

    Example:
        >>> def bot(case: CaseInput) -> str:
        ...     return f"You asked: {case['question']}"
    """

    id: str
    question: str | None
    messages: list[dict[str, object]]
    contexts: list[dict[str, str | None]] | None
    metadata: Mapping[str, object] | None
    vars: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Context:
    """A piece of text that the target was given, or retrieved, to answer from.

    Example:
        >>> Context("It costs 40 pounds.", title="Fees").title
        'Fees'
    """

    text: str
    title: str | None = None
    path: str | None = None


@dataclass(slots=True, kw_only=True)  # not enforced, as in `CallCosts`
class Case:
    """One thing to evaluate: a conversation that ends with a user message, and what is known about it.

    A field that the data does not have is None (never an empty value): metrics that need it are skipped.

    Example:
        >>> Case(dataset="rag", index=0, id="a", messages=(Message("user", "Well?"),)).question
        'Well?'
    """

    # The dataset it came from, and its position in it, from 0.
    dataset: str
    index: int
    # The file's own id, else a hash of the content, unique in the dataset; and the conversation.
    id: str
    messages: tuple[Message, ...] = ()
    # The recorded answer, and the ideal one; a tuple has several, any one of which is right.
    answer: str | None = None
    reference: str | tuple[str, ...] | None = None
    # For a simulated user: the situation, who they are, what they want, and all that they know. The target sees none.
    scenario: str | None = None
    persona: str | None = None
    goal: str | None = None
    facts: tuple[str, ...] | None = None
    contexts: tuple[Context, ...] | None = None  # what was retrieved; an empty tuple means that nothing was retrieved
    # The true label and the recorded prediction; or the expected ids and the retrieved ones.
    expected: object = None
    actual: object = None
    # What the target sent with its answer; an example answer to try metrics on.
    metadata: Mapping[str, object] | None = None
    demo_answer: Message | None = None
    failure: str | None = None  # why no answer was recorded: the target failed then
    checks: tuple[Mapping[str, object], ...] | None = None  # checks in the case itself: identifier, enabled, params
    # Names for slicing, hierarchical with " > "; the cluster for error bars (source, user, template).
    tags: tuple[str, ...] = ()
    group: str | None = None
    # Human labels in the data, by metric name; and all other columns.
    labels: Mapping[str, object] | None = None
    vars: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def question(self) -> str | None:
        """The last user message, or None."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.content
        return None

    @property
    def references(self) -> tuple[str, ...]:
        """The ideal answers, each once; empty if the data has none."""
        return texts_of(self.reference)

    @property
    def reference_text(self) -> str | None:
        """The ideal answer for people to read; several are numbered."""
        return None if self.reference is None else numbered(self.references)

    @property
    def brief(self) -> str | None:
        """Everything that a simulated user knows, as one text; None without a scenario."""
        if self.scenario is None:
            return None
        facts = "\n".join(f"- {fact}" for fact in self.facts or ())
        parts = {"Situation": self.scenario, "Who the user is": self.persona, "What the user wants": self.goal}
        lines = [f"{title}: {text}" for title, text in parts.items() if text is not None]
        return "\n".join([*lines, *([f"What the user knows:\n{facts}"] if facts else [])])

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages before the last user message."""
        last = len(self.messages) - 1
        while last > 0 and self.messages[last].role != "user":
            last -= 1
        return self.messages[: max(0, last)]


@dataclass(slots=True, kw_only=True)
class Answer(CallCosts):
    """One answer of a target to a case.

    Example:
        >>> Answer(dataset="rag", index=0, case_id="a", target="echo", answer="Yes.").status
        'answered'
    """

    # The answer's identity; target_repeat counts from 0.
    dataset: str
    index: int
    case_id: str
    target: str
    target_repeat: int = 0
    # status, error_type, error: answered; absent (recorded data has none); error (generation failed), and why.
    status: AnswerStatus = "answered"
    messages: tuple[Message, ...] = ()  # the conversation as sent, without the final answer
    answer: str | None = None
    actual: object = None
    contexts: tuple[Context, ...] | None = None
    metadata: Mapping[str, object] | None = None
    error_type: str | None = None
    error: str | None = None
    simulator: Spend | None = None  # what the calls for the user's turns took, besides; None where nobody was simulated
    # Of the text that the target gave: its thoughts, which are kept apart; all of it if `answer` is only a part;
    # whether that part was found (None: all of it counts); and why the target ended it (`length`: cut off).
    thoughts: str | None = None
    full_answer: str | None = None
    extracted: bool | None = None
    finish_reason: str | None = None
    recorded: bool = False  # whether it is the case's own answer in the data

    @property
    def text(self) -> str:
        """The answer; empty if the target gave only a prediction or ids (`actual`)."""
        return self.answer or ""

    @property
    def total(self) -> Spend:
        """The cost of all its calls, including those for the user's turns."""
        return self.spend if self.simulator is None else self.spend + self.simulator

    @property
    def all_paid(self) -> tuple[int, ...]:
        """The digests of all its calls."""
        return self.paid if self.simulator is None else self.paid + self.simulator.paid

    @property
    def generated(self) -> bool:
        """Whether a target made it, or tried to; False for answers recorded in the data."""
        failed = self.status == "error" and self.error_type != RECORDED_FAILURE
        return failed or self.requests > 0 or self.latency_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTurn:
    """The next message of a simulated user, or how the user ends the conversation.

    Attributes:
        state: `goes_on` with a message; `goal_reached`, `gave_up` and `script_over` end the conversation.
        reason: Why the conversation ends, for the report.
        spend: The cost of the call that made the turn.

    Example:
        >>> SimulatedTurn(state="goes_on", message="And on Sundays?").message
        'And on Sundays?'
        >>> SimulatedTurn(state="gave_up", reason="no price after three questions").message
        ''
    """

    state: UserState
    message: str = ""
    reason: str | None = None
    spend: Spend = NOTHING


NUMBER = "number"  # the first field of each result of an ask with items: which of them it is about, from 1
EMBED = "embed"  # the task of an ask for vectors, one for each item; the embedder answers it
EVIDENCE_TASKS = frozenset({"extract_claims", "verify_claims", "rate_relevance"})
"""The tasks that the embedded judge can do; a language model can do any."""

# The probability of each value of a reply's field: {"verdict": {"supported": 0.8, "contradicted": 0.2}}.
Distribution = Mapping[str, Mapping[Any, float]]


def numbered_results(results: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """The content of a reply to an ask with items, made of the results in the order of the items.

    Example:
        >>> numbered_results([{"verdict": "met"}, {"verdict": "unmet"}])
        {'results': [{'number': 1, 'verdict': 'met'}, {'number': 2, 'verdict': 'unmet'}]}
    """
    return {"results": [{NUMBER: at, **result} for at, result in enumerate(results, 1)]}


@dataclass(slots=True, kw_only=True)  # not enforced, as in `CallCosts`
class Ask:
    """One question to a judge.

    Example:
        >>> from pydantic import create_model
        >>> grade = create_model("Grade", score=(int, ...))
        >>> prompt = (Message("user", "Grade it."),)
        >>> ask = Ask(metric="tone", step="grade", task=None, messages=prompt, reply_model=grade, variables={})
        >>> ask.embeds
        False
    """

    # The metric and step id that the question comes from.
    metric: str
    step: str
    # What a judge without a language model can do (such as extract_claims; embed: the embedder), or None.
    task: str | None
    messages: tuple[Message, ...]  # the rendered prompt
    # The pydantic model of the reply; where `items` is given, of a list `results` with one entry per item, which begins
    # with the item's `number`, from 1.
    reply_model: type[BaseModel]
    # The step's template variables. A step with a task also has `source` (extract_claims: the text to split) or
    # `against` (verify_claims: the text, or contexts, to check claims with).
    variables: Mapping[str, object]
    items: tuple[object, ...] | None = None  # the items of a one_per step, else None
    # Whether token probabilities are wanted, and the number of samples if they are not available.
    samples: int = 1
    logprobs: bool = False
    repeat: int = 0  # the judge's repeat, from 0; makes repeats distinct in caches
    certain: bool = True  # in a preview: whether scoring asks it whatever the replies are

    @property
    def text(self) -> str:
        """The whole prompt, its messages separated by blank lines."""
        return "\n\n".join(message.content for message in self.messages)

    @property
    def embeds(self) -> bool:
        """Whether it asks for vectors, which the embedder makes."""
        return self.task == EMBED


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeInfo:
    """Properties of a judge or an embedder that are known before it is asked.

    Example:
        >>> JudgeInfo(name="house", nature="LLM house-7b", identity="house-7b 2026-05").remote
        True
    """

    name: str
    nature: str  # one phrase that describes it, shown above every table
    identity: str  # a digest of everything that determines its replies
    calibrated: bool = True  # whether a threshold on its scores is meaningful
    remote: bool = True  # whether it sends data to an endpoint, which takes requests, tokens and perhaps money
    weighted: bool = False  # whether scores are always expectations over its probabilities
    tasks: frozenset[str] | None = None  # the tasks it can answer; None: anything
    limits: str = "it"  # why it cannot answer anything else, as the beginning of a sentence
    scripts: frozenset[str] | None = None  # the scripts that it knows, as `script_of` names them; None: any

    def explain_refusal(self, task: str | None) -> str | None:
        """Why it cannot answer a step of this task (None: a free prompt), and what to do; None if it can."""
        if self.tasks is None or task in self.tasks:
            return None
        asked = f"the task {task!r}" if task else "a free prompt"
        return f"{self.limits} and cannot answer {asked}, only {', '.join(sorted(self.tasks))}; name an LLM judge"


@dataclass(slots=True, kw_only=True)
class Reply(CallCosts):
    """A judge's answer to an Ask, valid against its reply model.

    Example:
        >>> from pydantic import create_model
        >>> grade = create_model("Grade", score=(int, ...))
        >>> Reply(parsed=grade(score=4), raw='{"score": 4}').parsed.score
        4
    """

    # The validated reply, and the text it was parsed from.
    parsed: BaseModel
    raw: str
    mended: Sequence[str] = ()  # parts removed or repaired to read it
    # One distribution per item (one in all without items); None if the judge gives none.
    probabilities: Sequence[Distribution] | None = None
    # The number of samples behind these frequencies, and how many more were requested and failed.
    samples: int = 1
    failed: int = 0
    mass: Mapping[str, float] | None = None  # by field, the share of the token probability on valid values
    requests: int = 1
    latency_s: float | None = 0.0
    identity: str = ""


@dataclass(slots=True, kw_only=True)
class Embedded(CallCosts):
    """Texts as vectors, one per text, all of the same length; costs are this call's share of the request.

    Example:
        >>> len(Embedded(vectors=[[0.0, 1.0], [1.0, 0.0]]).vectors)
        2
    """

    vectors: Sequence[Sequence[float]]
    cost_usd: float | None = 0.0
    latency_s: float | None = 0.0
