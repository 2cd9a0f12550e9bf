"""Check a run before its first request: its data, its prompts, its judges, and its cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from evalflow.app.core.assemble import Parts
from evalflow.app.core.case_kinds import CaseKinds, suffice
from evalflow.app.core.cases import BASELINE, RunCases, is_simulated, placeholder_answer
from evalflow.app.core.data_checks import DataChecks, LabelChecks, ScenarioChecks
from evalflow.app.core.notices import notices, shadows
from evalflow.app.core.result_rules import ResultRules, RunMetric, known_metrics, unusable_parts
from evalflow.app.core.text_checks import QuestionChecks, ScriptChecks
from evalflow.calls.budget import REPLY_TOKENS
from evalflow.config.judges import CascadeConfig, Price
from evalflow.config.simulators import OpenAISimulatorConfig
from evalflow.config.targets import AgentTargetConfig, HttpTargetConfig
from evalflow.config.validate import Settings
from evalflow.engine.plan import Draw
from evalflow.engine.scoring import Pair
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.llm.logprobs import choices
from evalflow.llm.panel import JudgeWithEmbedder, Panel, single, with_probabilities
from evalflow.protocols import Judge, Measured, Metric
from evalflow.records import EMBED, Answer, Ask, Case
from evalflow.summary.gate_config import parse_gates
from evalflow.summary.gates import Gate

if TYPE_CHECKING:
    from pydantic import BaseModel

SAMPLE = 20  # the number of cases of each dataset for which prompts are rendered


@dataclass(slots=True)
class Estimate:
    """The estimate of a run. Costs are None if a price is unknown. A cascade counts as if it asked all its judges.

    Attributes:
        preparing: The number of requests that are sent once, before the first case.
        rounds: The minimum number of successive batches, since a step needs the replies of the one before.
        reserved_tokens, reserved_usd: What a budget reserves for all of them; calls without a price count as free.
    """

    requests: int = 0
    preparing: int = 0
    rounds: int = 0
    input_tokens_low: int = 0
    input_tokens_high: int = 0
    output_tokens_low: int = 0
    output_tokens_high: int = 0
    cost_usd_low: float | None = 0.0
    cost_usd_high: float | None = 0.0
    reserved_tokens: int = 0
    reserved_usd: float = 0.0

    def include(self, other: Estimate, factor: float = 1) -> None:
        for name in Estimate.__slots__:
            mine, more = getattr(self, name), getattr(other, name)
            if mine is not None and more is not None:
                more = round(more * factor) if isinstance(more, int) else more * factor
            setattr(self, name, None if mine is None or more is None else mine + more)


@dataclass(slots=True)
class Inspection:
    """The facts known before a run's first request: the sampled cases, their number by dataset, metrics, and cost."""

    parts: Parts
    offered: RunCases
    draw: Draw
    cases: Counter[str] = field(default_factory=Counter[str])
    labelled: Counter[str] = field(default_factory=Counter[str])
    scenarios: int = 0  # cases with a simulated user, now or when they were recorded
    labels_apply: bool = False  # whether one of the data's labels is for a score of the run
    cells: int = 0  # scores the run will have
    # The metrics by the names of their scores, with their judge; a composite has the judge of its parts.
    scored: dict[str, Pair] = field(default_factory=dict[str, Pair])
    # The name of each of these metrics in the configuration, in which one name may bind to several.
    declared: dict[str, str] = field(default_factory=dict[str, str])
    gates: Sequence[Gate] = ()
    estimate: Estimate = field(default_factory=Estimate)
    remarks: Sequence[str] = ()  # warnings about the data
    reading: Sequence[str] = ()  # what was left out or changed in reading the data
    unread: Sequence[str] = ()  # cases that a judge or a metric does not score as expected; kept with the run
    # Scores of different sorts that would have the same name, by that name.
    mixed: dict[str, Problem] = field(default_factory=dict[str, Problem])

    @property
    def judges(self) -> dict[str, Judge]:
        return {one.judge.info.name: one.judge for one in self.scored.values() if one.judge}

    def rules(self) -> ResultRules:
        metrics: dict[str, RunMetric] = {}
        for name, one in self.scored.items():
            metric, judge = one.metric, one.judge.info.name if one.judge else None
            about = (metric.config, metric.bounded, metric.figures)
            metrics[name] = RunMetric(*about, self.declared[name], judge, metric.asks, metric.embeds)
        return ResultRules(self.parts.settings, metrics, self.gates)

    def notices(self) -> list[str]:
        """Warnings to read before the results."""
        return [
            *shadows(self.parts),
            *self.reading,
            *self.unread,
            *self.remarks,
            *notices(self.parts, preparing=self.estimate.preparing),
        ]

    def selected(self) -> Iterator[Case]:
        return self.draw.pick(self.offered)


