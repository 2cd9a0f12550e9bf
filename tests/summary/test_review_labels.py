"""What the labels of a review do to a calibration: resolutions, missing labels, weights, labels apart."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from evalflow.report.calibration import document_of
from evalflow.report.calibration_findings import in_words, warnings_of
from evalflow.summary.calibration import calibrate_scores
from tests.summary.test_calibration import TRAITS, labels, table

pytestmark = pytest.mark.slow

N = 40
SCORES = [float(i % 3 > 0) for i in range(N)]
LABELS = [{"human": float(i % 4 > 0), "case_id": f"c{i}"} for i in range(20)]
SECOND = [{"human": float(i % 5 > 0), "case_id": f"c{i}", "by": "ben"} for i in range(10)]


def calibrated(*said):
    [row] = calibrate_scores(table(*({"score": score} for score in SCORES)), labels(*said), TRAITS)
    return row


def corrected(row):
    c = row.corrected
    return c.estimate, c.low, c.high, c.n, c.human_mean, row.pass_rate, row.sampling_bias


def test_a_resolution_is_the_truth_of_its_answer_and_no_opinion():
    """By hand: c4 has labels 0 and 1 and is resolved to 1, so the sum of the 20 truths rises by 0.5."""
    before = BOTH
    assert before.corrected.human_mean is not None
    row = calibrated(*LABELS, *SECOND, {"human": 1.0, "case_id": "c4", "by": "eva", "use": "resolution", "value": "1"})
    assert row.corrected.human_mean == pytest.approx(before.corrected.human_mean + 0.5 / 20, abs=1e-12)
    n, u = 20, 20
    lam = u / (u + n)  # fewer than 50 labels
    human = [one["human"] for one in LABELS]
    for one in SECOND:
        i = int(one["case_id"][1:])
        human[i] = (human[i] + one["human"]) / 2
    human[4] = 1.0
    expected = lam * sum(SCORES[n:]) / u + sum(h - lam * s for h, s in zip(human, SCORES[:n], strict=True)) / n
    assert row.corrected.estimate == pytest.approx(expected, abs=1e-12)
    assert row.raters is not None
    assert before.raters is not None
    assert row.raters.alpha == before.raters.alpha
    assert (row.resolved, row.people) == (1, (2, 30))
    assert row.answers["said"][4].to_list() == ["x", "x", "1 (resolved)"]


def test_an_answer_that_people_find_undefined_is_in_no_mean():
    nothing = {"human": None, "value": "undefined"}
    others = [{**one, "by": who, **nothing} for one in LABELS[2:4] for who in ("ben", "eva")]
    resolved = {**nothing, "case_id": "c9", "by": "eva", "use": "resolution"}
    scores = [{"score": score} for score in SCORES] + [{"score": None, "status": "undefined", "case_id": "c40"}]
    said = [{**LABELS[0], **nothing}, {**LABELS[1], "by": "ben", **nothing}, {**nothing, "case_id": "c40"}]
    [row] = calibrate_scores(table(*scores), labels(*LABELS[1:], *said, *others, resolved), TRAITS)
    left_out = {"c0", "c2", "c3", "c9"}
    human = [one["human"] for one in LABELS if one["case_id"] not in left_out]
    assert row.corrected.human_mean == pytest.approx(sum(human) / len(human))
    assert (row.corrected.n, row.corrected.n_unlabelled, row.left_out) == (16, 20, 5)
    assert not left_out & set(row.answers["case_id"])
    assert document_of(row)["undefined"] == {"answers": 21, "both": 1, "people_alone": 4, "judge_alone": 0}
    assert any("labels and the judge agree on 1, labels alone say so of 4" in line for line in in_words(row))
    assert BOTH.undefined is None


def test_missing_labels_above_five_percent_have_bounds():
    """By hand: with 2 of 20 missing, the 18 others and these at 0, or at 1."""
    lacking = [{**one, "human": None, "use": "missing"} for one in LABELS[18:]]
    row = calibrated(*LABELS[:18], *lacking)
    missing = row.missing
    assert missing is not None
    assert (missing.n, missing.share) == (2, 0.1)
    assert row.corrected.n == 18
    lam = 20 / 40
    for end, found in ((0.0, missing.worst), (1.0, missing.best)):
        human = [one["human"] for one in LABELS[:18]] + [end, end]
        expected = lam * sum(SCORES[20:]) / 20 + sum(h - lam * s for h, s in zip(human, SCORES, strict=False)) / 20
        assert found is not None
        assert (found.n, found.estimate) == (20, pytest.approx(expected, abs=1e-12))
    assert any(
        "10 % of the answers that people were asked about have no label (2 of 20). If" in x for x in warnings_of(row)
    )
    assert missing.worst is not None
    assert document_of(row)["missing"]["worst"]["estimate"] == missing.worst.estimate


def test_few_missing_labels_are_counted_without_bounds():
    row = calibrated(*LABELS[:19], {**LABELS[19], "human": None, "use": "missing"})
    assert row.missing is not None
    assert (row.missing.n, row.missing.share, row.missing.worst) == (1, 0.05, None)
    assert "5 % of the answers that people were asked about have no label (1 of 20)." in in_words(row)
    someone = calibrated(*LABELS, {**LABELS[3], "human": None, "use": "missing", "by": "ben"})
    assert someone.missing is None, "another person labelled it"


def test_weights_from_probabilities_lead_back_to_all_answers():
    """By hand: 10 answers of each stratum; those drawn with 1/2 stand for 2, those with 1/4 for 4."""
    said = [{**one, "weight": 2.0 if i < 10 else 4.0} for i, one in enumerate(LABELS)]
    row = calibrated(*said)
    human = [one["human"] for one in LABELS]
    expected = (2 * sum(human[:10]) + 4 * sum(human[10:])) / 60
    assert row.weighted
    assert row.corrected.human_mean == pytest.approx(expected, abs=1e-12)


def test_labels_apart_are_shown_and_named():
    seen = [{"human": SCORES[i], "case_id": f"c{i}", "by": "zoe", "use": "apart"} for i in range(16)]
    row = calibrated(*LABELS, *seen)
    assert row.apart is not None
    assert (row.apart.by, row.apart.n_answers, row.apart.agreement["accuracy"].value) == ({"zoe": 16}, 16, 1.0)
    assert corrected(row) == corrected(calibrated(*LABELS))
    assert any(text.startswith("16 labels (zoe 16) of 16 answers were given") for text in in_words(row))
    alone = calibrated(*seen)
    assert (alone.corrected.n, alone.corrected.estimate, alone.apart is None) == (0, None, False)
    document_of(alone)
    in_words(alone)


answers = st.integers(0, N - 1)
grades = st.sampled_from([0.0, 0.25, 1.0])


@settings(max_examples=12, deadline=None)
@given(st.dictionaries(answers, grades, min_size=1, max_size=N))
def test_an_unblinded_label_never_changes_the_corrected_mean(seen):
    apart = [{"human": h, "case_id": f"c{i}", "by": "zoe", "use": "apart"} for i, h in seen.items()]
    row = calibrated(*LABELS, *SECOND, *apart)
    assert corrected(row) == corrected(BOTH)
    assert row.agreement == BOTH.agreement


@settings(max_examples=12, deadline=None)
@given(st.dictionaries(answers, grades, min_size=1, max_size=N))
def test_a_resolution_never_changes_agreement_among_people(resolved):
    added = [{"human": h, "case_id": f"c{i}", "by": "eva", "use": "resolution"} for i, h in resolved.items()]
    row = calibrated(*LABELS, *SECOND, *added)
    assert row.raters is not None
    assert BOTH.raters is not None
    assert row.raters.alpha == BOTH.raters.alpha
    assert row.raters.alpha_ordinal == BOTH.raters.alpha_ordinal
    assert row.people == BOTH.people


BOTH = calibrated(*LABELS, *SECOND)
