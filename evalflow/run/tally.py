"""What a run has done so far: the numbers behind the progress bar and the manifest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from evalflow.records import Answer, ScoreRecord, Usage


@dataclass(slots=True)
class Tally:
    """Counts that only grow.

    Attributes:
        expected: How many scores the run will have, as far as known.
        scores: Scores by status.
        answers: Generated answers by status.
        requests: Calls that were sent; `cached` ones were not.
        reasks: Invalid replies that were sent back.
        in_flight: Cases being worked on.
        input_tokens, output_tokens: Over judges and targets.
        cost_usd: What was paid; `unpriced` says that some calls have no known price.
        saved_usd: What was not paid since it was remembered; `saved_unpriced` likewise.
    """

    expected: int = 0
    scores: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0
    cached: int = 0
    reasks: int = 0
    in_flight: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: bool = False
    saved_usd: float = 0.0
    saved_unpriced: bool = False

    @property
    def done(self) -> int:
        """Finished scores, whatever their state."""
        return sum(self.scores.values())

    @property
    def errors(self) -> int:
        """Scores in state error."""
        return self.scores["error"]

    @property
    def cost(self) -> float | None:
        """US dollars, or None where a price is not known."""
        return None if self.unpriced else self.cost_usd

    @property
    def saved(self) -> float | None:
        """US dollars that need not be paid again, or None where a price is not known."""
        return None if self.saved_unpriced else self.saved_usd

    def count_score(self, record: ScoreRecord) -> None:
        """Count one finished score; its calls are counted where they are made."""
        self.scores[record.status] += 1

    def count_answer(self, answer: Answer) -> None:
        """Count one generated answer and what was sent for it, where anything was."""
        self.answers[answer.status] += 1
        if answer.cached:
            self.cached += 1
            self.count_saved(answer.saved_usd)
            return
        if answer.requests:
            self.requests += answer.requests
            self.count_call(answer.usage, answer.cost_usd)

    def retract_call(self, requests: int, usage: Usage | None, cost_usd: float | None) -> None:
        """A call that was counted before its score was finished is about to be counted with it."""
        usage = usage or Usage()
        self.requests -= requests
        self.reasks -= requests - 1
        self.input_tokens -= usage.input_tokens
        self.output_tokens -= usage.output_tokens
        self.cost_usd -= cost_usd or 0.0

    def retract_answer(self, answer: Answer) -> None:
        """An answer that was counted is asked for again; what it took stays."""
        self.answers[answer.status] -= 1

    def count_call(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Add what a call used; cost_usd None: its price is not known."""
        if usage:
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
        if cost_usd is None:
            self.unpriced = True
        else:
            self.cost_usd += cost_usd

    def count_saved(self, saved_usd: float | None) -> None:
        """Add what need not be paid; None: its price is not known."""
        if saved_usd is None:
            self.saved_unpriced = True
        else:
            self.saved_usd += saved_usd