def inspect(parts: Parts, kinds: CaseKinds | None = None, on_case: Sequence[Callable[[Case], None]] = ()) -> Inspection:
    """Read all data and run all checks; nothing is sent. UserError lists every problem found.

    `kinds` are what the checks know from another run of the same cases; if empty, they are filled for the next run.
    Each function of `on_case` gets every case.
    """
    run = parts.settings.run
    complete = None
    if run.baseline is not None and any(f"vars.{BASELINE}" in metric.needs for metric in run.metric.values()):
        from evalflow.app.core.comparison import BaselineAnswers

        complete, kinds = BaselineAnswers(parts.settings).beside, None
    inspection = Inspection(parts, RunCases(run, complete), Draw(run.sample, run.seed))
    checks, estimator, labels = DataChecks(parts), Estimator(parts), LabelChecks(parts.settings)
    scenarios, questions, scripts = ScenarioChecks(parts.settings), QuestionChecks(parts), ScriptChecks(parts)
    kinds = kinds or CaseKinds()
    if run.sample is not None:
        on_case = (*on_case, inspection.draw.offer)
    for case, times in kinds.of(inspection.offered, inspection.offered.notes, each=not suffice(parts), on_case=on_case):
        checks.add(case, times)
        scenarios.add(case, times)
        questions.add(case, times)
        scripts.add(case, times)
        if run.sample is None:
            _count(inspection, estimator, labels, case, times)
    for case in inspection.selected() if run.sample is not None else ():
        _count(inspection, estimator, labels, case)
    unusable = _add_composites(inspection)
    problems = [*_judges_that_cannot(inspection), *checks.problems(kinds.repeated)]
    problems += [*labels.problems(), *scenarios.problems()]
    problems += questions.problems()
    problems += [*inspection.mixed.values(), *estimator.problems, *estimator.unsure.values(), *unusable]
    measured = {name: one.metric for name, one in inspection.scored.items()}
    if run.objective is not None:
        from evalflow.app.core.objective import objective_problems

        problems += objective_problems(run, run.objective)
    problems += _wrong_thresholds(parts.settings, measured)
    try:
        inspection.gates = parse_gates(run.gate, measured, run.baseline, run.repeats)
    except UserError as error:
        problems += error.problems
    problems += [*inspection.rules().undecided(), *inspection.rules().unlookable()]
    inspection.labels_apply = labels.apply
    inspection.remarks = [*questions.remarks(), *checks.remarks(), *labels.remarks()]
    inspection.reading = [line for name, notes in kinds.notes.items() for line in notes.lines(name)]
    inspection.unread = [*scripts.remarks()]
    if problems:
        raise UserError(problems)
    inspection.estimate = estimator.scaled(inspection.cases)
    return inspection


def _add_composites(inspection: Inspection) -> list[Problem]:
    wrong = unusable_parts(inspection.parts.settings, {name: one.metric for name, one in inspection.scored.items()})
    composites: dict[str, Pair] = {}
    for name, metric in inspection.parts.metrics.items():
        if metric.parts and name not in wrong:
            judges = {judge.info.name: judge for part in metric.parts if (judge := inspection.scored[part].judge)}
            judge = reduce(JudgeWithEmbedder, judges.values()) if judges else None
            composites[name], inspection.declared[name] = Pair(metric, judge), name
    inspection.scored |= composites
    return [problem for problems in wrong.values() for problem in problems]


def _count(inspection: Inspection, estimator: Estimator, labels: LabelChecks, case: Case, times: int = 1) -> None:
    run = inspection.parts.settings.run
    inspection.cases[case.dataset] += times
    inspection.labelled[case.dataset] += times * bool(case.labels)
    inspection.scenarios += times * (case.scenario is not None)
    measured: dict[str, Metric] = {}
    for pair in inspection.parts.pairs:
        try:
            bound = pair.bound(case, run.repeats.judge)
        except UserError:
            return  # DataChecks reports it
        if pair.metric.parts and pair.metric.config.covers(case.dataset):
            measured[pair.metric.name] = pair.metric
        for one, repeats in bound:
            inspection.cells += times * repeats * run.repeats.target
            measured[one.metric.name] = one.metric
            name, declared = one.metric.name, pair.metric.name
            known = inspection.scored.get(name)
            if known is None or known.metric.is_off:
                inspection.scored[name] = known = one
            problem = _mixed(name, declared, inspection.declared.setdefault(name, declared))
            if problem is None and not one.metric.is_off:
                problem = _judged_apart(name, one.judge, known.judge, case)
            if problem is not None:
                inspection.mixed.setdefault(name, problem)
    labels.add(case, measured)
    if inspection.cases[case.dataset] <= SAMPLE:
        estimator.add(case)


