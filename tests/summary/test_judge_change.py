"""Agreement with people before and after a judge was changed."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from evalflow.summary.agreement import label_frame
from evalflow.summary.calibration import calibrate_scores
from evalflow.summary.judge_change import judge_changes
from evalflow.summary.pairing import Traits

pytestmark = pytest.mark.slow


def run(record, table, scores, judge="j", target="recorded", **fields):
    rows = [record(float(score), case, judge=judge, target=target, **fields) for case, score in enumerate(scores)]
    return table(rows, 0.5).collect().lazy()


def labelled(values, target="recorded", by="ana"):
    rows = [
        {
            "dataset": "d",
            "case_id": f"c{i}",
            "target": target,
            "target_repeat": 0,
            "metric": "m",
            "by": by,
            "human": float(value),
            "weight": 1.0,
            "use": "label",
        }
        for i, value in enumerate(values)
    ]
    return label_frame(rows)


def flipped(values, places):
    return [1 - value if i in places else value for i, value in enumerate(values)]


def test_measures_before_and_after_are_those_of_a_calibration(record, table):
    truth = [i % 2 for i in range(60)]
    a = run(record, table, flipped(truth, range(0, 60, 4)))
    b = run(record, table, flipped(truth, [3]), judge="other", target="renamed")
    (found,) = judge_changes(a, b, labelled(truth), {"m": Traits()})
    assert (found.judges, found.n_labels) == (("j", "other"), 60)
    kappa, accuracy = found.changes
    assert (kappa.measure, accuracy.measure) == ("kappa", "accuracy")
    (old,) = calibrate_scores(a, labelled(truth), {"m": Traits()})
    (new,) = calibrate_scores(b, labelled(truth, "renamed"), {"m": Traits()})
    assert (kappa.before, kappa.after) == (old.agreement["kappa"], new.agreement["kappa"])
    assert (accuracy.before.value, accuracy.after.value) == (0.75, pytest.approx(59 / 60))
    assert accuracy.difference.method == "newcombe_mcnemar"
    assert accuracy.difference.difference == pytest.approx(14 / 60)
    assert kappa.difference.low is not None
    assert kappa.difference.low > 0
    assert kappa.difference.p_value is not None
    assert kappa.difference.p_value < 0.01
    document: Any = kappa.document()
    assert document["difference"]["method"] == "paired_bootstrap"


def test_swapped_runs_change_the_sign(record, table):
    truth = [i % 2 for i in range(40)]
    a, b = run(record, table, flipped(truth, range(12))), run(record, table, flipped(truth, range(5)))
    (there,), (back,) = (judge_changes(*pair, labelled(truth), {}) for pair in ((a, b), (b, a)))
    for one, other in zip(there.changes, back.changes, strict=True):
        sizes = one.difference.difference, other.difference.difference
        assert None not in sizes
        assert sizes[0] == pytest.approx(-(sizes[1] or 0.0))
        assert (one.before.value, one.after.value) == (other.after.value, other.before.value)


def test_labels_of_both_runs_count_once_and_unscored_answers_are_left_out(record, table):
    truth = [i % 2 for i in range(30)]
    a, b = run(record, table, truth), run(record, table, truth[:20], target="renamed")
    both = pl.concat([labelled(truth), labelled(truth, "renamed")])
    (found,) = judge_changes(a, b, both, {})
    assert found.n_labels == 20
    assert [one.difference.difference for one in found.changes] == [0, 0]


def test_graded_scores_without_classes_are_compared_by_their_order(record, table):
    rng = np.random.default_rng(1)
    people = rng.random(80)
    noisy = [list(np.clip(people + rng.normal(0, spread, 80), 0, 1)) for spread in (0.5, 0.02)]
    sides = [
        run(record, table, one).with_columns(threshold=pl.lit(limit))
        for one, limit in zip(noisy, (0.5, 0.7), strict=True)
    ]
    (found,) = judge_changes(sides[0], sides[1], labelled(people), {"m": Traits()})
    (only,) = found.changes
    assert only.measure == "spearman"
    assert (only.difference.difference or 0.0) > 0.2
    assert (only.difference.low or 0.0) > 0


def test_groups_are_resampled_as_wholes(record, table):
    truth = [i % 2 for i in range(60)]
    wrong = flipped(truth, range(15))  # all of the first groups
    grouped = [
        table([record(float(score), case, group=f"g{case // 5}") for case, score in enumerate(one)], 0.5).collect()
        for one in (wrong, truth)
    ]
    alone = judge_changes(run(record, table, wrong), run(record, table, truth), labelled(truth), {})
    (found,) = judge_changes(grouped[0].lazy(), grouped[1].lazy(), labelled(truth), {})
    kappa, of_alone = found.changes[0].difference, alone[0].changes[0].difference
    assert kappa.method.startswith("paired_cluster_bootstrap")
    ends = kappa.low, kappa.high, of_alone.low, of_alone.high
    assert None not in ends
    low, high, low_alone, high_alone = (end or 0.0 for end in ends)
    assert high - low > high_alone - low_alone


def test_nothing_in_common(record, table):
    truth = [i % 2 for i in range(4)]
    assert judge_changes(run(record, table, truth), run(record, table, truth), labelled([]), {}) == []
