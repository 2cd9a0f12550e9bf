"""Labels out of rows of a file, and out of a case."""

from dataclasses import fields

from evalflow.labels.columns import LABEL_COLUMNS
from evalflow.labels.read import parse, parse_case
from evalflow.labels.sheet import SHEET_COLUMNS
from evalflow.records import Case, Label


def read(*rows):
    return parse([(f"labels.csv:{line}", row) for line, row in enumerate(rows, 2)], "labels.csv")


def test_cells_of_text_become_a_label():
    row = {
        "case_id": "a",
        "metric": "m",
        "value": "yes",
        "by": "ana",
        "target": "bot",
        "target_repeat": "1",
        "answer_hash": "0f",
        "weight": "2.5",
        "comment": "odd",
        "question": "why?",
    }
    [one] = read(row).given
    label = one
    assert (label.case_id, label.metric, label.value, label.by, label.dataset) == ("a", "m", "yes", "ana", None)
    assert (label.target, label.target_repeat, label.answer_hash, label.weight) == ("bot", 1, "0f", 2.5)
    assert one.where == "labels.csv:2"


def test_a_row_left_blank_is_a_missing_label_of_a_metric_that_people_labelled():
    blank = [{"case_id": "a", "metric": "m", "value": ""}, {"case_id": "b", "metric": "m", "value": None}]
    found = read(*blank, {"case_id": "", "metric": None, "value": ""})
    assert (found.given, found.asked, found.problems) == ([], [], [])
    assert [(one.case_id, one.missing, one.use) for one in found.blank] == [
        ("a", "blank", "missing"),
        ("b", "blank", "missing"),
    ]
    found = read(
        blank[0], {"case_id": "c", "metric": "m", "value": "1"}, {**blank[1], "by": "ben"}, {**blank[0], "metric": "k"}
    )
    assert [(one.case_id, one.by, one.missing) for one in found.asked] == [
        ("c", "unnamed", None),
        ("a", "unnamed", "blank"),
        ("b", "ben", "blank"),
    ]
    assert [(one.case_id, one.metric) for one in found.last] == [("b", "m"), ("a", "k")]
    assert found.named == {"m"}


def test_who_said_it_may_be_left_out():
    assert read({"case_id": "a", "metric": "m", "value": 0, "by": ""}).given[0].by == "unnamed"


def test_all_that_is_wrong_is_told_at_once_with_its_line():
    found = read(
        {"case_id": "", "metric": "m", "value": "1"},
        {"case_id": "a", "metric": "m", "value": "1", "weight": "0", "target_repeat": "1.5"},
        {"case_id": "b", "metric": "m", "value": "1"},
    )
    assert [problem.where for problem in found.problems] == ["labels.csv:2", "labels.csv:3", "labels.csv:3"]
    assert [problem.what for problem in found.problems] == [
        "no case_id",
        "target_repeat: '1.5' is not a whole number of at least 0",
        "weight: '0' is not a number above 0",
    ]
    assert len(found.given) == 1


def test_a_missing_column_is_one_problem():
    found = read({"id": "a", "metric": "m", "value": "1"}, {"id": "b", "metric": "m", "value": "1"})
    [problem] = found.problems
    assert problem.what == "the file has no column case_id"
    assert "'id'" in problem.hint or "metric" in problem.hint


def test_an_apostrophe_against_formulas_is_taken_off():
    [one] = read({"case_id": "'=1", "metric": "m", "value": "'-x", "by": "'quoted", "comment": "'\uff1dA1"}).given
    assert (one.case_id, one.value, one.by, one.comment) == ("=1", "-x", "'quoted", "\uff1dA1")


def test_a_case_brings_labels_along_in_three_forms():
    labels = {"m": True, "k": [1, 2], "q": [{"value": "good", "by": "ana", "comment": "fine"}, {"value": None}]}
    found = parse_case(Case(dataset="d", index=0, id="c", labels=labels)).given
    assert [(one.metric, one.value, one.by) for one in found] == [
        ("m", True, "unnamed"),
        ("k", 1, "person 1"),
        ("k", 2, "person 2"),
        ("q", "good", "ana"),
    ]
    assert {one.dataset for one in found} == {"d"}
    assert found[2].where == "dataset d, case c, labels.k[1]"


def test_what_is_wrong_in_a_case_says_which_case():
    [problem] = parse_case(Case(dataset="d", index=0, id="c", labels={"m": {"value": 1, "weight": "x"}})).problems
    assert (problem.where, problem.what) == ("dataset d, case c, labels.m", "weight: 'x' is not a number above 0")


def test_the_columns_of_a_review_are_read():
    row = {
        "case_id": "a",
        "metric": "m",
        "value": "1",
        "review": "r",
        "position": "4",
        "seconds": "2.5",
        "seed": "-3",
        "draw": "strata",
        "population": "90",
        "pi": "0.25",
        "kind": "resolution",
        "blind": "TRUE",
        "group": "g",
        "seen_before": "false",
        "rubric": "2",
        "missing": "",
    }
    [one] = read(row).given
    assert (one.review, one.position, one.seconds, one.seed, one.draw) == ("r", 4, 2.5, -3, "strata")
    assert (one.population, one.pi, one.weight, one.rubric) == (90, 0.25, 4.0, 2)
    assert (one.use, one.blind, one.seen_before, one.group) == ("resolution", True, False, "g")
    [one] = read({**row, "weight": "2", "kind": "", "blind": False}).given
    assert (one.weight, one.use) == (2.0, "apart")
    [one] = read({**row, "kind": "label", "draw": "hand"}).given
    assert one.use == "apart"


def test_a_missing_label_has_a_reason_and_no_value():
    row = {"case_id": "a", "metric": "m", "value": "", "missing": "cannot_tell"}
    found = read(row, {**row, "value": "1"}, {**row, "kind": "resolution"}, {**row, "missing": "lazy"})
    assert ([one.use for one in found.given], found.blank) == (["missing"], [])
    assert [(one.where, one.what) for one in found.problems] == [
        ("labels.csv:3", "a value, and a reason why it is missing"),
        ("labels.csv:4", "a resolution is missing"),
        ("labels.csv:5", "missing: 'lazy' is not one of cannot_tell, declined, unfinished, blank"),
    ]
    [problem] = read({"case_id": "a", "metric": "m", "value": "1", "pi": "1.5"}).problems
    assert problem.what == "pi: '1.5' is not a probability above 0"


def test_labels_their_columns_and_the_sheet_agree():
    assert {field.name for field in fields(Label)} - {"where"} == set(LABEL_COLUMNS)
    assert set(SHEET_COLUMNS) - set(LABEL_COLUMNS) == {"question", "answer", "contexts", "reference", "scale"}
