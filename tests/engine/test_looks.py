"""Cases in random order, and what looks at them decide."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.engine.gate_looks import GateLooks
from evalflow.engine.looks import LookedMetric
from evalflow.engine.plan import Draw, shuffled
from evalflow.records import Case
from evalflow.summary.gates import Gate
from evalflow.summary.verdicts import Condition

pytestmark = pytest.mark.slow

ABOVE = Gate("m", "mean", Condition(">=", 0.5), looks="anytime")
M = LookedMetric("m", 1, ["d"])


def cases(count: int, **changes: Any) -> list[Case]:
    return [Case(dataset="d", index=i, id=f"c{i}", **changes) for i in range(count)]


def asked(looks: GateLooks, data: Iterable[Case], scores: dict[str, float], seed: int = 0) -> list[str]:
    """The ids of the cases that are asked one by one."""
    found: list[str] = []
    for case in looks.follow(data, seed):
        found.append(case.id)
        looks.add("d", case.id, "m", "scored", scores[case.id])
    return found


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=20), st.integers(-(2**63), 2**63 - 1))
def test_a_shuffle_has_every_case_once_and_groups_together(groups: list[str | None], seed: int) -> None:
    data = [Case(dataset="d", index=i, id=str(i), group=group, vars={"n": i}) for i, group in enumerate(groups)]
    found = list(shuffled(data, seed))
    assert sorted(found, key=lambda case: case.index) == data
    runs = [case.group for i, case in enumerate(found) if i == 0 or case.group != found[i - 1].group]
    named = [group for group in runs if group is not None]
    assert len(named) == len(set(named))


@given(st.integers(0, 2**62), st.integers(1, 20))
def test_the_order_does_not_depend_on_that_of_the_data_and_a_sample_comes_first(seed: int, size: int) -> None:
    data = cases(30)
    whole = [case.id for case in shuffled(data, seed)]
    assert [case.id for case in shuffled(reversed(data), seed)] == whole
    draw = Draw(size, seed)
    for case in data:
        draw.offer(case)
    assert [case.id for case in shuffled(draw.pick(data), seed)] == whole[:size]


def test_the_first_cases_of_a_shuffle_are_spread_over_the_data() -> None:
    firsts = [next(shuffled(cases(10), seed)).index for seed in range(400)]
    assert all(20 <= firsts.count(i) <= 62 for i in range(10))


def test_cases_are_left_out_once_all_gates_are_decided() -> None:
    data = cases(200)
    looks = GateLooks([ABOVE], [M], stops=True)
    found = asked(looks, data, dict.fromkeys((case.id for case in data), 1.0))
    assert looks.stopped
    assert 5 <= len(found) < 30
    looked = looks.results()[ABOVE, "d"]
    assert looked.passed is True
    assert looked.low is not None
    assert looked.low >= 0.499
    assert (looked.method, looked.text) == ("beta_mixture", f"looks at any time, after {len(found)} of 200 cases")


def test_without_a_stop_all_cases_are_asked() -> None:
    looks = GateLooks([ABOVE], [M])
    assert len(asked(looks, cases(50), {f"c{i}": 1.0 for i in range(50)})) == 50
    assert looks.decided
    assert not looks.stopped


@pytest.mark.parametrize(("operator", "score", "passed"), [(">=", 0.0, False), ("<=", 0.0, True), ("<", 1.0, False)])
def test_a_gate_fails_or_passes_at_either_side(operator: Any, score: float, passed: bool) -> None:
    gate = Gate("m", "mean", Condition(operator, 0.5), looks="anytime")
    looks = GateLooks([gate], [M])
    asked(looks, cases(50), {f"c{i}": score for i in range(50)})
    assert looks.results()[gate, "d"].passed is passed


def test_only_the_cases_before_the_first_unfinished_one_count() -> None:
    """The first case is slow; fifty others that are done say nothing yet."""
    data = cases(100)
    looks = GateLooks([ABOVE], [M], stops=True)
    order = looks.follow(data, 0)
    slow = next(order)
    for _ in range(50):
        looks.add("d", next(order).id, "m", "scored", 1.0)
    assert not looks.decided
    assert looks.results()[ABOVE, "d"].text.endswith("after 0 of 100 cases")
    looks.add("d", slow.id, "m", "scored", 1.0)
    assert looks.decided
    assert looks.results()[ABOVE, "d"].text.endswith("after 51 of 100 cases")
    assert next(order, None) is None


def test_a_group_counts_once_it_is_complete() -> None:
    data = [Case(dataset="d", index=i, id=f"c{i}", group=f"g{i // 5}") for i in range(20)]
    looks = GateLooks([ABOVE], [M])
    order = looks.follow(data, 0)
    counts: list[str] = []
    for case in order:
        looks.add("d", case.id, "m", "scored", 1.0)
        counts.append(looks.results()[ABOVE, "d"].text.split(" after ")[1])
    assert counts[:7] == ["0 of 20 cases"] * 5 + ["5 of 20 cases"] * 2
    assert looks.results()[ABOVE, "d"].method == "cluster_betting"


def test_planned_looks_are_equally_spaced_and_decide_nothing_in_between() -> None:
    gate = Gate("m", "mean", Condition(">=", 0.5), looks=5)
    looks = GateLooks([gate], [M], stops=True)
    found = asked(looks, cases(100), {f"c{i}": 1.0 for i in range(100)})
    assert len(found) in (20, 40, 60)
    looked = looks.results()[gate, "d"]
    assert looked.passed is True
    assert looked.method == "obrien_fleming"
    assert looked.text.startswith(f"look {len(found) // 20} of 5, after")
    fresh = GateLooks([gate], [M])
    for case, _ in zip(fresh.follow(cases(100), 0), range(19), strict=False):
        fresh.add("d", case.id, "m", "scored", 1.0)
    none = fresh.results()[gate, "d"]
    assert (none.passed, none.low) == (None, None)
    assert none.text.startswith("no look yet: the first is after 20 cases")


def test_a_tag_is_looked_at_alone_and_a_dataset_without_it_is_not_waited_for() -> None:
    gate = Gate("m", "mean", Condition(">=", 0.5), tag="A", looks="anytime")
    data = [*cases(40, tags=("A > B",)), *(Case(dataset="other", index=i, id=f"c{i}") for i in range(40))]
    data += [Case(dataset="d", index=40 + i, id=f"n{i}") for i in range(40)]
    looks = GateLooks([gate], [LookedMetric("m", 1, ["d", "other"])], stops=True)
    for case in looks.follow(data, 0):
        looks.add(case.dataset, case.id, "m", "scored", float(bool(case.tags)))
    assert looks.stopped
    assert list(looks.results()) == [(gate, "d")]
    assert looks.results()[gate, "d"].value == 1.0


def test_a_case_with_repeats_is_one_value_and_waits_for_all_of_them() -> None:
    gate = Gate("m", "pass_rate", Condition(">=", 0.3), looks="anytime")
    looks = GateLooks([gate], [LookedMetric("m", 2, ["d"], threshold=0.7)])
    for case in looks.follow(cases(30), 0):
        looks.add("d", case.id, "m", "scored", 0.9)
        looks.add("d", case.id, "m", "scored", 0.1)
    looked = looks.results()[gate, "d"]
    assert looked.value == 0.5
    assert (looked.method, looked.text) == ("betting", "looks at any time, after 30 of 30 cases")


@pytest.mark.parametrize("status", ["undefined", "error", "skipped"])
def test_a_case_without_a_score_counts_as_asked_and_as_no_number(status: str) -> None:
    looks = GateLooks([ABOVE], [M])
    for i, case in enumerate(looks.follow(cases(60), 0)):
        looks.add("d", case.id, "m", *((status, None) if i % 2 else ("scored", 1.0)))  # type: ignore[arg-type]
    looked = looks.results()[ABOVE, "d"]
    assert looked.value == 1.0
    assert looked.text.endswith("after 60 of 60 cases")
    # Half of the scores are undefined, which max_undefined_rate does not allow, or in error, which could all be 0.
    assert looked.passed is (True if status == "skipped" else None)
    assert looked.in_error == (30 if status == "error" else 0)


@pytest.mark.parametrize("looks", ["anytime", 4])
@given(data=st.data())
def test_a_decision_holds_whatever_the_cells_in_error_turn_out_to_be(looks: Any, data: st.DataObject) -> None:
    gate = Gate("m", "mean", Condition(">=", 0.6), looks=looks)
    cells = [data.draw(st.sampled_from([None, 1.0, 1.0, 1.0])) for _ in range(60)]
    found = GateLooks([gate], [M])
    for case, cell in zip(found.follow(cases(60), 3), cells, strict=True):
        found.add("d", case.id, "m", "error" if cell is None else "scored", cell)
    looked = found.results()[gate, "d"]
    if looked.passed is None:
        assert looked.in_error in (0, cells.count(None))
        return
    filled = GateLooks([gate], [M])
    for case, cell in zip(filled.follow(cases(60), 3), cells, strict=True):
        turned = data.draw(st.sampled_from([0.0, 0.5, 1.0])) if cell is None else cell
        filled.add("d", case.id, "m", "scored", turned)
    assert filled.results()[gate, "d"].passed is looked.passed


def test_a_gate_is_open_while_errors_could_turn_it_and_decided_once_they_are_asked_again() -> None:
    """Of 78 cases 70 are in error, and the others fail."""
    data = cases(78)
    first = GateLooks([ABOVE], [M], stops=True)
    order = [case.id for case in shuffled(data, 0)]
    for i, case in enumerate(first.follow(data, 0)):
        first.add("d", case.id, "m", *(("scored", 0.0) if i % 9 == 8 else ("error", None)))  # type: ignore[arg-type]
    looked = first.results()[ABOVE, "d"]
    assert (looked.passed, looked.in_error, first.stopped) == (None, 70, False)
    again = GateLooks([ABOVE], [M])
    asked(again, data, {name: float(i % 9 != 8) for i, name in enumerate(order)})
    assert again.results()[ABOVE, "d"].passed is True


def test_looks_are_the_same_from_finished_scores_and_after_an_interruption() -> None:
    randomly = random.Random(1)
    data = cases(300)
    scores = {case.id: float(randomly.random() < 0.7) for case in data}
    first = GateLooks([ABOVE], [M], stops=True)
    found = asked(first, data, scores)
    again = GateLooks([ABOVE], [M])
    for case_id in found:
        again.add("d", case_id, "m", "scored", scores[case_id])
    again.look_again(data, 0)
    assert again.results() == first.results()

    resumed = GateLooks([ABOVE], [M], stops=True)
    half = found[: len(found) // 2]
    for case_id in half:
        resumed.add("d", case_id, "m", "scored", scores[case_id])
    resumed.begun(("d", case_id) for case_id in half)
    rest = [case.id for case in _asking(resumed, data, scores, known=half)]
    assert rest == found
    assert resumed.results() == first.results()


def _asking(looks: GateLooks, data: Sequence[Case], scores: dict[str, float], known: list[str]) -> Iterable[Case]:
    for case in looks.follow(data, 0):
        if case.id not in known:
            looks.add("d", case.id, "m", "scored", scores[case.id])
        yield case


def test_what_an_earlier_part_has_begun_is_finished_before_a_resumed_run_stops() -> None:
    data = cases(200)
    order = [case.id for case in shuffled(data, 0)]
    looks = GateLooks([ABOVE], [M], stops=True)
    for case_id in order[:40]:
        looks.add("d", case_id, "m", "scored", 1.0)
    looks.begun([("d", case_id) for case_id in order[:42]])
    assert [case.id for case in looks.follow(data, 0)] == order[:42]
    assert looks.stopped


def test_every_gate_must_be_decided_on_every_dataset() -> None:
    both = Gate("m", "mean", Condition(">=", 0.5), looks="anytime")
    data = [Case(dataset=name, index=i, id=f"c{i}") for name in ("d", "e") for i in range(40)]
    looks = GateLooks([both], [LookedMetric("m", 1, ["d", "e"])], stops=True)
    for case in looks.follow(data, 0):
        looks.add(case.dataset, case.id, "m", "scored", 1.0 if case.dataset == "d" else 0.5)
    assert not looks.stopped
    results = looks.results()
    assert results[both, "d"].passed is True
    assert results[both, "e"].passed is None
