"""The interfaces of targets, judges, metrics and sinks. Implementations need not inherit from these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evalflow.records import (
    Answer,
    Ask,
    Case,
    Embedded,
    FigureSpec,
    JudgeInfo,
    Message,
    Outcome,
    Reply,
    ScoreRecord,
    SimulatedTurn,
)

if TYPE_CHECKING:
    from evalflow.config.schema import MetricConfig
    from evalflow.config.simulators import ConversationLimits


class Target(Protocol):
    """The application that is evaluated.

    Example:
        >>> class Echo:
        ...     name, identity = "echo", "echo 1"
        ...     async def answer(self, case, repeat):
        ...         return replace(blank(case, self.name, repeat), status="answered", answer=case.question)
        ...     async def close(self): ...
        >>> target: Target = Echo()
    """

    @property
    def name(self) -> str:
        """Its name in the column `target`."""
        ...

    @property
    def identity(self) -> str:
        """A digest of everything that determines its answers."""
        ...

    async def answer(self, case: Case, repeat: int) -> Answer:
        """Answer one case. A failure is an Answer in state error; InfrastructureError and BudgetError are raised."""
        ...

    async def close(self) -> None: ...


class Simulator(Protocol):
    """Plays the user in cases with a scenario.

    Example:
        >>> class Persistent:
        ...     name, identity, limits = "persistent", "persistent 1", ConversationLimits(turns=4)
        ...     async def speak(self, case, messages, turn, repeat):
        ...         if turn == 2:
        ...             return SimulatedTurn(state="gave_up", reason="asked twice")
        ...         return SimulatedTurn(state="goes_on", message=case.goal)
        ...     async def close(self): ...
        >>> simulator: Simulator = Persistent()
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str:
        """A digest of everything that determines what the user says, apart from the limits."""
        ...

    @property
    def limits(self) -> ConversationLimits: ...

    async def speak(self, case: Case, messages: Sequence[Message], turn: int, repeat: int) -> SimulatedTurn:
        """Return the user's next turn in the conversation so far; `turn` counts from 0.

        CallError, such as JudgeError, if there is none: the answer of the case is then an error. Other errors as in
        `Judge.ask`.
        """
        ...

    async def close(self) -> None: ...


class Judge(Protocol):
    """Answers the questions that metrics ask.

    Example:
        >>> class House:
        ...     info = JudgeInfo(name="house", nature="LLM house-7b", identity="house-7b 2026-05")
        ...     async def ask(self, ask):
        ...         raise JudgeError("unsupported", "it answers nothing yet")
        ...     async def close(self): ...
        >>> judge: Judge = House()
    """

    @property
    def info(self) -> JudgeInfo: ...

    async def ask(self, ask: Ask) -> Reply:
        """Answer one question.

        JudgeError if it gave no valid answer; InfrastructureError or BudgetError if no further call can be made.
        """
        ...

    async def close(self) -> None: ...


class Embedder(Protocol):
    """Turns texts into vectors, so that their meanings can be compared.

    Example:
        >>> class Letters:
        ...     info = JudgeInfo(name="letters", nature="letters, not an LLM", identity="letters 1", remote=False)
        ...     async def embed(self, texts):
        ...         return Embedded(vectors=[[text.count("a"), text.count("b")] for text in texts])
        ...     async def close(self): ...
        >>> embedder: Embedder = Letters()
    """

    @property
    def info(self) -> JudgeInfo:
        """Its properties; its name is the value of the column `judge` for scores that depend on it."""
        ...

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector per text, all of the same length; CallError, and other errors as in `Judge.ask`."""
        ...

    async def close(self) -> None: ...


class SharedModel(Protocol):
    """A model that takes much memory, so that one copy serves all processes on a machine.

    Attributes:
        elsewhere: Embeds in the process that has the model; None: it is loaded here at its first use.
    """

    elsewhere: Callable[[Sequence[str]], Any] | None

    def embed(self, texts: Sequence[str]) -> Any:
        """One vector per text, as an array."""
        ...


class Prepared(Protocol):
    """Objects that a run makes once and then reuses: prepared.json."""

    def get(self, key: str) -> Mapping[str, Any] | None: ...

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Store an entry as JSON. The cost of making it is added."""
        ...


