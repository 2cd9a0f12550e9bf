"""Estimate a run's requests, tokens and cost, low and high, from prompts rendered on its first cases."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalflow.app.core.assemble import Parts
from evalflow.app.core.cases import placeholder_answer
from evalflow.config.endpoints import Price
from evalflow.config.panels import CascadeConfig
from evalflow.errors import Problem, UserError
from evalflow.llm.logprobs import choices
from evalflow.llm.panel import Panel, single, sounding
from evalflow.protocols import Judge
from evalflow.records import Answer, Ask, Case
from evalflow.run.scoring import Pair

# Characters a token: English prose has about 4.5, dense or non-Latin text 2.5.
SPARSE, DENSE = 4.5, 2.5
# Tokens of a reply, per item where a step has items.
BRIEF, WORDY = 15, 120
TARGET_BRIEF, TARGET_WORDY = 30, 400


@dataclass(slots=True)
class Estimate:
    """The estimate of a run. Costs are None if a price is unknown.

    Attributes:
        requests: All of them, as if a cascade always asked all its judges; `preparing` of these are sent once, before
            the first case.
    """

    requests: int = 0
    preparing: int = 0
    input_tokens_low: int = 0
    input_tokens_high: int = 0
    output_tokens_low: int = 0
    output_tokens_high: int = 0
    cost_usd_low: float | None = 0.0
    cost_usd_high: float | None = 0.0

    def include(self, other: Estimate, factor: float = 1) -> None:
        """Add another estimate `factor` times. Integers stay integers; unknown values make the sum unknown."""
        for name in Estimate.__slots__:
            mine, more = getattr(self, name), getattr(other, name)
            if mine is not None and more is not None:
                more = round(more * factor) if isinstance(more, int) else more * factor
            setattr(self, name, None if mine is None or more is None else mine + more)


class Estimator:
    """Renders the requests for cases, and adds them up.

    Attributes:
        problems: Prompts that cannot be rendered.
        unsure: Members of cascades that cannot give a probability, by metric and place.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._cases: Counter[str] = Counter()
        self._sums: defaultdict[str, Estimate] = defaultdict(Estimate)
        self.problems: list[Problem] = []
        self.unsure: dict[tuple[str, int], Problem] = {}
        self._once = self._preparation()

    def add(self, case: Case) -> None:
        """Add one case."""
        run = self._parts.settings.run
        self._cases[case.dataset] += 1
        total = self._sums[case.dataset]
        answer = placeholder_answer(run, case)
        if answer.requests:
            text = sum(len(message.content) for message in case.messages)
            times = run.repeats.target * answer.requests
            _count(total, text, (TARGET_BRIEF, TARGET_WORDY), times, run.target)
        for pair in self._parts.pairs:
            for bound, repeats in pair.bound(case, run.repeats.judge):
                if bound.judge is not None:
                    self._ask(total, pair, bound, case, answer, repeats * run.repeats.target)

    def _ask(self, total: Estimate, pair: Pair, bound: Pair, case: Case, answer: Answer, times: int) -> None:
        try:
            asks = bound.metric.preview(case, answer)
        except UserError as error:
            self.problems += [problem for problem in error.problems if problem not in self.problems]
            return
        self._check_cascade(pair, bound.metric.name, asks)
        for ask in asks:
            items = max(1, len(ask.items or ()))
            reply = (0, 0) if ask.embeds else (BRIEF * items, WORDY * items)
            for judge, config, put, certain in self._asked(pair, ask):
                if judge.info.remote:
                    _count(total, _length(put), reply, times * _draws(put, config), config, certain=certain)

    def _check_cascade(self, pair: Pair, metric: str, asks: Sequence[Ask]) -> None:
        if not isinstance(pair.judge, Panel) or not isinstance(pair.judge.config, CascadeConfig):
            return
        put = [sounding(ask, pair.judge.config) for ask in asks]
        for place, (judge, config) in enumerate(self._parts.asked(pair)[:-1]):
            why = _no_probability(judge, config, put)
            if why:
                self.unsure[metric, place] = _unsure(pair.judge, place, metric, why)

    def _asked(self, pair: Pair, ask: Ask) -> Iterator[tuple[Judge, Any, Ask, bool]]:
        """Judge, configuration, ask, and whether it is certain: only the first judge of a cascade is always asked."""
        judges = self._parts.asked(pair)
        if ask.embeds and pair.embedder:
            yield from [(pair.embedder, self._parts.settings.run.embedder, ask, True)] * max(1, len(judges))
            return
        cascade = self._parts.settings.judges[pair.metric.name]
        for place, (judge, config) in enumerate(judges):
            if not isinstance(cascade, CascadeConfig):
                yield judge, config, ask, True
            else:
                last = place == len(judges) - 1
                yield judge, config, ask if last else sounding(ask, cascade), place == 0

    def scaled(self, cases: Mapping[str, int]) -> Estimate:
        """The estimate for that many cases of each dataset."""
        estimate = Estimate()
        for dataset, total in self._sums.items():
            estimate.include(total, cases[dataset] / self._cases[dataset])
        estimate.include(self._once)
        return estimate

    def _preparation(self) -> Estimate:
        """The requests before the first case."""
        once = Estimate()
        for pair in self._parts.pairs:
            if pair.judge is None or not single(pair.judge)[0].info.remote:
                continue
            try:
                asks = pair.metric.preparation()
            except UserError as error:
                self.problems += error.problems
                continue
            _, config = self._parts.asked(pair)[0]
            for ask in asks:
                _count(once, _length(ask), (BRIEF, WORDY), 1, config)
        once.preparing = once.requests
        return once