def _mixed(name: str, declared: str, first: str) -> Problem | None:
    if declared == first:
        return None
    what = f"{first} and {declared} would both give scores called {name!r}"
    return Problem(what, f"metric.{declared}", "leave one of them out, or give the check another name")


def _judged_apart(name: str, judge: Judge | None, first: Judge | None, case: Case) -> Problem | None:
    """Scores of one name have one judge: thresholds and summary rows are by judge."""
    if judge is first:
        return None
    one, other = (f"need {scorer.info.name}" if scorer else "need no judge" for scorer in (judge, first))
    what = f"the checks called {name!r} of case {case.id!r} {one}, and those of earlier cases {other}"
    return Problem(what, f"dataset.{case.dataset}", "give them different names: a row of the summary has one judge")


def refusal_of(metric: Metric, judge: Judge | None) -> tuple[str, str] | None:
    """The first step of a metric that its judge does not support, and why; None if it supports all."""
    refusals = ((step, judge.info.explain_refusal(task)) for step, task in metric.tasks.items() if judge)
    return next(((step, refusal) for step, refusal in refusals if refusal), None)


def _judges_that_cannot(inspection: Inspection) -> Iterator[Problem]:
    for name, one in inspection.scored.items():
        refused = refusal_of(one.metric, one.judge)
        if refused:
            hint = "choose a language model as the judge: judge=openai, or another of `list judge`"
            if one.metric.tasks[refused[0]] == EMBED:
                hint = "or choose another embedder: embedder=openai, or another of `list embedder`"
            hint += _way_around(inspection, name)
            yield Problem(f"{name}, step {refused[0]}: {refused[1]}", f"metric.{inspection.declared[name]}", hint)


def _way_around(inspection: Inspection, name: str) -> str:
    """A hint to run only the checks of the same metric that need no judge, or empty."""
    declared = inspection.declared[name]
    if name == declared:
        return ""
    free = [
        other
        for other, one in inspection.scored.items()
        if inspection.declared[other] == declared and one.judge is None
    ]
    # `only` takes identifiers, and no names of checks; and a group may ask a judge in another case.
    from evalflow.metrics.case_checks import PARAMS

    custom: Mapping[str, Any] = getattr(inspection.parts.metrics[declared].config, "custom", None) or {}
    types = {**{kind: kind for kind in PARAMS}, **{name: one.type for name, one in custom.items()}}
    names = dict.fromkeys(other.partition("#")[0] for other in free)
    identifiers = [name for name in names if types.get(name, "group") != "group"]
    key = inspection.parts.settings.key("metric", declared)
    return f"\n  or run the checks that need none: '{key}.only=[{','.join(identifiers)}]'" if identifiers else ""


def _wrong_thresholds(settings: Settings, metrics: Mapping[str, Measured]) -> Iterator[Problem]:
    """Thresholds outside 0..1, or for unknown metrics: a judge may have some that this run leaves out."""
    run = settings.run
    known = known_metrics(settings) | {*metrics}
    own = {name: (metric.judge or {}).get("thresholds") for name, metric in run.metric.items()}
    declared = {"judge": run.judge.thresholds, "embedder": run.embedder.thresholds}
    declared |= {f"metric.{name}.judge": thresholds for name, thresholds in own.items()}
    for key, stated in declared.items():
        for name, value in (stated or {}).items():
            where = f"{key}.thresholds.{name}"
            if name not in known:
                yield Problem(f"there is no metric {name!r}", where, did_you_mean(name, known))
            elif name in metrics and metrics[name].bounded and not 0 <= float(value) <= 1:
                yield Problem(f"{float(value):g} is not a threshold of {name}", where, "its scores lie in 0..1")


