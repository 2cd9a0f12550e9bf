"""What others wrote is shown on a terminal, and never obeyed: neither as markup nor as an escape sequence."""

import io
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from evalflow.report.cases import print_case
from evalflow.report.console import WorstCase, print_gates, print_summary, print_worst, worst_cases
from evalflow.report.wording import plain, plain_line
from evalflow.summary.rows import frame_of
from tests.manifests import manifest_of
from tests.report.outcomes import gate_outcome
from tests.summary_rows import summary_row

EVIL = "\x1b]52;c;ZXZpbA==\x07a\x1b[2J\x9b31m\rb\x7f[/x]\ud800"
SEEN = "]52;c;ZXZpbA==a[2J31mb[/x]"
ID = "0123456789abcdef"
LABELS = ["/x", "true", "[0.0]", "bold", ":smile:"]


def console() -> Console:
    return Console(file=io.StringIO(), width=200, highlight=False)


def printed(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def figures(*statistics: str) -> pl.DataFrame:
    return frame_of([summary_row(judge="j", value=0.5, statistic=one) for one in statistics])


@given(st.text())
def test_text_keeps_all_but_controls(text):
    kept = plain(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", kept)
    assert kept == "".join(c for c in text if c in "\t\n" or (c >= " " and not "\x7f" <= c <= "\x9f"))
    assert "\n" not in plain_line(text)


def test_a_summary_shows_every_label_as_it_is_spelt():
    on = console()
    print_summary(on, manifest_of(), figures(*(f"precision[{label}]" for label in [*LABELS, EVIL[:-1]])), {})
    for label in LABELS:
        assert f"precision[{label}]" in printed(on)
    assert f"precision[{SEEN}]" in printed(on)
    assert "\x1b" not in printed(on)


@pytest.mark.parametrize("text", [EVIL, "[/x] [bold]"])
def test_worst_cases_and_gates(text):
    on = console()
    print_worst(on, [WorstCase("d", text, "m", 0.1, f"{text}\n\t{text}", judged=None)], {})
    print_gates(on, [gate_outcome(passed=False, message=text)])
    seen = plain(text)
    assert printed(on) == f"worst\n   0.10  {seen}  m  {seen} {seen}\ngate FAILED  {seen}\n"


def test_a_label_decides_what_is_worst_and_passes() -> None:
    row = {"dataset": "d", "metric": "m", "status": "scored", "member_of": None, "reason": None}
    row |= {"target": "t", "target_repeat": 0}
    cells = [("fine", 0.1, False), ("bad", 0.9, True), ("unlabelled", 0.4, False), ("perfect", 0.2, False)]
    scores = pl.LazyFrame(
        [row | {"case_id": case, "score": score, "passed": passed} for case, score, passed in cells],
        schema_overrides={"member_of": pl.String, "reason": pl.String},
    )
    people = pl.DataFrame(
        {
            "dataset": "d",
            "metric": "m",
            "target": "t",
            "target_repeat": 0,
            "case_id": ["fine", "bad", "perfect"],
            "human": [0.8, 0.0, 1.0],
            "accepted": [1.0, 0.0, 1.0],
            "human_undefined": [False] * 3,
        }
    )
    found = worst_cases(scores, {"m": "higher_is_better"}, people, 9)
    assert [(one.case_id, one.score, one.judged) for one in found] == [
        ("bad", 0.0, 0.9),
        ("unlabelled", 0.4, None),
        ("fine", 0.8, 0.1),
    ]
    assert [one.case_id for one in worst_cases(scores, {}, None, 2)] == ["fine", "perfect"]
    on = console()
    print_worst(on, found[:1], {})
    assert printed(on) == "worst\n   0.00  bad  m by labels (judge 0.90)  no reason given\n"


def test_a_label_of_one_repeat_says_nothing_of_the_others() -> None:
    row = {"dataset": "d", "metric": "m", "target": "t", "status": "scored", "member_of": None, "reason": None}
    cells = [("a", 0, 0.9, True), ("a", 1, 0.2, False), ("b", 0, 0.3, False), ("b", 1, 0.9, True)]
    scores = pl.LazyFrame(
        [
            row | {"case_id": case, "target_repeat": repeat, "score": score, "passed": passed}
            for case, repeat, score, passed in cells
        ],
        schema_overrides={"member_of": pl.String, "reason": pl.String},
    )
    labelled = {"dataset": "d", "metric": "m", "target": "t", "target_repeat": 0}
    labelled |= {"accepted": 1.0, "human": 1.0, "human_undefined": False}
    people = pl.DataFrame([labelled | {"case_id": case} for case in ("a", "b")])
    found = worst_cases(scores, {"m": "higher_is_better"}, people, 9)
    assert [(one.case_id, one.score, one.judged) for one in found] == [("a", 0.2, None), ("b", 0.9, None)]


def test_a_case():
    on = console()
    score = {
        "metric": EVIL,
        "judge": EVIL,
        "status": "scored",
        "score": 0.5,
        "threshold": None,
        "passed": None,
        "reason": EVIL,
        "error": None,
        "steps": [{"id": EVIL, "reply": {EVIL: [EVIL]}, "items": [EVIL], "raw": EVIL}],
    }
    about = {"finish_reason": "length", "thoughts": None, "full_answer": None, "extracted": False}
    texts = dict.fromkeys(("dataset", "id", "target", "answer", "actual", "error", "reference", "expected"), EVIL)
    message, context = {"role": EVIL, "content": EVIL}, {"text": EVIL}
    case = {
        **texts,
        **about,
        "target_repeat": 1,
        "tags": [EVIL],
        "messages": [message],
        "metadata": {"simulation": {"ended": EVIL, "reason": EVIL}},
        "contexts": [context],
        "scores": [score],
    }
    print_case(on, case)
    assert printed(on).count(SEEN) == 22
    assert "answer, nothing extracted, cut off" in printed(on)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800]", printed(on))


def test_what_an_agent_did_is_shown_step_by_step():
    on = console()
    done = [{"role": "assistant", "tool_calls": [{"id": "1", "name": "look", "arguments": {"at": EVIL}}]}]
    case = {
        "dataset": "d",
        "id": "1",
        "target": "t",
        "target_repeat": 0,
        "tags": [],
        "messages": [],
        "contexts": [],
        "scores": [],
        "answer": "A.",
        "error": None,
        "metadata": None,
        "finish_reason": "stop",
        "thoughts": "Look first.",
        "full_answer": "So: A.",
        "extracted": True,
        "reference": None,
        "actual": done,
        "expected": [{"role": 1}],
    }
    print_case(on, case)
    shown = [line.strip() for line in printed(on).splitlines()]
    assert shown[1:7] == ["thoughts", "Look first.", "whole answer", "So: A.", "answer, extracted", "A."]
    assert 'step 1, assistant: call 1: look({"at": ' in printed(on)
    assert "[{'role': 1}]" in printed(on)  # which is not a trajectory
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800]", printed(on))


def test_names_of_classes_never_cut_a_number_at_80_columns():
    on = Console(file=io.StringIO(), width=80, highlight=False)
    print_summary(on, manifest_of(), figures("precision[multi_questions_in_one]", f"f1[{'x' * 70}]", "weighted_f1"), {})
    rows = [line for line in printed(on).splitlines() if "0.500" in line]
    assert len(rows) == 3
    assert "…" not in printed(on)
    assert all(len(line) <= 80 for line in printed(on).splitlines())


def test_a_case_without_an_id_of_its_own_is_shown_by_its_question() -> None:
    file = io.StringIO()
    question = "How long is the ferry to the island closed in the winter, and where do the buses go?"
    worst = [WorstCase("d", one, "m", 0.1, "late", judged=None) for one in (f"{ID}-2", "ferry-01", f"{ID}f")]
    questions = {("d", case.case_id): question for case in worst}
    print_worst(Console(file=file, width=120), worst, questions)
    _, made, own, longer = file.getvalue().splitlines()
    assert '0.10  "How long is the ferry to the island closed in the …"  m  late' in made
    assert "0.10  ferry-01  m  late" in own
    assert f"0.10  {ID}f  m  late" in longer
