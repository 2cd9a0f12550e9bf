"""Runs a chain: asks the judge each step's rendered prompt and turns the replies into one score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar, cast

from evalflow.errors import JudgeError, UserError
from evalflow.frozen import record
from evalflow.jsonvalues import look_up
from evalflow.metrics.base import BaseMetric, UnitMetricConfig
from evalflow.metrics.returns import Observed, rows_at
from evalflow.metrics.rules import Rule
from evalflow.metrics.steps import LISTS, PreparedStep, fields_of, items_in, obstacle, root, stand_in
from evalflow.prompts import Shared, render
from evalflow.protocols import Judge
from evalflow.records import Answer, Ask, Case, Distribution, Message, Outcome, Reply


class ChainConfig(UnitMetricConfig):
    """The settings of every metric that asks a judge.

    Attributes:
        weighting: `probability`: scores are expectations over the judge's probabilities, if it gives any.
        verbose: Whether to print each score with its steps as it is computed.
    """

    weighting: Literal["probability"] | None = None
    verbose: bool = False


@record()
class Scope:
    """Prompt variables for one answer, metric and repeat: the fields in `needs`, and those that the kind adds."""

    metric: str
    repeat: int
    fields: Mapping[str, Any]
    variables: Mapping[str, Any]
    logprobs: bool
    shared: Shared
    samples: int = 1


C = TypeVar("C", bound=ChainConfig)


class ChainMetric(BaseMetric[C], Generic[C]):
    """A metric that asks a judge a chain of steps and applies a score rule to the replies."""

    asks = True

    def __init__(self, name: str, config: C, steps: Sequence[PreparedStep], rule: Rule) -> None:
        super().__init__(name, config)
        self.tasks = {step.config.id: step.config.task for step in steps}
        self.prompts = tuple(dict.fromkeys(step.config.prompt for step in steps))
        self._steps = tuple(steps)
        self._rule = rule
        self._shared = Shared(**self._constants())
        self._needed = tuple(dict.fromkeys(map(root, config.needs)))

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The asks of scoring, with placeholders for the replies; empty if nothing would be asked."""
        fields = fields_of(case, answer)
        if obstacle(self.config.needs, fields, answer, blank_is_text=False):
            return ()
        scope = self._scope(fields, repeat=0)
        asks: list[Ask] = []
        seen: dict[str, Observed] = {}
        for step in self._steps:
            items = _items(step, scope, seen)
            ask = _ask(step, scope, seen, items)
            asks.append(ask)
            reply = stand_in(step.config.returns, ask.variables.get("source"))
            seen[step.config.id] = Observed(step.shape, reply if items is None else [reply] * len(items), None, items)
        return asks

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Ask every step in turn, then apply the score rule.

        A call that fails for good gives a score in state error, with the steps so far and the raw reply.
        """
        if judge is None:
            raise ValueError(f"metric {self.name} needs a judge")
        fields = fields_of(case, answer)
        blocked = obstacle(self.config.needs, fields, answer, blank_is_text=False)
        if blocked:
            return blocked
        scope = self._scope(fields, repeat)
        trail: list[dict[str, Any]] = []
        seen: dict[str, Observed] = {}
        for step in self._steps:
            config, items = step.config, _items(step, scope, seen)
            entry: dict[str, Any] = {
                "id": config.id,
                "task": config.task,
                "items": None if items is None else list(items),
                "reply": None,
                "reasks": 0,
            }
            trail.append(entry)
            if items == ():
                # No items to ask about; a call would only invent some. The score rule decides what this means.
                entry |= {"reply": [], "probabilities": None}
                seen[config.id] = Observed(step.shape, [], None, ())
                continue
            try:
                reply = await judge.ask(_ask(step, scope, seen, items))
                _record(entry, reply, items)
            except UserError as error:  # a prompt that fails for one case does not stop the run
                entry |= {"raw": None, "error": str(error)}
                return Outcome(status="error", error_type="prompt", error=str(error), steps=tuple(trail))
            except JudgeError as error:
                entry |= {"raw": error.raw, "error": str(error)}
                return Outcome(status="error", error_type=error.error_type, error=str(error), steps=tuple(trail))
            seen[config.id] = Observed(step.shape, entry["reply"], reply.probabilities, items)
        return self._conclude(seen, trail, weighted=judge.info.weighted or scope.logprobs)

    def _scope(self, fields: Mapping[str, Any], repeat: int) -> Scope:
        variables = dict(zip(self._needed, map(fields.__getitem__, self._needed), strict=True))
        variables |= self._shared
        variables |= self._extras(fields)
        return Scope(self.name, repeat, fields, variables, self.config.weighting == "probability", self._shared)

    def _constants(self) -> Mapping[str, Any]:
        """Prompt variables from the kind that do not depend on the case."""
        return {}

    def _extras(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Further prompt variables from the kind, besides the fields in `needs`."""
        return {}

    def _conclude(self, seen: Mapping[str, Observed], trail: Sequence[Mapping[str, Any]], weighted: bool) -> Outcome:
        result = self._rule.evaluate(seen, weighted)
        steps = tuple(trail)
        if result.score is None:
            return Outcome(status="undefined", reason=result.undefined, steps=steps)
        reasked = any(map(itemgetter("reasks"), trail))
        return Outcome(
            status="scored",
            score=result.score,
            value=result.value,
            reason=self._rule.reason(seen, self.config.direction, weighted),
            steps=steps,
            path="weighted" if result.weighted else "reasked" if reasked else "direct",
        )