# Characters a token: English prose has about 4.5, dense or non-Latin text 2.5.
SPARSE, DENSE = 4.5, 2.5
# Tokens of a reply, per item where a step has items.
BRIEF, WORDY = 15, 120
TARGET_BRIEF, TARGET_WORDY = 30, 400
_STEP = 1000  # characters that a tool call and its result add to an agent's next request
_TURN = 800  # characters that a simulated user's turn and its answer add to the next request


class Estimator:
    """Renders the requests for cases, and adds them up; `unsure` are cascades' members that can give no probability."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._cases: Counter[str] = Counter()
        self._sums: defaultdict[str, Estimate] = defaultdict(Estimate)
        self.problems: list[Problem] = []
        self.unsure: dict[tuple[str, int], Problem] = {}
        self._rounds = 0
        self._schema_lengths: dict[type[BaseModel], int] = {}
        self._once = self._preparation()

    def add(self, case: Case) -> None:
        run = self._parts.settings.run
        self._cases[case.dataset] += 1
        total = self._sums[case.dataset]
        answer = placeholder_answer(run, case)
        if answer.requests:
            text = sum(len(message.text) for message in case.messages)
            times = run.repeats.target * answer.requests
            if is_simulated(run, case):
                text = self._add_simulated(total, case, answer)
            else:
                _add_calls(total, text, (TARGET_BRIEF, TARGET_WORDY), times, run.target)
            if isinstance(run.target, HttpTargetConfig):
                # Each conversation is opened once, and for each turn it asks at least once whether the answer is there.
                total.requests += (run.target.open is not None) * run.repeats.target
                total.requests += (run.target.poll is not None) * times
            if isinstance(run.target, AgentTargetConfig):
                more = run.target.limits.steps - 1
                grown = text + more * _STEP // 2  # on average, half of the steps stand before one
                _add_calls(total, grown, (TARGET_BRIEF, TARGET_WORDY), times * more, run.target, certain=False)
        rounds = 0
        for pair in self._parts.pairs:
            mine = [
                self._ask(total, pair, bound, case, answer, repeats * run.repeats.target)
                for bound, repeats in pair.bound(case, run.repeats.judge)
                if bound.judge is not None
            ]
            rounds = max(rounds, sum(mine) if pair.metric.stops else max(mine, default=0))
        answering = answer.requests if getattr(run.target, "batch", False) else 0
        self._rounds = max(self._rounds, answering + rounds)

    def _add_simulated(self, total: Estimate, case: Case, answer: Answer) -> int:
        """Add the calls of a conversation that ends at its limit of turns; return the average characters before a call.

        Only the first call of each side is certain.
        """
        run, turns = self._parts.settings.run, answer.requests
        # On average, half of the conversation stands before a call.
        text = sum(len(message.text) for message in case.messages) + turns * _TURN // 2
        for times, certain in ((run.repeats.target, True), (run.repeats.target * (turns - 1), False)):
            _add_calls(total, text, (TARGET_BRIEF, TARGET_WORDY), times, run.target, certain=certain)
        if isinstance(run.simulator, OpenAISimulatorConfig):
            prompt = len(self._parts.prompts.source(run.simulator.prompt)) + len(case.brief or "") + text
            # It is asked once more after the last answer, unless the opening ends with the user's turn.
            asked = turns if case.messages and case.messages[-1].role == "user" else turns + 1
            for times, certain in ((run.repeats.target, True), (run.repeats.target * (asked - 1), False)):
                _add_calls(total, prompt, (BRIEF, WORDY), times, run.simulator, certain=certain)
        return text

    def _ask(self, total: Estimate, pair: Pair, bound: Pair, case: Case, answer: Answer, times: int) -> int:
        """Add a metric's requests; returns its rounds of batches."""
        try:
            asks = bound.metric.preview(case, answer)
        except UserError as error:
            self.problems += [problem for problem in error.problems if problem not in self.problems]
            return 0
        self._check_cascade(pair, bound.metric.name, asks)
        for ask in asks:
            items = max(1, len(ask.items or ()))
            reply = (0, 0) if ask.embeds else (BRIEF * items, WORDY * items)
            for judge, config, put, certain in self._asked(pair, ask):
                if judge.info.remote:
                    samples = 1 if put.logprobs and _reads_probabilities(put, config) else put.samples
                    _add_calls(
                        total, self._length(put), reply, times * samples, config, certain=certain and ask.certain
                    )
        by_batch = sum(bool(getattr(config, "batch", False)) for _, config in self._parts.asked(pair))
        in_turn = isinstance(self._parts.settings.judges[pair.metric.name], CascadeConfig)
        return len({ask.step for ask in asks if ask.certain and not ask.embeds}) * (
            by_batch if in_turn else min(by_batch, 1)
        )

    def _check_cascade(self, pair: Pair, metric: str, asks: Sequence[Ask]) -> None:
        if not isinstance(pair.judge, Panel) or not isinstance(pair.judge.config, CascadeConfig):
            return
        put = [with_probabilities(ask, pair.judge.config) for ask in asks]
        members = zip(self._parts.asked(pair)[:-1], pair.judge.config.asked, strict=False)
        for place, ((judge, config), name) in enumerate(members):
            if why := _no_probability(judge, config, put):
                what = f"{metric}: {judge.info.name} gives no probability of its verdicts ({why}), so that the cascade "
                what += "could not tell when to ask the next one"
                hint = f"draw several replies, judge.samples=5; or judge.members.{name}.logprobs=true where the "
                hint += "endpoint gives them"
                self.unsure[metric, place] = Problem(what, f"judge.members.{name}", hint)

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
                yield judge, config, ask if last else with_probabilities(ask, cascade), place == 0

    def scaled(self, cases: Mapping[str, int]) -> Estimate:
        estimate = Estimate()
        for dataset, total in self._sums.items():
            estimate.include(total, cases[dataset] / self._cases[dataset])
        estimate.include(self._once)
        estimate.rounds = self._rounds
        return estimate

    def _preparation(self) -> Estimate:
        estimate = Estimate()
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
                _add_calls(estimate, self._length(ask), (BRIEF, WORDY), 1, config, getattr(config, "price", None))
        estimate.preparing = estimate.requests
        return estimate

    def _length(self, ask: Ask) -> int:
        if not ask.messages:  # texts to embed
            return sum(len(str(item)) for item in ask.items or ())
        model = ask.reply_model
        if model not in self._schema_lengths:
            self._schema_lengths[model] = len(str(model.model_json_schema()))
        return self._schema_lengths[model] + len(ask.text)