class Measured(Protocol):
    """Properties of a metric's scores."""

    @property
    def config(self) -> MetricConfig: ...

    @property
    def bounded(self) -> bool:
        """Whether scores lie in 0..1, so that missing scores have a worst and a best case."""
        ...

    @property
    def figures(self) -> FigureSpec | None:
        """Figures over a run that are more than a mean; None for most metrics.

        A metric only declares them and `evalflow.summary` computes them from the `value` of each score, since metrics
        and stats do not import each other. For a classification, the value is a mapping {"truth": ..., "prediction":
        ...} of labels, with equal labels written equally, and with a "confidence" of 0..1 or null if the metric
        declares it; with `per_label`, both are mappings of label to true or false. For a retrieval, it maps each
        measure to a number of 0..1, or to null if the measure is undefined. For a pair, it has "verdict", "lean" and
        "longer", as described in `PairwiseMetric`, even if the score of the pair is undefined.
        """
        ...


class Metric(Measured, Protocol):
    """Turns an answer into a score."""

    @property
    def name(self) -> str:
        """Its name in the column `metric`."""
        ...

    @property
    def asks(self) -> bool:
        """Whether it needs a judge; if not, the judge column is null."""
        ...

    @property
    def embeds(self) -> bool:
        """Whether it compares meanings: the embedder answers its asks with the task `embed`, a judge all others."""
        ...

    @property
    def reads_scores(self) -> bool:
        """Whether its scores are in the data; they are then of recorded answers only."""
        ...

    @property
    def parts(self) -> Sequence[str]:
        """The metrics from which its scores are derived after the run; it then binds to nothing."""
        ...

    @property
    def stops(self) -> bool:
        """Whether the metrics of `bind` score a case one after the other, and stop at the first score of 0."""
        ...

    @property
    def is_off(self) -> bool:
        """Whether it is switched off for this case, and so skipped."""
        ...

    @property
    def unknown_scripts(self) -> Collection[str]:
        """The scripts, named as by `script_of`, in which it cannot separate words; none for most metrics."""
        ...

    @property
    def tasks(self) -> Mapping[str, str | None]:
        """The tasks for a judge, by step id; a task is None if only a language model can answer."""
        ...

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of its prompt templates."""
        ...

    @property
    def files_sha256(self) -> str | None:
        """A digest of other files that its scores depend on, such as SQL scripts; None without any."""
        ...

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The asks that scoring would send, with placeholders for replies, or none; UserError if a prompt fails."""
        ...

    def preparation(self) -> Sequence[Ask]:
        """The asks that preparing would send; empty for most metrics. UserError if a prompt cannot be rendered."""
        ...

    async def prepare(self, judge: Judge | None, prepared: Prepared) -> Metric:
        """Make what is made once per run, and return the metric that scores with it; errors as in `Judge.ask`."""
        ...

    def bind(self, case: Case) -> Sequence[Metric]:
        """The metrics that score this case: itself, or the checks that the case names."""
        ...

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Score one answer. Never raises for faults of a judge or the data; these become a status."""
        ...


class Sink(Protocol):
    """Receives finished answers and scores.

    Example:
        >>> class Counting:
        ...     def __init__(self, inner):
        ...         self.inner, self.count = inner, 0
        ...     def write(self, record):
        ...         self.inner.write(record)
        ...         self.count += 1
        >>> Counting(None).count
        0
    """

    def write(self, record: Answer | ScoreRecord) -> None:
        """Append one record; the operating system has it when this returns."""
        ...


@dataclass(frozen=True, slots=True)
class OmittedRow:
    """A row of another tool's file that is not a case; `import` counts and prints it.

    Attributes:
        reason: Why it is left out.
        where: Its place, such as `old.tsv:7`; empty for the file.
        hint: What to do instead.

    Example:
        >>> OmittedRow("it has no question", "old.tsv:7").reason
        'it has no question'
    """

    reason: str
    where: str = ""
    hint: str = ""


class Importer(Protocol):
    """Reads another tool's file for `python -m evalflow import NAME PATH`; a function will do.

    A row has the fields of a case, such as `id`, `question`, `answer`, `reference` and `contexts`. Its `scores` are the
    other tool's own, numbers by name, and become metrics of the kind `recorded`. Keys that are not fields become
    variables of the case. Nothing is written if the importer fails or a row is not a case.

    Example:
        >>> def read_house(path):
        ...     for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        ...         question, answer, score = line.split(";")
        ...         if question:
        ...             yield {"question": question, "answer": answer, "scores": {"helpful": float(score)}}
        ...         else:
        ...             yield OmittedRow("it has no question", f"{path.name}:{number}")
        >>> importer: Importer = read_house
    """

    def __call__(self, path: Path, /) -> Iterable[Mapping[str, object] | OmittedRow]:
        """The rows of the file or folder, and what is left out of it; UserError if it is not the tool's."""
        ...
