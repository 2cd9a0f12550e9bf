"""Figures of a classification: published numbers, classes that are never predicted, clusters and edges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from evalflow.stats.classification import classification_figures
from evalflow.stats.figures import Figure
from evalflow.stats.intervals import wilson


def counts(pairs: Iterable[tuple[str, str]], per_cluster: int = 1) -> pl.DataFrame:
    rows = [(str(i // per_cluster), truth, prediction) for i, (truth, prediction) in enumerate(pairs)]
    frame = pl.DataFrame(rows, schema=["cluster", "truth", "prediction"], orient="row")
    return frame.group_by("cluster", "truth", "prediction").agg(n=pl.len(), clusters=pl.lit(1, pl.UInt32))


def binary(tp: int, fp: int, tn: int, fn: int) -> list[tuple[str, str]]:
    cells = [(("true", "true"), tp), (("false", "true"), fp), (("false", "false"), tn), (("true", "false"), fn)]
    return [pair for pair, n in cells for _ in range(n)]


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.statistic: figure for figure in figures}


def test_guardrail_figures_agree_with_published_numbers():
    found = by_name(classification_figures(counts(binary(18, 3, 74, 5)), "true"))
    assert list(found) == ["accuracy", "precision", "recall", "f1", "mcc"]
    precision, recall, f1 = found["precision"], found["recall"], found["f1"]
    assert precision.value == pytest.approx(0.8571428571)
    assert (precision.low, precision.high) == pytest.approx((0.6536393972, 0.950189875), abs=1e-9)
    assert recall.value == pytest.approx(0.7826086957)
    assert (recall.low, recall.high) == pytest.approx((0.5809651698, 0.9033602197), abs=1e-9)
    assert f1.value == pytest.approx(0.8181818182)
    assert (precision.n, recall.n, f1.n) == (21, 23, 100)
    assert [figure.method for figure in found.values()] == [
        "wilson",
        "wilson",
        "wilson",
        "dirichlet",
        "dirichlet",
    ]
    assert found["mcc"].value == pytest.approx(0.7683397489)
    assert found["accuracy"].details == {"labels": ["false", "true"], "matrix": [[74, 3], [5, 18]]}


def test_f1_agrees_with_the_posterior_of_scipy():
    found = by_name(classification_figures(counts(binary(18, 3, 74, 5)), "true", seed=1))["f1"]
    drawn: Any = scipy.stats.dirichlet.rvs(np.array([18, 3, 74, 5]) + 0.25, size=20_000, random_state=7)
    tp, fp, _, fn = drawn.T
    low, high = np.quantile(2 * tp / (2 * tp + fp + fn), (0.025, 0.975))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.01)


def test_a_rare_class_that_is_always_right_is_not_taken_for_perfect():
    pairs = [('"a"', '"a"')] * 60 + [('"a"', '"b"')] * 10 + [('"b"', '"b"')] * 30 + [('"c"', '"c"')] * 3
    found = by_name(classification_figures(counts(pairs), None))
    assert found["macro_recall"].method == "dirichlet: 3 in the rarest class"
    assert found["macro_recall"].low is not None
    # As low as it would be if the class were right in little more than half of all.
    assert found["macro_recall"].low < (60 / 70 + 1 + 0.65) / 3


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.integers(1, 30))
def test_all_right_has_an_interval_that_ends_at_1(classes: int, each: int):
    pairs = [(f'"{name}"', f'"{name}"') for name in range(classes) for _ in range(each)]
    found = by_name(classification_figures(counts(pairs), None))
    for name in ("macro_f1", "macro_recall", "weighted_precision", "mcc"):
        assert (found[name].value, found[name].high) == (1.0, 1.0)
        assert -1 < (found[name].low or -1) < 1


def test_nothing_to_divide_by_is_none_and_never_zero():
    found = by_name(classification_figures(counts(binary(0, 0, 10, 0)), "true"))
    assert found["accuracy"].value == 1.0
    for name in ("precision", "recall", "f1"):
        assert found[name].value is None
        assert found[name].low is None
        assert found[name].n == 0
        assert found[name].method == "none: nothing to divide by"


def test_a_positive_label_that_is_never_predicted_has_no_precision_but_a_recall_of_zero():
    found = by_name(classification_figures(counts(binary(0, 0, 2, 2)), "true"))
    assert found["precision"].value is None
    assert (found["recall"].value, found["f1"].value) == (0.0, 0.0)
    assert (found["recall"].low, found["recall"].high) == pytest.approx(wilson(0, 2))


def test_a_class_that_is_never_predicted_does_not_raise_the_macro_mean():
    pairs = [('"tax"', '"tax"'), ('"visa"', '"tax"')]
    found = by_name(classification_figures(counts(pairs), None))
    assert found["macro_precision"].value is None
    assert found["macro_precision"].method == "none: a class is never predicted"
    assert found["precision[tax]"].value == 0.5
    assert found["precision[visa]"].value is None
    assert found["macro_recall"].value == 0.5
    assert found["f1[visa]"].value == 0.0
    assert found["macro_f1"].value == pytest.approx((2 / 3 + 0) / 2)


def test_a_class_that_is_predicted_but_never_true_counts_against_precision_only():
    pairs = [('"a"', '"a"')] * 3 + [('"a"', '"b"')]
    found = by_name(classification_figures(counts(pairs), None))
    assert found["macro_recall"].value == 0.75
    assert found["macro_precision"].value == 0.5
    assert found["recall[b]"].value is None


def test_one_class_in_all_is_that_class_alone():
    found = by_name(classification_figures(counts([("true", "true")] * 4), "true"))
    assert [found[name].value for name in ("accuracy", "precision", "recall", "f1")] == [1.0] * 4
    assert found["recall"].method == "wilson: 4 of 4 cases, by the rule of three at least 0.25"
    assert found["f1"].method == "wilson"
    low, _ = wilson(4, 4)
    assert found["f1"].low == pytest.approx(2 * low / (1 + low))


def test_no_records_at_all():
    empty = pl.DataFrame(
        schema={"cluster": pl.String, "truth": pl.String, "prediction": pl.String, "n": pl.Int64, "clusters": pl.Int64}
    )
    assert {figure.value for figure in classification_figures(empty, "true")} == {None}
    assert {figure.value for figure in classification_figures(empty, None)} == {None}


def test_records_of_one_cluster_are_not_independent():
    pairs = binary(40, 0, 40, 0) + binary(0, 10, 0, 10)
    alone = by_name(classification_figures(counts(pairs), "true"))
    together = by_name(classification_figures(counts(pairs, per_cluster=10), "true"))
    assert {figure.method for figure in together.values()} == {"cluster_bootstrap: fewer than 30 clusters"}
    for name, figure in together.items():
        assert figure.value == alone[name].value
        wide, narrow = figure.std_error, alone[name].std_error
        assert wide is not None
        assert narrow is not None
        assert wide > 1.5 * narrow


def test_a_perfect_score_over_clusters_is_as_uncertain_as_its_clusters_are_few():
    found = by_name(classification_figures(counts(binary(20, 0, 20, 0), per_cluster=4), "true"))
    assert found["precision"].method == "wilson_clusters: 5 of 5 cases or groups, by the rule of three at least 0.4"
    assert (found["precision"].low, found["precision"].high) == pytest.approx(wilson(5, 5))
    assert (found["accuracy"].low, found["accuracy"].high) == pytest.approx(wilson(10, 10))


def test_a_single_cluster_gives_no_interval():
    mixed = by_name(classification_figures(counts(binary(3, 1, 3, 1), per_cluster=8), "true"))
    perfect = by_name(classification_figures(counts(binary(4, 0, 4, 0), per_cluster=8), "true"))
    assert (mixed["precision"].value, perfect["precision"].value) == (0.75, 1.0)
    for figure in (*mixed.values(), *perfect.values()):
        assert (figure.low, figure.method) == (None, "none: one cluster")


def test_clusters_alike_may_share_a_row():
    pairs = binary(18, 3, 74, 5)
    rows = [(str(i), t, p, 1, pairs.count((t, p))) for i, (t, p) in enumerate(dict.fromkeys(pairs))]
    shared = pl.DataFrame(rows, schema=["cluster", "truth", "prediction", "n", "clusters"], orient="row")
    assert classification_figures(shared, "true") == classification_figures(counts(pairs), "true")


def test_few_cases_and_few_clusters_are_said():
    few = by_name(classification_figures(counts(binary(6, 2, 6, 2)), "true"))
    assert [f.method for f in few.values()] == ["wilson"] * 3 + ["dirichlet: 8 in the rarest class"] * 2
    grouped = by_name(classification_figures(counts(binary(30, 5, 30, 5), per_cluster=10), "true"))
    assert grouped["recall"].method == "cluster_bootstrap: fewer than 30 clusters"
    rare = by_name(classification_figures(counts(binary(6, 2, 200, 2), per_cluster=5), "true"))
    assert rare["f1"].method == "cluster_bootstrap: 8 in the rarest class"
    both = by_name(classification_figures(counts(binary(6, 2, 40, 2), per_cluster=5), "true"))
    assert both["f1"].method == "cluster_bootstrap: fewer than 30 clusters, 8 in the rarest class"


def test_the_seed_decides_the_interval():
    frame = counts(binary(18, 3, 74, 5))
    a, b, c = (by_name(classification_figures(frame, "true", seed=seed))["f1"] for seed in (0, 0, 1))
    assert a == b
    assert a.std_error != c.std_error


LABELS = st.sampled_from(['"a"', '"b"', "1"])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=20))
def test_figures_agree_with_counting_by_hand(pairs: list[tuple[str, str]]):
    found = by_name(classification_figures(counts(pairs), None))
    assert found["accuracy"].value == pytest.approx(sum(t == p for t, p in pairs) / len(pairs))
    f1s = []
    for label in {label for pair in pairs for label in pair}:
        tp = sum(t == p == label for t, p in pairs)
        true, predicted = sum(t == label for t, _ in pairs), sum(p == label for _, p in pairs)
        name = label.strip('"')
        assert found[f"precision[{name}]"].value == (pytest.approx(tp / predicted) if predicted else None)
        assert found[f"recall[{name}]"].value == (pytest.approx(tp / true) if true else None)
        f1s.append(2 * tp / (true + predicted))
        assert found[f"f1[{name}]"].value == pytest.approx(f1s[-1])
    assert found["macro_f1"].value == pytest.approx(sum(f1s) / len(f1s))
