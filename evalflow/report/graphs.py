"""A decision graph as text: the branches of each node, in the order of the file."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from evalflow.metrics.branches import Branch, Route
from evalflow.metrics.graph_nodes import GraphMetricConfig, GraphNode


def drawing_of(definition: Mapping[str, object]) -> list[str]:
    """The lines of a metric's graph; empty for another kind, and for an invalid graph (`check` reports the mistake)."""
    if definition.get("kind") != "graph":
        return []
    try:
        return graph_lines(GraphMetricConfig.model_validate({**definition, "judge": None}))
    except ValidationError:
        return []


def graph_lines(config: GraphMetricConfig) -> list[str]:
    """The lines of a graph from its start. A node reached from several nodes is only drawn at its first place."""
    start = config.nodes.get(config.start)
    if start is None:
        return []
    lines, shown = [f"{config.start}  {_act(start)}"], {config.start}
    # Indents, and the branches still to be drawn below them; no recursion, since a graph may be deep.
    open_ = [("", _ways(start))]
    while open_:
        indent, ways = open_[-1]
        if not ways:
            open_.pop()
            continue
        way = ways.pop(0)
        condition = _condition(way)
        arrow = f"{indent}{'├─' if ways else '└─'} {f'{condition} ' if condition else ''}→ "
        following = config.nodes.get(way.next or "")
        if following is None:
            lines.append(f"{arrow}{way.next or (way.score if isinstance(way.score, str) else f'{way.score:g}')}")
        elif way.next in shown:
            lines.append(f"{arrow}{way.next}  (above)")
        else:
            shown.add(str(way.next))
            lines.append(f"{arrow}{way.next}  {_act(following)}")
            open_.append((f"{indent}{'│  ' if ways else '   '}", _ways(following)))
    return lines


def _ways(node: GraphNode) -> list[Route]:
    return [way for way in node.ways if way.next is not None or way.score is not None]


def _act(node: GraphNode) -> str:
    if node.check:
        return f"checks {node.check.op}"
    if node.rule:
        is_end = node.branches is None and node.next is None and node.score is None
        return f"computes {node.rule.op}{', the score' if is_end else ''}"
    return f"asks {node.prompt}"


def _condition(way: Route) -> str:
    if not isinstance(way, Branch):
        return ""
    if way.values is not None:
        labels = ("yes" if value is True else "no" if value is False else str(value) for value in way.values)
        return " or ".join(labels)
    bounds = [f"from {way.min:g}"] if way.min is not None else []
    bounds += [f"up to {way.max:g}"] if way.max is not None else []
    return " ".join(bounds) or "otherwise"
