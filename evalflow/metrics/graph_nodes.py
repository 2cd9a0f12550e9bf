"""The nodes of a decision graph, and the checks of a graph that need no case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from pydantic import Field

from evalflow.config.schema import Word, with_examples
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.base import expect_declared
from evalflow.metrics.branches import Branch, Decided, Route, branch_problems
from evalflow.metrics.chain import ChainConfig
from evalflow.metrics.returns import BoolType, LabelType, NumberType, Returns, StepConfig, StepInputs, StepName
from evalflow.metrics.rulebook import Operation
from evalflow.metrics.rules import Rule
from evalflow.metrics.steps import step_problems
from evalflow.metrics.topology import END, certain, ordered, reached
from evalflow.prompts import Prompts

FIELD = "answer"
"""The field that a node checks if its operation names none."""


class GraphNode(StepInputs, Route):
    """One step: it asks the judge, checks a field, or computes a number, and says which node is next.

    Attributes:
        prompt: Asks the judge: a template of the prompt folders.
        returns: The judge's reply.
        by: The field of the reply that selects the branch; null: its only label, boolean or number.
        check: Checks a field without a judge: an operation of metrics of the kind `check`.
        rule: Computes a number from 0 to 1 from the replies so far, by a score rule. If no node follows, it is the
            score.
        branches: The branches; the first that fits the value is taken.
    """

    model_config = with_examples(
        {
            "prompt": "answerability/answerable.jinja",
            "returns": {"reason": "str", "enough": "bool"},
            "branches": [{"equals": True, "next": "answered"}, {"equals": False, "score": 0}],
        },
        {"check": {"op": "contains", "value": "http"}, "branches": [{"equals": True, "score": 1}, {"score": 0}]},
        {
            "rule": {"op": "share", "of": "verdicts", "field": "verdict", "equals": "supported"},
            "branches": [{"min": 0.9, "next": "tone"}, {"score": 0}],
        },
    )
    prompt: Word | None = None
    returns: Returns | None = None
    by: Word | None = None
    check: Operation | None = None
    rule: Rule | None = None
    branches: list[Branch] | None = Field(default=None, min_length=1)

    @property
    def ways(self) -> Sequence[Route]:
        return self.branches or [self]

    def step(self, name: str) -> StepConfig | None:
        """The step that asks the judge; None if the node asks nothing."""
        if self.prompt is None or self.returns is None:
            return None
        inputs = {key: getattr(self, key) for key in StepInputs.model_fields}
        return StepConfig(id=name, prompt=self.prompt, returns=self.returns, **inputs)

    @property
    def deciding_field(self) -> str | None:
        """The field of the reply that selects the branch; None if there is no such field, or several."""
        fields = [name for name, declared in (self.returns or {}).items() if isinstance(declared, Decided)]
        return self.by or (fields[0] if len(fields) == 1 else None)

    def way(self, value: object) -> Route:
        return next(branch for branch in self.branches if branch.fits(value)) if self.branches else self


class GraphMetricConfig(ChainConfig):
    """A decision graph: each node asks, checks or computes, and says which node is next.

    Attributes:
        start: The first node.
        nodes: The nodes, by name.
    """

    kind: Literal["graph"]  # pyright: ignore[reportIncompatibleVariableOverride]
    start: Word
    nodes: dict[StepName, GraphNode] = Field(min_length=1)

    @cached_property
    def steps(self) -> Mapping[str, StepConfig]:
        """The steps that ask the judge, by node."""
        by_node = {name: node.step(name) for name, node in self.nodes.items()}
        return {name: step for name, step in by_node.items() if step is not None}

    @cached_property
    def graph(self) -> Mapping[str, Sequence[str]]:
        return {name: [way.next or END for way in node.ways] for name, node in self.nodes.items()}


def graph_problems(name: str, config: GraphMetricConfig, prompts: Prompts) -> Iterator[Problem]:
    """All that is wrong with a graph."""
    where = f"metric.{name}"
    if config.start not in config.nodes:
        hint = did_you_mean(config.start, config.nodes)
        yield Problem(f"there is no node {config.start!r}", f"{where}.start", hint)
    for own, node in config.nodes.items():
        yield from _shape_problems(node, f"{where}.nodes.{own}")
        yield from _way_problems(node, config, f"{where}.nodes.{own}")
    order, cycles = ordered(config.graph)
    for cycle in cycles:
        what = f"the nodes lead in a circle: {' -> '.join(cycle)}"
        yield Problem(what, f"{where}.nodes.{cycle[-2]}", f"let {cycle[-2]} go elsewhere, or to a score")
    if not config.steps:
        yield Problem(
            "no node asks the judge", f"{where}.nodes", "for rules without a judge use the kind check: `show check`"
        )
    if config.start not in config.nodes:
        return
    reachable = reached(config.start, config.graph)
    known = certain(config.start, order, config.graph)
    for own, node in config.nodes.items():
        key = f"{where}.nodes.{own}"
        if own not in reachable:
            yield Problem(
                f"no path leads to the node {own!r}", key, f"lead a branch to it, `next: {own}`, or delete it"
            )
            continue
        earlier = {step: config.steps[step] for step in config.steps if step in known.get(own, ())}
        if step := config.steps.get(own):
            others = config.steps.keys() - earlier.keys()
            yield from step_problems(step, earlier, config.shown, prompts, key, uncertain=others)
        if node.check:
            read = {f"nodes.{own}.check.{place}".rstrip("."): field for place, field in node.check.reads(FIELD)}
            try:
                expect_declared(name, config.needs, read)
            except UserError as error:
                yield from error.problems
        if node.rule:
            yield from node.rule.problems(earlier, f"{key}.rule")


def _shape_problems(node: GraphNode, key: str) -> Iterator[Problem]:
    acts = [act for act in ("prompt", "check", "rule") if getattr(node, act) is not None]
    if len(acts) != 1:
        has = " and ".join(acts) or "none of them"
        yield Problem(f"a node needs exactly one of `prompt`, `check` and `rule`; this one has {has}", key)
        return
    extra = [name for name in ("returns", "by", *StepInputs.model_fields) if getattr(node, name) is not None]
    if acts == ["prompt"] and node.returns is None:
        yield Problem("`returns` is required", key, "declare the judge's reply: returns: {reason: str, holds: bool}")
        return
    if acts != ["prompt"] and extra:
        yield Problem(f"`{extra[0]}` belongs to a node with a `prompt`", f"{key}.{extra[0]}")
        return
    if node.branches is None:
        if node.by:
            yield Problem("`by` selects one of `branches`, but there are no branches", f"{key}.by")
        return
    try:
        declared = _decided(node)
    except ValueError as error:
        yield Problem(str(error), f"{key}.by" if node.by else key)
        return
    yield from branch_problems(node.branches, declared, f"{key}.branches")


def _decided(node: GraphNode) -> Decided:
    """The type of the value that selects the branch; ValueError if there is none."""
    if node.check:
        return BoolType(type="bool")
    if node.rule:
        return NumberType(type="float", min=0, max=1)
    returns = node.returns or {}
    if node.one_per:
        raise ValueError(
            "a node with `one_per` has several replies; use a node with a `rule` to compute one number from them"
        )
    if node.by and node.by not in returns:
        raise ValueError(f"the reply has no field {node.by!r}; {did_you_mean(node.by, returns)}")
    field = node.deciding_field
    if field is None:
        fields = [name for name, declared in returns.items() if isinstance(declared, Decided)]
        what = f"choose one: `by: {' or '.join(fields)}`" if fields else "give it a label, a bool or a number"
        raise ValueError(f"the reply has {len(fields)} fields that can decide; {what}")
    declared = returns[field]
    if not isinstance(declared, LabelType | BoolType | NumberType):
        raise ValueError(f"{field!r} is a {declared.type}; branches need a label, a bool or a number")
    return declared


def _way_problems(node: GraphNode, config: GraphMetricConfig, key: str) -> Iterator[Problem]:
    """Nodes and branches that lead nowhere, or to two places."""
    own = [name for name in ("branches", "next", "score") if getattr(node, name) is not None]
    if len(own) > 1:
        yield Problem(
            f"a node needs exactly one of `branches`, `next` and `score`; this one has {' and '.join(own)}", key
        )
    elif not own and node.rule is None:
        yield Problem("the path ends here without a score", key, "give the node `branches`, `next` or `score`")
    for place, way in enumerate(node.ways):
        at = f"{key}.branches[{place}]" if node.branches else key
        if node.branches and (way.next is None) == (way.score is None):
            has = "neither" if way.next is None else "both"
            yield Problem(f"a branch goes to a `next` node or gives a `score`; this one has {has}", at)
        if way.next is not None and way.next not in config.nodes:
            yield Problem(f"there is no node {way.next!r}", f"{at}.next", did_you_mean(way.next, config.nodes))
