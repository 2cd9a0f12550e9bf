"""Rates of faults seen and changes kept, from scores that a judge could have given."""

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from evalflow.summary.proof import ChangeRow, Proof, proof_of


def scores(
    given: Mapping[str, Sequence[float | None]], threshold: float | None = None, repeats: int = 1
) -> pl.DataFrame:
    """Scores of cases by change; `good` for the answers as they are. None is a score in state error."""
    rows = [
        {
            "case_id": f"{place}" if change == "good" else f"{place}~{change}",
            "tags": ["as it is" if change == "good" else change],
            "group": f"{place}",
            "dataset": "d",
            "metric": "m",
            "judge": "j",
            "member_of": None,
            "repeat": repeat,
            "status": "error" if score is None else "scored",
            "score": score,
            "threshold": threshold,
            "passed": None if score is None or threshold is None else score >= threshold,
        }
        for change, values in given.items()
        for place, score in enumerate(values)
        for repeat in range(repeats)
    ]
    schema = {"score": pl.Float64, "passed": pl.Boolean, "threshold": pl.Float64, "member_of": pl.String}
    return pl.DataFrame(rows, schema_overrides=schema)


def proved(frame: pl.DataFrame, faults: Sequence[str] = ("number",), *, higher_is_better: bool = True) -> Proof:
    return proof_of(frame, "m", faults=faults, higher_is_better=higher_is_better, by=0.1)


def row(proof: Proof, change: str) -> ChangeRow:
    return next(one for one in proof.rows if one.change == change)


def test_a_fault_is_seen_where_the_score_falls() -> None:
    proof = proved(scores({"good": [1.0] * 20, "number": [0.5] * 18 + [1.0, 0.95], "noise": [1.0] * 20}))
    number, noise = row(proof, "number"), row(proof, "noise")
    assert (number.as_expected.value, number.as_expected.n, number.finding) == (0.9, 20, "seen")
    assert (noise.as_expected.value, noise.finding, noise.flips) == (1.0, "kept", None)
    assert number.shift.value == pytest.approx(-(18 * 0.5 + 0.05) / 20)
    assert number.as_expected.low is not None
    assert 0.5 < number.as_expected.low < 0.9
    assert proof.findings() == {"seen": ["number"], "kept": ["noise"]}


def test_the_same_move_is_a_failure_of_a_change_that_must_not_matter() -> None:
    proof = proved(scores({"good": [1.0] * 20, "number": [1.0] * 20, "padding": [0.5] * 20}))
    assert (row(proof, "number").finding, row(proof, "padding").finding) == ("not seen", "not kept")
    assert proof.findings() == {"not seen": ["number"], "not kept": ["padding"]}
    every = proved(scores({"good": [1.0] * 20, "padding": [0.5] * 20}), faults=("padding",))
    assert row(every, "padding").finding == "seen"


def test_lower_may_be_better() -> None:
    frame = scores({"good": [0.0] * 20, "number": [0.5] * 20})
    assert row(proved(frame, higher_is_better=False), "number").finding == "seen"
    assert row(proved(frame), "number").as_expected.n == 0  # a score of 0 cannot fall


def test_few_cases_decide_nothing() -> None:
    proof = proved(scores({"good": [1.0] * 3, "number": [0.0, 0.0, 1.0]}))
    assert row(proof, "number").finding == "cannot tell"
    assert proof.findings() == {"cannot tell": ["number"]}


def test_a_missing_score_is_counted_and_left_out() -> None:
    proof = proved(scores({"good": [1.0, 1.0, None], "number": [0.0, None, 0.0]}))
    number = row(proof, "number")
    assert (number.as_expected.n, number.unscored, number.as_expected.value) == (1, 1, 1.0)


def test_with_a_threshold_faults_count_in_answers_that_pass() -> None:
    proof = proved(scores({"good": [0.9, 0.9, 0.3], "number": [0.2, 0.7, 0.1]}, threshold=0.5))
    number = row(proof, "number")
    assert proof.accepted is not None
    assert (proof.accepted.n, proof.accepted.value) == (3, pytest.approx(2 / 3))
    assert number.flips is not None
    assert (number.as_expected.n, number.as_expected.value, number.flips.value) == (2, 1.0, 0.5)


def test_repeats_say_how_alike_a_judge_is_to_itself() -> None:
    frame = scores({"good": [1.0] * 4, "number": [0.0] * 4}, repeats=2)
    assert proved(frame).same is not None
    second = (pl.col("repeat") == 1) & (pl.col("case_id") == "0")
    found = proved(frame.with_columns(score=pl.when(second).then(0.5).otherwise("score"))).same
    assert found is not None
    assert (found.n, found.value) == (8, pytest.approx(7 / 8))
    assert proved(scores({"good": [1.0], "number": [0.0]})).same is None


def test_sums_count_each_case_once_in_their_intervals() -> None:
    """Two faults in each case stand together: the interval is that of ten cases and not of twenty."""
    proof = proved(scores({"good": [1.0] * 10, "number": [0.0] * 10, "name": [0.0] * 10}), faults=("number", "name"))
    both, one = row(proof, "all faults").as_expected, row(proof, "number").as_expected
    assert (both.n, one.n) == (20, 10)
    assert both.low == pytest.approx(one.low, abs=0.05)
