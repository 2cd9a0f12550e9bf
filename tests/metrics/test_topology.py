"""Order, cycles and ways of graphs, against every way written out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.metrics.topology import END, Graph, best_way, certain, ordered, reached

pytestmark = pytest.mark.slow

NAMES = "abcdefg"


@st.composite
def acyclic(draw: st.DrawFn) -> Graph:
    """Every node leads to later ones, or to the end."""
    later = {name: [*NAMES[place + 1 :], END] for place, name in enumerate(NAMES)}
    return {name: draw(st.lists(st.sampled_from(others), min_size=1, max_size=3)) for name, others in later.items()}


any_graph = st.fixed_dictionaries({name: st.lists(st.sampled_from([*NAMES, END]), min_size=1) for name in NAMES})


def ways(graph: Graph, start: str) -> list[list[str]]:
    """Every way from a node to the end."""
    if start == END:
        return [[]]
    return [[start, *rest] for other in dict.fromkeys(graph[start]) for rest in ways(graph, other)]


@given(acyclic(), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)))
def test_of_all_ways_the_heaviest_and_the_lightest_is_found(graph: Graph, weights: dict[str, int]) -> None:
    order, cycles = ordered(graph)
    assert cycles == []
    totals = [sum(weights.get(node, 0) for node in way) for way in ways(graph, "a")]
    for choose in (max, min):
        total, way = best_way("a", order, graph, lambda node: weights.get(node, 0), choose)
        assert total == choose(totals) == sum(weights.get(node, 0) for node in way)
        assert way in ways(graph, "a")


@given(acyclic())
def test_what_is_certain_is_on_every_way(graph: Graph) -> None:
    order, _ = ordered(graph)
    known = certain("a", order, graph)
    every = ways(graph, "a")
    assert set(known) - {END} == reached("a", graph) == {node for way in every for node in way}
    assert known[END] == set.intersection(*map(set, every))
    for node in set(known) - {END}:
        assert known[node] == set.intersection(*(set(way[: way.index(node)]) for way in every if node in way))


@given(any_graph)
def test_each_cycle_is_one_and_without_them_there_is_an_order(graph: Graph) -> None:
    order, cycles = ordered(graph)
    assert sorted(order) == list(NAMES)
    for cycle in cycles:
        assert cycle[0] == cycle[-1]
        assert all(other in graph[node] for node, other in pairwise(cycle))
    cut = {(cycle[-2], cycle[-1]) for cycle in cycles}
    place = {node: at for at, node in enumerate(order)}
    assert all(
        place[node] < place[other]
        for node, others in graph.items()
        for other in others
        if other != END and (node, other) not in cut
    )


def test_a_node_that_leads_to_itself_is_a_cycle() -> None:
    assert ordered({"a": ["a", END]})[1] == [["a", "a"]]
