"""Directed graphs of named nodes: order, cycles, nodes on every path, and heaviest and lightest paths.

A graph maps each node to those that may follow it; END stands for the end of a way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

END = ""
Graph = Mapping[str, Sequence[str]]


def ordered(graph: Graph) -> tuple[list[str], list[list[str]]]:
    """The nodes in topological order, and the cycles; the last edge of each cycle is ignored for the order."""
    before: dict[str, set[str]] = {node: set() for node in graph}
    for node, others in graph.items():
        for other in others:
            before.setdefault(other, set()).add(node)
    cycles: list[list[str]] = []
    while True:
        try:
            return [node for node in TopologicalSorter(before).static_order() if node in graph], cycles
        except CycleError as error:
            cycle: list[str] = error.args[1]
            cycles.append(cycle)
            before[cycle[-1]].discard(cycle[-2])


def reached(start: str, graph: Graph) -> set[str]:
    """The nodes reachable from the start, including the start."""
    visited, open_ = {start}, [start]
    while open_:
        new = {node for node in graph.get(open_.pop(), ()) if node in graph} - visited
        visited |= new
        open_ += new
    return visited


def certain(start: str, order: Iterable[str], graph: Graph) -> dict[str, frozenset[str]]:
    """For each reachable node, and END: the nodes that every path from the start to it passes."""
    known = {start: frozenset[str]()}
    for node in order:
        if node in known:
            passed = known[node] | {node}
            for other in graph[node]:
                known[other] = known.get(other, passed) & passed
    return known


def best_way(
    start: str,
    order: Sequence[str],
    graph: Graph,
    weight: Callable[[str], int],
    choose: Callable[[Iterable[tuple[int, list[str]]]], tuple[int, list[str]]] = max,
) -> tuple[int, list[str]]:
    """The heaviest path (with `min` the lightest) from start to end, with its weight; the graph must be acyclic."""
    best: dict[str, tuple[int, list[str]]] = {END: (0, [])}
    for node in reversed(order):
        rest, way = choose(best[other] for other in graph[node])
        best[node] = (weight(node) + rest, [node, *way])
    return best[start]
