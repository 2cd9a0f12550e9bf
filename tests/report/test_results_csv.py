import csv
import io
import json
import math
from dataclasses import replace

import pytest

from evalflow.errors import UserError
from evalflow.paths import safe_text
from evalflow.report.cases import most_informative
from evalflow.report.html import write_reports
from evalflow.report.large_results import write_large_results
from evalflow.report.results_csv import CasesWriter, ResultsWriter, rows


def table(run):
    file = io.StringIO(newline="")
    writer = ResultsWriter(file, run.scores)
    for row in rows(run.cases, run.answers, run.scores):
        writer.write(row)
    return list(csv.DictReader(io.StringIO(file.getvalue(), newline="")))


def test_one_row_per_case_with_score_passed_and_reason(make_run, make_case):
    run = make_run(
        [make_case(0, tags=("A", "B > C")), make_case(1, answer='two\nlines, "quoted"')],
        [
            {"case_id": "case-0", "score": 0.75, "passed": False, "reason": "1 of 4 is not supported"},
            {"case_id": "case-1", "score": -0.5, "passed": None},
        ],
    )
    first, second = table(run)
    assert first == {
        "dataset": "rag",
        "case_id": "case-0",
        "target": "recorded",
        "target_repeat": "0",
        "tags": "A; B > C",
        "question": "What does rule 0 say?",
        "answer": "Rule 0 says so.",
        "finish_reason": "",
        "faithfulness": "0.75",
        "faithfulness_passed": "false",
        "faithfulness_reason": "1 of 4 is not supported",
    }
    assert second["answer"] == 'two\nlines, "quoted"'
    assert (second["faithfulness"], second["faithfulness_passed"]) == ("-0.5", "")


def test_what_is_not_scored_has_no_number_and_says_why(make_run, make_case):
    run = make_run(
        [make_case(i) for i in range(4)],
        [
            {"case_id": "case-0", "status": "undefined", "reason": "no claims"},
            {"case_id": "case-1", "status": "error", "error": "no reply", "error_type": "timeout"},
            {"case_id": "case-2", "status": "skipped"},
        ],
    )
    found = [(row["faithfulness"], row["faithfulness_reason"]) for row in table(run)]
    assert found == [("", "undefined: no claims"), ("", "error: no reply"), ("", "skipped"), ("", "")]


def test_judge_and_repeat_are_named_only_where_there_are_several(make_run, make_case):
    cells = [
        {"case_id": "case-0", "judge": judge, "repeat": repeat, "score": 0.5}
        for judge in ("embedded", "m")
        for repeat in (0, 1)
    ]
    plain = {"case_id": "case-0", "metric": "exact_match", "judge": None, "score": 1.0}
    names = set(table(make_run([make_case(0)], [*cells, plain]))[0])
    assert {"faithfulness@m#1", "faithfulness_passed@embedded#0", "faithfulness_reason@m#0", "exact_match#0"} <= names
    assert set(table(make_run([make_case(0)], [cells[0], plain]))[0]) >= {"faithfulness", "exact_match"}


def test_a_panels_members_have_no_columns(make_run, make_case):
    run = make_run(
        [make_case(0)],
        [
            {"case_id": "case-0", "judge": "panel", "score": 0.5},
            {"case_id": "case-0", "judge": "first", "member_of": "panel", "score": 0.9},
        ],
    )
    (row,) = table(run)
    assert row["faithfulness"] == "0.5"
    assert not [name for name in row if "first" in name]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "\uff1d1+1"])
def test_formulas_are_made_text(make_run, make_case, text):
    run = make_run(
        [make_case(0, id=text, question=text, answer=text, tags=(text,))],
        [{"case_id": text, "score": 1.0, "reason": text, "metric": text}],
    )
    (row,) = table(run)
    for column in ("case_id", "question", "answer", "tags", f"'{text}_reason"):
        assert row[column] == f"'{text}"


def test_harmless_text_is_left_alone():
    assert safe_text("1 - 1 = 0") == "1 - 1 = 0"
    assert safe_text("") == ""


def test_cases_are_written_once_with_their_first_answer(make_run, make_case):
    cells = [{"case_id": f"case-{i}", "target": t, "score": 1.0} for i in range(2) for t in ("first", "second")]
    run = make_run([make_case(0), make_case(1)], cells)

    def answers(case, target, repeat):
        return replace(run.answers(case, target, repeat), answer=f"{target} says")

    file = io.StringIO()
    writer = CasesWriter(file)
    for row in rows(run.cases, answers, run.scores):
        writer.write(row)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [(line["id"], line["answer"]) for line in lines] == [("case-0", "first says"), ("case-1", "first says")]


def test_reports_are_written_again_from_the_cases_that_they_wrote(make_run, make_case, tmp_path):
    run = make_run([make_case(i) for i in range(3)], [{"case_id": f"case-{i}", "score": 0.5} for i in range(3)])
    write_reports(tmp_path, run)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def own_cases():
        with (tmp_path / "cases.jsonl").open() as lines:
            for index, line in enumerate(lines):
                yield make_case(index, id=json.loads(line)["id"])

    write_reports(tmp_path, replace(run, cases=own_cases()))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def test_a_failed_report_leaves_the_files_as_they_were(make_run, make_case, tmp_path):
    run = make_run([make_case(0)], [{"case_id": "case-0", "score": 0.5}])
    write_reports(tmp_path, run)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError):
        write_reports(tmp_path, replace(run, cases=[]))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


