"""How many requests and tokens a run will take, low and high, from prompts rendered on its first cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evalflow.app.assemble import Parts
from evalflow.config.schema import Price
from evalflow.errors import Problem, UserError
from evalflow.records import Answer, Ask, Case

# Characters a token: English prose has about 4.5, dense or non-Latin text 2.5.
SPARSE, DENSE = 4.5, 2.5
# Tokens of a reply, per item where a step has items.
BRIEF, WORDY = 15, 120
TARGET_BRIEF, TARGET_WORDY = 30, 400


@dataclass(slots=True)
class Estimate:
    """What a run will send. Costs are None where a price is not known."""

    requests: int = 0
    input_tokens_low: int = 0
    input_tokens_high: int = 0
    output_tokens_low: int = 0
    output_tokens_high: int = 0
    cost_usd_low: float | None = 0.0
    cost_usd_high: float | None = 0.0


class Estimator:
    """Renders what would be asked about a case, and adds it up.

    Attributes:
        problems: Prompts that cannot be rendered.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._cases = 0
        self._sum = Estimate()
        self.problems: list[Problem] = []

    def add(self, case: Case) -> None:
        """Add one case."""
        run = self._parts.settings.run
        self._cases += 1
        if run.generate is True or (run.generate == "missing" and case.answer is None):
            text = sum(len(message.content) for message in case.messages)
            self._call(text, TARGET_BRIEF, TARGET_WORDY, run.repeats.target, run.target)
        answer = _stand_in(case)
        for pair in self._parts.pairs:
            if pair.judge is None:
                continue
            config = self._parts.settings.judges[pair.metric.name]
            try:
                asks = [ask for metric in pair.metric.bind(case) for ask in metric.preview(case, answer)]
            except UserError as error:
                self.problems += [problem for problem in error.problems if problem not in self.problems]
                continue
            for ask in asks:
                items = max(1, len(ask.items or ()))
                repeats = run.repeats.judge * run.repeats.target
                self._call(_length(ask), BRIEF * items, WORDY * items, repeats, config)

    def scaled(self, cases: int) -> Estimate:
        """The estimate for that many cases."""
        factor = cases / self._cases if self._cases else 0
        estimate = Estimate()
        for name in Estimate.__slots__:
            value = getattr(self._sum, name)
            setattr(estimate, name, None if value is None else type(value)(round(value * factor, 6)))
        return estimate

    def _call(self, characters: int, brief: int, wordy: int, times: int, config: Any) -> None:
        if config.kind == "embedded":
            return
        low, high = round(characters / SPARSE), round(characters / DENSE)
        total = self._sum
        total.requests += times
        total.input_tokens_low += low * times
        total.input_tokens_high += high * times
        total.output_tokens_low += brief * times
        total.output_tokens_high += wordy * times
        price: Price | None = getattr(config, "price", None)
        total.cost_usd_low = _add(total.cost_usd_low, price, low * times, brief * times)
        total.cost_usd_high = _add(total.cost_usd_high, price, high * times, wordy * times)


def _add(cost: float | None, price: Price | None, input_tokens: int, output_tokens: int) -> float | None:
    if cost is None or price is None:
        return None
    return cost + (input_tokens * price.input_per_million + output_tokens * price.output_per_million) / 1e6


def _length(ask: Ask) -> int:
    schema = len(str(ask.reply_model.model_json_schema()))
    return schema + sum(len(message.content) for message in ask.messages)


def _stand_in(case: Case) -> Answer:
    """An answer to render prompts with; where there is none yet, text of a likely length."""
    text = case.answer or case.reference or case.question or "answer"
    actual = case.actual if case.actual is not None else case.expected
    return Answer(
        dataset=case.dataset, index=case.index, case_id=case.id, target="-", messages=case.messages, answer=text,
        actual=actual, contexts=case.contexts, metadata=case.metadata,
    )  # fmt: skip
