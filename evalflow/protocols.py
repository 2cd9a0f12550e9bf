"""What a target, a judge, a metric and a sink can do. Implementations need not inherit from these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from evalflow.records import Answer, Ask, Case, Embedded, FigureSpec, JudgeInfo, Outcome, Reply, ScoreRecord

if TYPE_CHECKING:
    from evalflow.config.schema import MetricConfig


class Target(Protocol):
    """What is evaluated."""

    @property
    def name(self) -> str:
        """The column value."""
        ...

    @property
    def identity(self) -> str:
        """A digest of all that decides its answers."""
        ...

    async def answer(self, case: Case, repeat: int) -> Answer:
        """Answer one case. A failure is an Answer in state error; InfrastructureError and BudgetError are raised."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Judge(Protocol):
    """Who scores."""

    @property
    def info(self) -> JudgeInfo:
        """What is known of it before it is asked."""
        ...

    async def ask(self, ask: Ask) -> Reply:
        """Answer one question.

        Raises:
            JudgeError: The judge could not be made to answer.
            InfrastructureError: Every further call would fail too.
            BudgetError: The budget does not cover the call.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Embedder(Protocol):
    """Who turns texts into vectors, so that the meanings of two can be compared."""

    @property
    def info(self) -> JudgeInfo:
        """What is known of it; its name is the value of the column `judge` for scores that rest on it."""
        ...

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector for each text, all of the same length.

        Raises:
            CallError: The texts could not be embedded.
            InfrastructureError: Every further call would fail too.
            BudgetError: The budget does not cover the call.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Prepared(Protocol):
    """What a run makes once and then keeps to: prepared.json."""

    def get(self, key: str) -> Mapping[str, Any] | None:
        """What was made under that key, or None."""
        ...

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Keep what was made, as JSON. What it took is added."""
        ...


class Measured(Protocol):
    """What is known of a metric's scores once they are made."""

    @property
    def config(self) -> MetricConfig:
        """What its YAML declares."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether scores lie in 0..1, so that what is missing has a worst and a best case."""
        ...

    @property
    def figures(self) -> FigureSpec | None:
        """Figures over a run that are more than a mean; None for most metrics.

        A metric only declares them and `evalflow.summary` computes them, since metrics and stats do not know each
        other. The `value` of each score is what the figures are made of. Of a classification it is a mapping
        {"truth": ..., "prediction": ...} of labels, equal labels written equally, with a "confidence" of 0..1 or null
        where the metric declares some; `per_label`, both are mappings of label to true or false. Of a retrieval it
        maps each measure to a number of 0..1, or to null where the measure is undefined. Of a pair it has "verdict",
        "lean" and "longer", as `PairwiseMetric` says, also where the score of a pair is undefined.
        """
        ...


class Metric(Measured, Protocol):
    """How an answer becomes a score."""

    @property
    def name(self) -> str:
        """The column value."""
        ...

    @property
    def asks(self) -> bool:
        """Whether it needs a judge; the judge column is null where it does not."""
        ...

    @property
    def embeds(self) -> bool:
        """Whether it compares meanings: the embedder answers its asks with the task `embed`, a judge any others."""
        ...

    @property
    def reads_scores(self) -> bool:
        """Whether its scores stand in the data, and so are of recorded answers and of no other."""
        ...

    @property
    def parts(self) -> Sequence[str]:
        """The metrics that its scores are made of, when results are derived; it then binds to nothing."""
        ...

    @property
    def stops(self) -> bool:
        """Whether the metrics that it binds to score a case one after the other, and none after one that scores 0."""
        ...

    @property
    def tasks(self) -> Mapping[str, str | None]:
        """What it asks a judge: step id to task, or to None where only a judge that reads prompts can answer."""
        ...

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of its templates."""
        ...

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The asks that scoring would lead to, with stand-ins for the replies; empty where nothing would be asked.

        Raises:
            UserError: A prompt cannot be rendered.
        """
        ...

    def preparation(self) -> Sequence[Ask]:
        """The asks that preparing would lead to; empty for most metrics.

        Raises:
            UserError: A prompt cannot be rendered.
        """
        ...

    async def prepare(self, judge: Judge | None, prepared: Prepared) -> Metric:
        """Make what is made once per run, and give the metric that scores with it.

        Args:
            judge: Who makes it.
            prepared: What the run has made already, and where what is made now is kept.

        Raises:
            InfrastructureError, BudgetError: No further call can be made.
        """
        ...

    def bind(self, case: Case) -> Sequence[Metric]:
        """The metrics that score this case: itself, or the checks that the case names."""
        ...

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Score one answer. Never raises for what a judge or the data did; that is a status."""
        ...


class Sink(Protocol):
    """Where finished answers and scores go."""

    def write(self, record: Answer | ScoreRecord) -> None:
        """Append one record; it is in the operating system's hands when this returns."""
        ...
