"""Answers on which raters are tied count one half, wherever a person's verdict counts."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from evalflow.app.core.calibration import no_certificate
from evalflow.lazy import pl
from evalflow.report.calibration import document_of
from evalflow.report.calibration_findings import calibration_pictures, warnings_of
from evalflow.summary.agreement import labelled_scores, nearest_levels, nothing_to_score, partly_labelled, people_of
from evalflow.summary.calibration import calibrate_scores
from evalflow.summary.pairing import Traits, with_people
from tests.summary.test_calibration import labels, table

pytestmark = pytest.mark.slow

PEOPLE = ("ana", "ben", "cleo", "dan")


def said_of(votes):
    return labels(
        *(
            {"human": float(vote), "case_id": f"c{i}", "by": by}
            for i, own in enumerate(votes)
            for by, vote in zip(PEOPLE, own, strict=False)
        )
    )


def majority(own):
    """1, 0, or one half for a tie."""
    return 0.5 if 2 * sum(own) == len(own) else float(2 * sum(own) > len(own))


votes = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=2, max_size=30)


@settings(max_examples=60, deadline=None)
@given(votes, st.randoms(use_true_random=False), st.booleans(), st.sampled_from([None, 0.5, 0.8]))
def test_a_tie_is_half_a_pass_in_every_number(own, random, higher, threshold):
    n = len(own)
    scores = [float(random.random() < 0.6) for _ in range(n)]
    passed = [(score >= (threshold or 1)) == higher for score in scores]
    rows = table(*({"score": s, "passed": p, "threshold": threshold} for s, p in zip(scores, passed, strict=True)))
    traits = {"m": Traits(bounded=True, higher_is_better=higher)}
    given = said_of(own)
    [row] = calibrate_scores(rows, given, traits)
    shares = [sum(one) / len(one) for one in own]
    assert row.corrected.human_mean == pytest.approx(np.mean(shares))
    if threshold is not None:
        assert row.pass_rate is not None
        pass_shares = shares if higher else [1 - one for one in shares]
        assert row.pass_rate.human_mean == pytest.approx(np.mean(pass_shares))
        cases = rows.select("dataset", "metric", "case_id").collect()
        people = with_people(
            cases, people_of(labelled_scores(rows, given, lower=[] if higher else ["m"]), nothing_to_score(given))
        )
        assert people["accepted"].to_list() == pytest.approx(pass_shares)
    assert row.classes is not None
    same = [1 - abs(majority(one) - score) for one, score in zip(own, scores, strict=True)]
    assert row.agreement["accuracy"].value == pytest.approx(np.mean(same))
    assert sum(map(sum, row.classes.matrix())) == n
    assert row.classes.tied == sum(majority(one) == 0.5 for one in own)
    document_of(row)


def test_a_tie_by_the_threshold_is_one_too():
    """Labels .9 and .6 with the threshold .7: the mean .75 passes, and one person of two passes it."""
    rows = table(*({"score": 0.71 + i / 100, "passed": True, "threshold": 0.7} for i in range(20)))
    pairs = [
        {"human": human, "case_id": f"c{i}", "by": by}
        for i in range(20)
        for by, human in (("ana", 0.9 + i / 1000), ("ben", 0.6 - i / 1000))
    ]
    [row] = calibrate_scores(rows, labels(*pairs), {"m": Traits(bounded=True)})
    assert row.pass_rate is not None
    assert (row.pass_rate.human_mean, row.agreement["accuracy"].value) == (0.5, 0.5)
    assert row.classes is not None
    assert row.classes.matrix() == [[0.0, 10.0], [0.0, 10.0]]
    said = " ".join(picture.sentence for picture in calibration_pictures(row))
    assert "labels agree on 10 of 20 labelled answers" in said
    assert "20 answers on which raters are tied count half." in said


def test_labels_that_are_all_tied_are_not_the_same() -> None:
    rows = table(*({"score": float(i % 2)} for i in range(40)))
    [row] = calibrate_scores(rows, said_of([[0, 1]] * 20), {"m": Traits(bounded=True)})
    [warning] = [text for text in warnings_of(row) if "20" in text]
    assert warning.startswith("raters are tied on all 20 answers")
    assert no_certificate(row).startswith("raters are tied on every answer")
    assert row.corrected.human_mean == 0.5


def test_three_labels_of_each_answer_are_still_yes_and_no():
    """Nobody labelled an answer alone, so no answer's mean is a class of its own."""
    rows = table(*({"score": float(i % 2)} for i in range(40)))
    own = [[i % 2, i % 2, (i + (i % 5 == 0)) % 2] for i in range(40)]
    [row] = calibrate_scores(rows, said_of(own), {"m": Traits(bounded=True)})
    assert row.classes is not None
    assert (row.classes.levels, row.agreement["kappa"].value) == ([0.0, 1.0], 1.0)


def test_marks_are_the_labels_as_scores():
    given = labels({"human": 0.25}, {"human": 0.75, "case_id": "c0", "by": "ben"}, {"human": 1.0, "case_id": "c1"})
    found = labelled_scores(table({"score": 1.0}, {"score": 0.0}), given)["marks"].to_list()
    assert [sorted(marks) for marks in found] == [[0.25, 0.75], [1.0]]


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]), min_size=1), st.integers(2, 5))
def test_the_nearest_levels_are_one_or_two(values, count):
    levels = np.linspace(0, 1, count)
    low, high = nearest_levels(np.array(values), levels)
    for value, down, up in zip(values, low, high, strict=True):
        distance = min(abs(value - level) for level in levels)
        assert abs(value - down) == pytest.approx(distance)
        assert abs(value - up) == pytest.approx(distance)
        assert sum(abs(value - level) < distance + 1e-9 for level in levels) == 1 + (down != up)


def test_cases_of_which_some_answers_alone_are_labelled_are_counted() -> None:
    def case(case_id: str, *human: float | None) -> list[dict[str, object]]:
        key: dict[str, object] = {"dataset": "d", "metric": "m", "case_id": case_id}
        return [key | {"target_repeat": i, "human": one} for i, one in enumerate(human)]

    rows = [*case("whole", 1.0, 0.0), *case("part", 1.0, None), *case("none", None, None)]
    assert partly_labelled(pl.DataFrame(rows)) == 1