def _draws(ask: Ask, config: Any) -> int:
    """Requests for one ask: one if token probabilities are read, else one for each sample."""
    return 1 if ask.logprobs and _reads_probabilities(ask, config) else ask.samples


def _count(
    total: Estimate, characters: int, reply: tuple[int, int], times: int, config: Any, *, certain: bool = True
) -> None:
    """Add calls of one kind; uncertain ones count as requests and for the high estimate only."""
    least = times if certain else 0
    low, high = round(characters / SPARSE), round(characters / DENSE)
    limit: int | None = getattr(config, "max_tokens", None)
    brief, wordy = (tokens if limit is None else min(tokens, limit) for tokens in reply)
    total.requests += times
    total.input_tokens_low += low * least
    total.input_tokens_high += high * times
    total.output_tokens_low += brief * least
    total.output_tokens_high += wordy * times
    price: Price | None = getattr(config, "price", None)
    total.cost_usd_low = _add(total.cost_usd_low, price, low * least, brief * least)
    total.cost_usd_high = _add(total.cost_usd_high, price, high * times, wordy * times)


def _add(cost: float | None, price: Price | None, input_tokens: int, output_tokens: int) -> float | None:
    if cost is None or price is None:
        return None
    return cost + (input_tokens * price.input_per_million + output_tokens * price.output_per_million) / 1e6


def _length(ask: Ask) -> int:
    if not ask.messages:  # texts to embed
        return sum(len(str(item)) for item in ask.items or ())
    schema = len(str(ask.reply_model.model_json_schema()))
    return schema + sum(len(message.content) for message in ask.messages)


def _no_probability(judge: Judge, config: Any, asks: Sequence[Ask]) -> str | None:
    """Why a member of a cascade has no probability of its verdicts; None if it has one."""
    verdicts = [ask for ask in asks if not ask.embeds and choices(_row(ask))]
    if not verdicts:
        return "it is asked for no verdict out of few, such as a label, yes or no, or a grade" if asks else None
    if judge.info.weighted:
        return None
    silent = next((ask for ask in verdicts if ask.samples == 1 and not _reads_probabilities(ask, config)), None)
    if silent is None:
        return None
    logprobs = getattr(config, "gives_logprobs", False)
    why = "token probabilities of a list are not read" if logprobs else "its endpoint gives no token probabilities"
    return f"step {silent.step}: {why}"


def _unsure(cascade: Panel, place: int, metric: str, why: str) -> Problem:
    name = list(cascade.config.asked)[place]
    what = f"{metric}: {cascade.members[place].info.name} gives no probability of its verdicts ({why}), so that the "
    what += "cascade could not tell when to ask the next one"
    hint = f"draw several replies, judge.samples=5; or judge.members.{name}.logprobs=true where the endpoint gives them"
    return Problem(what, f"judge.members.{name}", hint)


def _row(ask: Ask) -> Any:
    """The model of one verdict: of the reply, or of each of its results."""
    from evalflow.llm.embedded import item_type

    return ask.reply_model if ask.items is None else item_type(ask.reply_model.model_fields["results"])


def _reads_probabilities(ask: Ask, config: Any) -> bool:
    return ask.items is None and getattr(config, "gives_logprobs", False)