STATES = (
    {"score": 0.123456, "passed": False, "reason": 'says "no", twice'},
    {"score": 0.12345, "reason": "two\nlines"},
    {"score": 0.00005},
    {"score": 2.5},
    {"score": 1.0, "reason": None},
    {"status": "undefined", "reason": "no claims"},
    {"status": "error", "error": "no reply", "reason": "not shown", "error_type": "timeout"},
    {"status": "error", "error": "", "reason": "=1+1"},
    {"status": "skipped", "reason": ""},
    {"status": "skipped"},
)


def test_a_large_table_has_the_same_cells_and_no_texts(make_run, make_case, monkeypatch):
    monkeypatch.setattr("evalflow.report.large_results._AT_ONCE", 3)
    cells = [
        {"case_id": f"case-{i}", "target": target, "metric": metric, "judge": judge, "repeat": repeat}
        | STATES[(i + 3 * repeat + len(metric) + len(target)) % len(STATES)]
        | {"tags": ["A", "B > C"] if i % 2 else [], "finish_reason": "length" if i == 1 else None}
        for i in range(9)
        for target in ("bot", "=bot")
        for metric, judge in (("a", None), ("a_passed", "m"), ("a", "other"))
        for repeat in (0, 1)
        if (i, metric) != (4, "a")
    ]
    members = [{"case_id": "case-0", "target": "bot", "judge": "one", "member_of": "m", "score": 0.5}]
    run = make_run([make_case(i, tags=("A", "B > C") if i % 2 else ()) for i in range(9)], [*members, *cells])
    large, small = io.StringIO(newline=""), io.StringIO(newline="")
    write_large_results(large, run.scores)
    writer = ResultsWriter(small, run.scores)
    for row in rows(run.cases, run.answers, run.scores):
        writer.write(row)
    whole = list(csv.reader(io.StringIO(small.getvalue(), newline="")))
    left_out = [whole[0].index(name) for name in ("question", "answer")]
    finish = whole[0].index("finish_reason")
    expected = [[cell for place, cell in enumerate(row) if place not in left_out] for row in whole]
    for row in expected[1:]:
        row[finish - len(left_out)] = "length" if row[1] == "case-1" else ""  # which the made answers do not have
    assert list(csv.reader(io.StringIO(large.getvalue(), newline=""))) == expected


def test_scores_of_both_tables_are_rounded_alike_near_ties_and_far_from_them(make_run, make_case):
    ties = [(step + 0.5) / 10_000 for step in range(0, 10_000, 97)]
    scores = [
        *ties,
        *(math.nextafter(tie, side) for tie in ties for side in (0, 1)),
        2 / 3,
        1e-9,
        12345.67895,
        1e17 / 3,
    ]
    signed = [sign * score for score in scores for sign in (1, -1)]
    cells = [{"case_id": f"case-{i}", "score": score} for i, score in enumerate(signed)]
    large = io.StringIO(newline="")
    write_large_results(large, make_run([make_case(i) for i in range(len(signed))], cells).scores)
    found = [float(row["faithfulness"]) for row in csv.DictReader(io.StringIO(large.getvalue(), newline=""))]
    assert found == [round(score, 4) for score in signed]


def test_a_large_run_has_its_texts_in_its_cases_alone(make_run, make_case, tmp_path, monkeypatch):
    monkeypatch.setattr(most_informative, "__defaults__", (2, None))
    run = make_run([make_case(i) for i in range(4)], [{"case_id": f"case-{i}", "score": i / 4} for i in range(4)])
    assert not write_reports(tmp_path, run)
    table = (tmp_path / "results.csv").read_text(encoding="utf-8")
    assert table.startswith("dataset,case_id,target,target_repeat,tags,finish_reason,faithfulness")
    assert len(table.splitlines()) == 5
    assert "says so" not in table
    assert (tmp_path / "cases.jsonl").read_text(encoding="utf-8").count("says so") == 4


def test_reports_of_a_large_run_read_of_its_kept_cases_only_those_that_they_list(
    make_run, make_case, tmp_path, monkeypatch
):
    monkeypatch.setattr(most_informative, "__defaults__", (2, None))
    cases = [make_case(i) for i in range(5)]
    run = make_run(cases, [{"case_id": f"case-{i}", "score": i / 4} for i in range(5)])
    write_reports(tmp_path, run)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = tmp_path / "cases.jsonl"
    kept.write_text("not written again")

    def read(wanted):
        assert wanted == {("rag", "case-0"), ("rag", "case-1")}
        return (case for case in cases if (case.dataset, case.id) in wanted)

    assert not write_reports(tmp_path, replace(run, cases=[], kept=read))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {**first, kept.name: b"not written again"}
