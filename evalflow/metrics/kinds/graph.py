"""The kind `graph`: asks the judge, and by its reply asks the next question or gives a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from evalflow.errors import UserError
from evalflow.metrics.branches import Route
from evalflow.metrics.chain import AskingMetric, Scope
from evalflow.metrics.graph_nodes import FIELD, GraphMetricConfig, GraphNode, graph_problems
from evalflow.metrics.reasons import REMARK, one_line, remark, word
from evalflow.metrics.rulebook import Rulebook
from evalflow.metrics.steps import PreparedStep, prepared_step
from evalflow.metrics.topology import END, best_way, certain, ordered
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Ask, Outcome

UNDEFINED = Route(score="undefined")


@dataclass(slots=True)
class Visit:
    """A node's result: the value that selects the branch, its text in the reason, and why; an outcome if it failed."""

    value: float | bool | str | None = None
    shown: str = ""
    why: str | None = None
    failure: Outcome | None = None
    weighted: bool = False


class GraphMetric(AskingMetric[GraphMetricConfig]):
    """Goes from node to node until a path ends with a score."""

    Config = GraphMetricConfig

    def __init__(self, name: str, config: GraphMetricConfig, steps: Sequence[PreparedStep]) -> None:
        super().__init__(name, config, steps)
        self._order, _ = ordered(config.graph)
        self._always = certain(config.start, self._order, config.graph)[END]
        self._asking = {step.config.id: step for step in self._steps}
        checks = {name: node.check for name, node in config.nodes.items()}
        self._checks = {name: Rulebook(FIELD, [check]) for name, check in checks.items() if check}

    @classmethod
    def build(cls, name: str, config: GraphMetricConfig, prompts: Prompts) -> Self:
        if problems := list(graph_problems(name, config, prompts)):
            raise UserError(problems)
        return cls(name, config, [prepared_step(step, prompts) for step in config.steps.values()])

    def _previewed(self, scope: Scope) -> Sequence[Ask]:
        """The asks of the path with the most calls; among several, the one with the longest prompts.

        All nodes are rendered, so that a broken prompt shows before the run.
        """
        nodes = [node for node in self._order if node in self._asking]
        asks = {node: ask for node in nodes if (ask := self._placeholder_ask(scope, self._asking[node]))}
        lengths = {node: len(ask.text) for node, ask in asks.items()}
        call = 1 + sum(lengths.values())  # more than all texts together
        weight = {node: call + length for node, length in lengths.items()}
        _, way = best_way(self.config.start, self._order, self.config.graph, lambda node: weight.get(node, 0))
        return [replace(asks[node], certain=node in self._always) for node in way if node in asks]

    async def _run(self, scope: Scope, judge: Judge) -> Outcome:
        weighted = judge.info.weighted or scope.logprobs
        path: list[str] = []
        why: str | None = None
        expected = False
        name = self.config.start
        while True:
            node = self.config.nodes[name]
            visit = await self._visit(name, node, scope, judge, weighted)
            if visit.failure:
                return visit.failure
            path.append(f"{name}: {visit.shown}" if visit.shown else name)
            why, expected = visit.why or why, expected or visit.weighted
            way = UNDEFINED if node.rule and visit.value is None else node.way(visit.value)
            if way.next is None:
                break
            name = way.next
        score = visit.value  # a rule that ends the path
        if way.score is not None:
            score = way.score
            path.append(_shown(score))
        reason = " → ".join(path) + (f"; {one_line(why, 2 * REMARK)}" if why else "")
        steps = tuple(scope.trail)
        if isinstance(score, str):  # undefined
            return Outcome(status="undefined", reason=reason, steps=steps)
        return Outcome(status="scored", score=score, value=score, reason=reason, steps=steps, path=scope.path(expected))

    async def _visit(self, name: str, node: GraphNode, scope: Scope, judge: Judge, weighted: bool) -> Visit:
        if name in self._checks:
            return await self._check(name, scope)
        if node.rule:
            return self._compute(name, node, scope, weighted)
        if failure := await self._ask(scope, self._asking[name], judge):
            return Visit(failure=failure)
        observed = scope.replies[name]
        field = node.deciding_field
        if observed.items is not None or field is None:
            return Visit()
        value = observed.cell(field)
        assert isinstance(value, str | int | float)
        return Visit(value, _shown(value), remark(observed.reply, observed))

    async def _check(self, name: str, scope: Scope) -> Visit:
        outcome = await self._checks[name].score(scope.data)
        if outcome.status != "scored":
            return Visit(failure=replace(outcome, steps=tuple(scope.trail)))
        [about] = self._checks[name].about
        scope.trail.append({**about, "id": name, "passed": bool(outcome.score), "reason": outcome.reason})
        return Visit(bool(outcome.score), _shown(bool(outcome.score)), outcome.reason)

    def _compute(self, name: str, node: GraphNode, scope: Scope, weighted: bool) -> Visit:
        assert node.rule is not None
        evaluation = node.rule.evaluate(scope.replies, weighted)
        why = evaluation.undefined or node.rule.reason(scope.replies, self.config.direction, weighted)
        rule: Mapping[str, object] = node.rule.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        scope.trail.append({"id": name, "rule": rule, "score": evaluation.score, "reason": why})
        shown = "" if evaluation.score is None else _shown(evaluation.score)
        return Visit(evaluation.score, shown, why, weighted=evaluation.weighted)


def _shown(value: float | bool | str) -> str:
    if isinstance(value, str):
        return word(None, value)
    return ("yes" if value else "no") if isinstance(value, bool) else f"{round(value, 3):g}"
