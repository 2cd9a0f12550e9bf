"""Scores and labels side by side, and what is made of them."""

import polars as pl
import pytest

from evalflow.report.calibration_findings import in_words, warnings_of
from evalflow.summary.agreement import classes_of, label_frame, labelled_scores
from evalflow.summary.calibration import calibrate_scores, disagreements
from evalflow.summary.pairing import Traits

SCORED = {
    "dataset": "d",
    "target": "t",
    "target_repeat": 0,
    "metric": "m",
    "judge": "j",
    "member_of": None,
    "group": None,
    "status": "scored",
    "passed": None,
    "threshold": None,
    "value": "1",
    "reason": "so",
}

TRAITS = {"m": Traits(bounded=True)}


def table(*rows):
    schema = {
        "member_of": pl.String,
        "group": pl.String,
        "passed": pl.Boolean,
        "threshold": pl.Float64,
        "score": pl.Float64,
        "tags": pl.List(pl.String),
    }
    made = [{"tags": [], **SCORED, "case_id": f"c{i}", **row} for i, row in enumerate(rows)]
    return pl.DataFrame(made, schema_overrides=schema).lazy()


def labels(*rows):
    given = {
        "dataset": "d",
        "target": "t",
        "target_repeat": 0,
        "metric": "m",
        "by": "ana",
        "value": "x",
        "weight": 1.0,
        "comment": None,
    }
    return label_frame([{**given, "case_id": f"c{i}", **row} for i, row in enumerate(rows)])


def test_repeats_of_the_judge_and_labels_of_several_people_are_averaged():
    scores = table({"score": 1.0}, {"score": 0.0, "case_id": "c0"}, {"score": 0.4, "case_id": "c1"})
    said = labels({"human": 1.0}, {"human": 0.0, "by": "ben", "case_id": "c0", "comment": "no"})
    first, second = labelled_scores(scores, said).to_dicts()
    assert (first["score"], first["human"], first["people"], first["comment"]) == (0.5, 0.5, 2, "no")
    assert (second["score"], second["human"]) == (0.4, None)


def test_only_scored_cells_count_and_labels_of_others_are_counted():
    scores = table(*({"score": i % 2} for i in range(20)), {"score": None, "status": "undefined"})
    [row] = calibrate_scores(scores, labels(*({"human": i % 2} for i in range(21))), TRAITS)
    assert (row.corrected.n, row.corrected.n_unlabelled, row.unscored, row.left_out) == (20, 0, 1, 1)
    [mean] = in_words(row)[1:2]
    assert mean.startswith("All answers with a score are labelled, so")


def test_a_tag_with_too_few_labels_has_a_judge_s_mean_and_no_agreement():
    """All answers together have it, however few they are."""
    tags = [["many", *(["few"] if i < 14 else [])] for i in range(20)]
    scores = table(*({"score": i % 2, "tags": tags[i]} for i in range(20)), {"score": 0.5})
    said = (({"human": i % 2, "by": by} | {"case_id": f"c{i}"}) for i in range(20) for by in ("ana", "ben"))
    [row] = calibrate_scores(scores, labels(*said), TRAITS)
    few, many = row.tags
    assert (many.tag, many.corrected.n, few.tag, few.corrected.n) == ("many", 20, "few", 14)
    assert many.agreement["accuracy"].value == 1
    assert many.raters is not None
    assert {one.value for one in few.agreement.values()} == {None}
    assert few.agreement["accuracy"].method == "none: fewer than 15 labels"
    assert (few.raters, few.corrected.judge_mean) == (None, 0.5)


def test_answers_that_the_judge_failed_at_count_with_its_mean_once_one_is_labelled():
    """People like 3 in 4 of what it scored and nothing of what it failed at."""
    scored = [{"score": float(i % 2)} for i in range(80)]
    failed = [{"score": None, "status": "error", "reason": None, "value": None} for _ in range(40)]
    said = [{"human": float(i % 4 > 0), "case_id": f"c{i}"} for i in range(20)]
    [row] = calibrate_scores(table(*scored, *failed), labels(*said), TRAITS)
    assert (row.corrected.n, row.corrected.n_unlabelled, row.failed) == (20, 60, (40, 0))
    [warning] = [one for one in warnings_of(row) if "no score" in one]
    assert "40 more answers have no score by the judge and no label" in warning
    said += [{"human": 0.0, "case_id": f"c{i}"} for i in range(80, 90)]
    [both] = calibrate_scores(table(*scored, *failed), labels(*said), TRAITS)
    assert (both.corrected.n, both.corrected.n_unlabelled, both.failed) == (30, 90, (40, 10))
    assert both.corrected.human_mean == pytest.approx(0.5)
    assert both.corrected.estimate == pytest.approx(0.5, abs=0.03)
    assert row.corrected.estimate is not None
    assert row.corrected.estimate > 0.7
    assert both.corrected.judge_mean == row.corrected.judge_mean == 0.5
    assert both.corrected.bias == row.corrected.bias
    assert both.agreement["accuracy"].n == 20
    assert any("40 of 120 answers have no score by the judge, and 10 of these are" in one for one in warnings_of(both))
    again = table(*scored, *failed, {"score": 1.0, "case_id": "c80"})
    [row] = calibrate_scores(again, labels(*said), TRAITS)
    assert row.failed == (39, 9)