def _items(step: PreparedStep, scope: Scope, seen: Mapping[str, Observed]) -> tuple[Any, ...] | None:
    """The items that a step asks about one by one; None for a step that asks once."""
    ref = step.config.one_per
    if ref is None:
        return None
    return items_in(ref, scope.fields) if ref in LISTS else tuple(rows_at(ref, seen).rows)


def _ask(step: PreparedStep, scope: Scope, seen: Mapping[str, Observed], items: tuple[Any, ...] | None) -> Ask:
    config = step.config
    variables = {**scope.variables}
    for name, observed in seen.items():
        variables[name] = observed.reply
    if config.source_field:
        variables["source"] = look_up(config.source_field, scope.fields)
    if config.against_field:
        variables["against"] = look_up(config.against_field, scope.fields)
    if items is not None:
        variables["items"] = items
    where = f"metric.{scope.metric}, step {config.id}, {config.prompt}"
    prompt = render(step.template, variables, where, scope.shared)
    return Ask(
        metric=scope.metric,
        step=config.id,
        task=config.task,
        messages=(Message("user", prompt),),
        reply_model=step.reply_model,
        variables=variables,
        items=items,
        samples=scope.samples,
        logprobs=scope.logprobs,
        repeat=scope.repeat,
    )


def _record(entry: dict[str, Any], reply: Reply, items: tuple[Any, ...] | None) -> None:
    """Add the reply to a step's entry; JudgeError unless it covers exactly the items asked about."""
    said, probabilities = reply.parsed.model_dump(mode="json"), reply.probabilities
    if items is not None:
        said = cast("list[Any]", said["results"])
        if len(said) != len(items):
            raise JudgeError("schema", f"the judge gave {len(said)} results for {len(items)} items", reply.raw)
    expected = 1 if items is None else len(items)
    if probabilities is not None and len(probabilities) != expected:
        what = f"the judge gave {len(probabilities)} distributions for {expected} items"
        raise JudgeError("schema", what, reply.raw)
    entry |= {"reply": said, "probabilities": None, "reasks": reply.reasks}
    if probabilities is not None:
        entry["probabilities"] = [_json_distribution(one) for one in probabilities]
    if reply.samples > 1:
        entry["samples"] = reply.samples
    if reply.failed:
        entry["failed"] = reply.failed
    if reply.mass is not None:
        entry["mass"] = dict(reply.mass)


def _json_distribution(distribution: Distribution) -> dict[str, dict[str, float]]:
    return {
        field: {_key(value): chance for value, chance in chances.items()} for field, chances in distribution.items()
    }


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
