"""Weighted means, F2, labels that hold together, and means of measures: values worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from evalflow.stats.classification import classification_figures, label_figures
from evalflow.stats.figures import mean_figure
from evalflow.stats.intervals import interval, wilson
from tests.stats.test_classification import binary, by_name, counts


def test_a_class_that_is_never_predicted_counts_as_0_in_the_weighted_means():
    # true 1, 0 and predicted 0, 0: precision of 0 is 1/2, of 1 nothing; dropping it would give 1/2
    found = by_name(classification_figures(counts([("1", "0"), ("0", "0")]), None))
    assert found["weighted_precision"].value == 0.25
    assert found["weighted_recall"].value == found["accuracy"].value == 0.5
    assert found["weighted_f1"].value == pytest.approx((2 / 3) / 2)
    assert found["weighted_f2"].value == pytest.approx((5 / 6) / 2)
    assert found["precision[1]"].value is None
    assert found["f2[1]"].value == 0.0


def test_weighted_means_count_each_class_as_often_as_it_is_true():
    pairs = [('"a"', '"a"')] * 5 + [('"a"', '"b"')] + [('"b"', '"b"')] * 2 + [('"b"', '"a"')] * 2
    found = by_name(classification_figures(counts(pairs), None))
    # a: P 5/7, R 5/6; b: P 2/3, R 1/2; six a, four b
    assert found["weighted_precision"].value == pytest.approx((6 * 5 / 7 + 4 * 2 / 3) / 10)
    assert found["weighted_recall"].value == pytest.approx(0.7)
    assert found["weighted_f1"].value == pytest.approx((6 * 10 / 13 + 4 * 4 / 7) / 10)
    assert found["f2[a]"].value == pytest.approx(25 / (24 + 7))
    assert found["f2[b]"].value == pytest.approx(10 / (16 + 3))
    assert found["weighted_f2"].value == pytest.approx((6 * 25 / 31 + 4 * 10 / 19) / 10)
    f1 = found["weighted_f1"]
    assert None not in (f1.low, f1.value, f1.high)
    assert 0 < (f1.low or 0) < (f1.value or 0) < (f1.high or 0) < 1


def test_nothing_scored_has_no_weighted_mean():
    empty = counts([("1", "0")]).clear()
    found = by_name(classification_figures(empty, None))
    assert found["weighted_precision"].value is None
    assert found["weighted_precision"].method == "none: nothing to divide by"


def test_the_interval_of_a_perfect_f2_is_the_widest_that_its_jaccard_index_allows():
    found = by_name(classification_figures(counts([('"a"', '"a"')] * 8 + [('"b"', '"b"')] * 8), None))
    low, _ = wilson(8, 8)
    assert found["f2[a]"].low == pytest.approx(5 * low / (5 * low + 4 * (1 - low)))
    assert found["f2[a]"].high == pytest.approx(1.0)
    assert (found["f2[a]"].low or 1) < (found["f1[a]"].low or 0)


def labelled(**by_label: list[tuple[bool, bool]]) -> pl.DataFrame:
    rows = [
        (i, i, label, str(t).lower(), str(p).lower(), False, False, 1, 1)
        for label, pairs in by_label.items()
        for i, (t, p) in enumerate(pairs)
    ]
    columns = ["record", "cluster", "label", "truth", "prediction", "unexpected", "unsaid", "n", "clusters"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_a_single_label_is_about_its_being_true():
    # expected 1, 0, 1, 0 against all 1: read as a plain binary, element 0 would be the class `false`
    found = by_name(label_figures(labelled(pii=[(True, True), (False, True), (True, True), (False, True)])))
    assert list(found) == ["accuracy", "precision[pii]", "recall[pii]", "f1[pii]"]
    assert found["precision[pii]"].value == 0.5
    assert found["recall[pii]"].value == 1.0
    assert found["f1[pii]"].value == pytest.approx(2 / 3)
    assert found["precision[pii]"].details == {
        "true_positives": 2,
        "false_positives": 2,
        "false_negatives": 0,
        "true_negatives": 0,
        "absent_from_truth": 0,
        "absent_from_prediction": 0,
    }


def test_labels_come_by_name_and_accuracy_asks_for_all_of_them():
    one, two = [(True, True), (False, False), (False, True)], [(True, True), (True, False), (False, False)]
    found = by_name(label_figures(labelled(b=one, a=two)))
    assert list(found)[1:] == [f"{name}[{label}]" for label in "ab" for name in ("precision", "recall", "f1")]
    assert found["accuracy"].value == pytest.approx(1 / 3)
    assert (found["precision[a]"].value, found["recall[a]"].value) == (1.0, 0.5)
    assert (found["precision[b]"].value, found["recall[b]"].value) == (0.5, 1.0)


def test_an_undefined_measure_leaves_the_others_alone():
    rows = pl.DataFrame({"cluster": [1, 2, 3], "n": [1, 1, 1], "clusters": [1, 1, 1], "x": [0.5, None, 1.0]})
    found = mean_figure("x", rows["x"], rows)
    assert (found.value, found.n) == (0.75, 2)
    assert found.details == {
        "median": 0.75,
        "min": 0.5,
        "max": 1.0,
        "std": pytest.approx(0.3535533906),
        "undefined": 1,
    }
    none = mean_figure("x", pl.Series([None, None, None], dtype=pl.Float64), rows)
    assert (none.value, none.method) == (None, "none: undefined in every case")


def test_records_of_one_cluster_widen_a_measures_interval():
    values = [0.1, 0.2, 0.15, 0.9, 0.8, 0.95, 0.5, 0.4, 0.45]
    rows = pl.DataFrame({"cluster": [i // 3 for i in range(9)], "n": [1] * 9, "clusters": [1] * 9, "x": values})
    found = mean_figure("x", rows["x"], rows)
    wanted = interval(values, [i // 3 for i in range(9)], bounded=True)
    assert (found.low, found.high, found.method) == (wanted.low, wanted.high, wanted.method)
    assert found.method == "plus_two_cr2_t"


def test_guardrail_figures_keep_their_names():
    assert list(by_name(classification_figures(counts(binary(1, 1, 1, 1)), "true"))) == [
        "accuracy",
        "precision",
        "recall",
        "f1",
        "mcc",
    ]
