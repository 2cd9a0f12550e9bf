"""People among themselves."""

import polars as pl
import pytest

from evalflow.stats.raters import krippendorff_alpha
from evalflow.summary.agreement import beyond_chance, headline_measure, raters_of
from evalflow.summary.verdicts import agrees_more

WEIGHTED = "kappa_weighted"
PEOPLE = ("ana", "ben", "cy")


def answers(scores, threshold=None):
    rows = [
        {"case_id": f"c{i:02}", "target_repeat": 0, "cluster": i, "score": s, "threshold": threshold}
        for i, s in enumerate(scores)
    ]
    return pl.DataFrame(rows, schema_overrides={"threshold": pl.Float64})


def labels(*by_person):
    return pl.DataFrame(
        [
            {"case_id": f"c{i:02}", "target_repeat": 0, "by": who, "human": value}
            for who, values in zip(PEOPLE, by_person, strict=False)
            for i, value in enumerate(values)
            if value is not None
        ]
    )


def test_nobody_to_agree_with():
    assert raters_of(labels([1.0, 0.0]), answers([1.0, 0.0]), seed=0) is None
    assert raters_of(labels([1.0, None], [None, 0.0]), answers([1.0, 0.0]), seed=0) is None


def test_three_people_and_a_judge_that_is_as_good_as_any():
    truth = [float(i % 2) for i in range(40)]
    off = [[1 - v if i % 20 == who else v for i, v in enumerate(truth)] for who in range(3)]
    found = raters_of(labels(*off), answers(truth), seed=0)
    assert found is not None
    assert (found.replaces.may, found.replaces.rate) == (True, 1.0)
    # Of 120 pairs of labels of one answer, the 6 answers on which one person is off have 2 that differ.
    # 62 of 120 labels say 1.
    chance = 2 * (62 / 120) * (58 / 120)
    assert found.gwet_ac1 == pytest.approx((108 / 120 - chance) / (1 - chance))
    assert found.reliability.value is not None
    assert found.ceiling.value == pytest.approx(found.reliability.value**0.5)
    worse = raters_of(labels(*off), answers([1 - v for v in truth]), seed=0)
    assert worse is not None
    assert worse.replaces.may is False


def test_the_judge_is_compared_with_people_on_their_scale_and_answers():
    """People say yes or no, the judge grades: its verdicts are compared, where several people labelled."""
    truth = [float(i % 2) for i in range(60)]
    off = [
        [None if who and i >= 40 else 1 - v if i % 10 == who else v for i, v in enumerate(truth)] for who in range(2)
    ]  # the last 20, with one label, do not count
    for up in (True, False):
        grades = [0.3 + 0.4 * v if i < 40 else 1 - v for i, v in enumerate(truth)]
        found = raters_of(labels(*off), answers(grades, 0.5), seed=0, higher_is_better=up)
        assert found is not None
        assert (found.alphas.judge.n, found.alphas.judge.value) == (40, pytest.approx(0.8, abs=0.02))
        assert found.alphas.people.value == pytest.approx(0.6, abs=0.02)
        assert agrees_more(found.alphas) == "more"
    raw = raters_of(labels(*off), answers(grades), seed=0)
    assert raw is not None
    assert raw.alphas.judge.value is not None
    assert raw.alphas.judge.value < 0.7


def test_gaps_and_labels_that_are_no_classes():
    values = [i / 40 for i in range(40)]
    found = raters_of(labels(values, [None, *values[1:]]), answers(values), seed=0)
    assert found is not None
    assert (found.fleiss_kappa, found.gwet_ac1) == (None, None)
    assert found.alpha.value == pytest.approx(1)
    bent = [value**4 for value in values]
    found = raters_of(labels(values, bent), answers(values), seed=0)
    assert found is not None
    assert found.alpha_ordinal.value == krippendorff_alpha([values, bent], "ordinal").value != found.alpha.value
    assert found.alt_test.method == "none: fewer than 3 people"


@pytest.mark.parametrize(
    ("measures", "measure", "shown"),
    [
        ({}, None, False),
        ({"kappa": {"value": 0.3, "ci_low": 0.1}}, "kappa", True),
        ({"kappa": {"value": 0.3, "ci_low": -0.1}}, "kappa", False),
        ({"kappa": {"value": 0.1, "ci_low": -1}, "kappa_weighted": {"value": 0.6, "ci_low": 0}}, "kappa", False),
        ({"kappa": {"value": 0.1, "ci_low": -1}, "kappa_weighted": {"value": 0.6, "ci_low": 0.4}}, WEIGHTED, True),
        ({"kappa": {"value": None}, "spearman": {"value": 0.5, "ci_low": 0.2}}, "spearman", True),
        ({"kappa": {"value": 1.0, "ci_low": None}}, "kappa", True),
    ],
)
def test_agreement_beyond_chance(measures: dict[str, dict[str, float | None]], measure: str | None, shown: bool):
    assert headline_measure(measures) == measure
    assert beyond_chance(measures) is shown