def _add_calls(
    total: Estimate,
    characters: int,
    reply: tuple[int, int],
    times: int,
    config: Any,
    price: Price | None = None,
    *,
    certain: bool = True,
) -> None:
    """Add calls of one kind, at a price that is not the usual one, if given.

    Uncertain ones count as requests and for the high estimate only.
    """
    least = times if certain else 0
    low, high = round(characters / SPARSE), round(characters / DENSE)
    limit: int | None = getattr(config, "longest_reply", None)
    brief, wordy = (tokens if limit is None else min(tokens, limit) for tokens in reply)
    total.requests += times
    total.input_tokens_low += low * least
    total.input_tokens_high += high * times
    total.output_tokens_low += brief * least
    total.output_tokens_high += wordy * times
    price = price or getattr(config, "charged", None)
    longest = reply[1] and (REPLY_TOKENS if limit is None else limit)  # texts to embed have no reply
    total.reserved_tokens += (high + longest) * times
    total.reserved_usd += price.cost(high * times, longest * times) if price else 0.0
    if price is None or total.cost_usd_low is None or total.cost_usd_high is None:
        total.cost_usd_low = total.cost_usd_high = None
    else:
        total.cost_usd_low += price.cost(low * least, brief * least)
        total.cost_usd_high += price.cost(high * times, wordy * times)


def _no_probability(judge: Judge, config: Any, asks: Sequence[Ask]) -> str | None:
    """Return why a member of a cascade gives no probabilities; None if it does."""
    from evalflow.llm.reader import item_type

    def verdict(ask: Ask) -> Any:
        return ask.reply_model if ask.items is None else item_type(ask.reply_model.model_fields["results"])

    verdicts = [ask for ask in asks if not ask.embeds and choices(verdict(ask))]
    if not verdicts:
        return "no step asks it for one of a few choices, such as a label, yes or no, or a grade" if asks else None
    if judge.info.weighted:
        return None
    silent = next((ask for ask in verdicts if ask.samples == 1 and not _reads_probabilities(ask, config)), None)
    if silent is None:
        return None
    logprobs = getattr(config, "gives_logprobs", False)
    why = "token probabilities of a list are not read" if logprobs else "its endpoint gives no token probabilities"
    return f"step {silent.step}: {why}"


def _reads_probabilities(ask: Ask, config: Any) -> bool:
    return ask.items is None and getattr(config, "gives_logprobs", False)
