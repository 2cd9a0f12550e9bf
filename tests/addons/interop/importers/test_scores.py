"""Another tool's scores pass exactly if the tool let them pass, or the rows that contradict are listed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.scores import Verdicts
from evalflow.records.scores import Direction, passes

Triple = tuple[float, float | None, bool | None]


def verdicts(*triples: Triple) -> Verdicts:
    found = Verdicts()
    for number, (score, threshold, success) in enumerate(triples):
        found.add(score, threshold, success, f"f:{number}")
    return found


@pytest.mark.parametrize(
    ("triples", "prior", "rule"),
    [
        ([(1.0, 0.5, True), (0.0, 0.5, False)], None, ("higher_is_better", 0.5)),
        ([(1.0, 0.5, False), (0.0, 0.5, True)], None, ("lower_is_better", 0.5)),
        ([(1.0, 0.5, False), (0.0, 0.5, True)], "higher_is_better", ("lower_is_better", 0.5)),
        ([(0.0, 0.0, True), (1.0, 0.0, False)], "higher_is_better", ("lower_is_better", 0.0)),  # strict
        ([(0.5, 0.5, True)], "lower_is_better", ("lower_is_better", 0.5)),  # both directions fit
        ([(0.5, 0.5, True)], None, (None, None)),
        ([(0.9, 0.7, True), (0.6, 0.5, True), (0.4, 0.5, False)], None, ("higher_is_better", 0.5)),
        ([(0.6, 0.5, True), (0.6, 0.7, False)], "higher_is_better", (None, None)),  # no threshold fits both
        ([(0.4, 0.5, True), (0.9, 0.5, True), (0.1, 0.5, False)], "higher_is_better", ("higher_is_better", None)),
        ([(0.4, None, False), (0.9, None, True)], None, ("higher_is_better", None)),
        ([(0.4, 0.5, None)], "lower_is_better", ("lower_is_better", 0.5)),
        ([(0.4, 0.5, None)], None, (None, None)),
        ([(0.4, 0.5, None), (0.4, 0.6, None)], "higher_is_better", ("higher_is_better", None)),
    ],
)
def test_the_rule_is_the_one_that_agrees_with_all_verdicts(
    triples: list[Triple], prior: Direction | None, rule: tuple[Direction | None, float | None]
) -> None:
    assert verdicts(*triples).rule(prior) == rule


def test_rows_that_contradict_their_threshold_are_listed() -> None:
    found, ledger = verdicts((0.9, 0.5, True), (0.4, 0.5, True), (0.1, 0.5, False)), Ledger()
    found.list_unread("Tone", found.rule("higher_is_better"), ledger, "f")
    [entry] = ledger.left_out
    assert (entry.what, entry.where) == ("pass or fail of Tone", "f:1 (score 0.4, threshold 0.5, success true)")
    assert "contradicts" in entry.reason
    nothing = Ledger()
    fine = verdicts((0.9, 0.5, True))
    fine.list_unread("Tone", fine.rule("higher_is_better"), nothing, "f")
    verdicts().list_unread("Tone", (None, None), nothing, "f")
    assert not nothing.left_out


SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 1.0])
TRIPLES = st.lists(st.tuples(SCORES, SCORES | st.none(), st.booleans() | st.none()), max_size=8)


@given(TRIPLES, st.sampled_from([None, "higher_is_better", "lower_is_better"]))
def test_no_verdict_is_ever_turned_round(triples: list[Triple], prior: Direction | None) -> None:
    found, ledger = verdicts(*triples), Ledger()
    direction, threshold = rule = found.rule(prior)
    found.list_unread("m", rule, ledger, "f")
    for score, _, success in triples if threshold is not None else ():
        ways = [direction] if direction else ["higher_is_better", "lower_is_better"]
        for way in ways:
            assert success in (None, passes(score, threshold, higher_is_better=way == "higher_is_better"))
    if threshold is None and any(success is not None for *_, success in triples):
        assert ledger.left_out


@given(st.lists(SCORES, min_size=1, max_size=8), SCORES, st.booleans())
def test_what_a_tool_decided_by_one_threshold_is_found_again(scores: list[float], limit: float, higher: bool) -> None:
    triples: list[Triple] = [(one, limit, one >= limit if higher else one <= limit) for one in scores]
    direction, threshold = verdicts(*triples).rule("higher_is_better" if higher else "lower_is_better")
    assert (direction == "higher_is_better", threshold) == (higher, limit)