def test_a_member_of_a_panel_is_no_answer_of_its_own():
    scores = table({"score": 1.0}, {"score": 0.0, "member_of": "panel", "case_id": "c0"})
    assert labelled_scores(scores, labels({"human": 1.0}))["score"].to_list() == [1.0]


def test_answers_to_one_case_and_cases_of_one_group_are_one_cluster():
    scores = table(*({"score": i % 2, "group": f"g{i % 20}"} for i in range(60)))
    [row] = calibrate_scores(scores, labels(*({"human": i % 2} for i in range(40))), TRAITS)
    assert row.corrected.method.startswith("ppi_cr1_t")
    repeated = table(*({"score": i // 2 % 2, "case_id": f"c{i // 2}", "target_repeat": i % 2} for i in range(60)))
    said = labels(*({"human": i // 2 % 2, "case_id": f"c{i // 2}", "target_repeat": i % 2} for i in range(40)))
    [row] = calibrate_scores(repeated, said, TRAITS)
    assert row.corrected.method.startswith("ppi_cr1_t")


def test_two_judges_are_two_rows_of_the_same_labels():
    scores = table(*({"score": i % 2, "case_id": f"c{i // 2}", "judge": "jk"[i % 2]} for i in range(60)))
    rows = calibrate_scores(scores, labels(*({"human": i % 2} for i in range(20))), TRAITS)
    assert [(row.judge, row.corrected.n, row.corrected.judge_mean) for row in rows] == [("j", 20, 0.0), ("k", 20, 1.0)]


def test_where_scores_have_bounds_so_have_the_means():
    scores = table(*({"score": 0.5 + (i % 3) / 4} for i in range(40)))
    said = labels(*({"human": 1.0 if i else 0.4} for i in range(20)))
    [within] = calibrate_scores(scores, said, TRAITS)
    [beyond] = calibrate_scores(scores, said, {"m": Traits()})
    assert within.corrected.high == 1.0
    assert beyond.corrected.method == "none: too skewed for 20 cases"
    assert within.corrected.method.startswith("plus_two_t: labels alone")


@pytest.mark.parametrize("higher", [True, False])
def test_classes_are_pass_and_fail_where_scores_are_graded(higher):
    scores = table(*({"score": i / 40, "threshold": 0.5} for i in range(40)))
    lower = [] if higher else ["m"]
    known = labelled_scores(scores, labels(*({"human": i / 40} for i in range(40))), lower=lower)
    classes = classes_of(known, higher_is_better=higher)
    assert classes is not None
    assert classes.by_threshold
    assert classes.matrix() == ([[20, 0], [0, 20]] if higher else [[19, 0], [0, 21]])
    assert classes_of(known.with_columns(threshold=pl.lit(None, pl.Float64)), higher_is_better=higher) is None


def test_a_short_scale_is_its_own_classes_and_means_go_to_the_nearest():
    scores = table(*({"score": i % 5 / 4} for i in range(30)))
    people = [{"human": i % 5 / 4} for i in range(30)]
    known = labelled_scores(scores, labels(*people, {"human": 0.75, "by": "ben", "case_id": "c1"}))
    classes = classes_of(known, higher_is_better=True)
    assert classes is not None
    assert list(classes.levels) == [0, 0.25, 0.5, 0.75, 1]
    assert classes.human[1] == 0.5


def test_the_farthest_disagreements_come_first_and_none_that_agree():
    scores = table({"score": 1.0}, {"score": 0.5}, {"score": 0.0}, {"score": 0.2})
    said = labels({"human": 0.8}, {"human": 0.5}, {"human": 1.0, "comment": "wrong"}, {"human": 0.2})
    [row] = calibrate_scores(scores, said, TRAITS)
    found = disagreements(row, 5)
    assert [one["case_id"] for one in found] == ["c2", "c0"]
    assert (found[0]["difference"], found[0]["comment"], found[1]["comment"]) == (-1.0, "wrong", None)
