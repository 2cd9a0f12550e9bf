"""The shipped experiments on guardrails, routing, retrieval and topics, from files to figures."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request
from evalflow.testing.replies import Answering
from tests.cli.conftest import Program

DATA = Path(__file__).parents[2] / "data"


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]


def summary(program: Program) -> tuple[dict[tuple[str, str], dict[str, Any]], dict[tuple[str, str], dict[str, Any]]]:
    """Rows and details over all tags, by metric and statistic."""
    document = json.loads((program.latest / "summary.json").read_text("utf-8"))
    rows = {(row["metric"], row["statistic"]): row for row in document["rows"] if row["tag"] is None}
    details = {(one["metric"], one["statistic"]): one for one in document["details"] if one["tag"] is None}
    return rows, details


def test_output_guardrails(program: Program) -> None:
    done = program("experiment=output_guardrails")
    assert done.returncode == 0, done.stderr
    rows, details = summary(program)
    cases = load("output_guardrails")
    any_hits = [case for case in cases if case["expected_triggered"] and case["actual_triggered"]]
    expected = [case for case in cases if case["expected_triggered"]]
    assert rows["output_guardrails_triggered", "recall"]["value"] == pytest.approx(len(any_hits) / len(expected))
    political = [(c["expected_guardrails"]["political"], c["actual_guardrails"]["political"]) for c in cases]
    precision = political.count((True, True)) / sum(p for _, p in political)
    assert rows["output_guardrails", "precision[political]"]["value"] == pytest.approx(precision)
    assert details["output_guardrails", "precision[illegal]"]["absent_from_prediction"] == 1
    shown = program("cases", "--metric", "output_guardrails", "--id", "output-07").stdout
    assert "leaves out illegal, taken as false" in " ".join(shown.split())


def test_question_router(program: Program) -> None:
    done = program("experiment=question_router")
    assert done.returncode == 0, done.stderr
    rows, details = summary(program)
    cases = load("question_router")
    wrong = [case for case in cases if case["expected_outcome"] != case["actual_outcome"]]
    assert rows["question_router", "accuracy"]["value"] == pytest.approx(1 - len(wrong) / len(cases))
    assert rows["question_router", "precision[multi_questions]"]["value"] is None
    assert rows["question_router", "weighted_precision"]["value"] < rows["question_router", "weighted_recall"]["value"]
    gaps = [(c["confidence_score"] - (c["expected_outcome"] == c["actual_outcome"])) ** 2 for c in cases]
    assert rows["question_router", "brier"]["value"] == pytest.approx(sum(gaps) / len(gaps))
    assert sum(one["n"] for one in details["question_router", "ece"]["bins"]) == len(cases)
    failed = json.loads(program("cases", "--failed", "--limit", "0", "--json").stdout)["cases"]
    told = [(c["id"], c["scores"][0]["value"]["truth"], c["scores"][0]["value"]["prediction"]) for c in failed]
    assert told == [(c["id"], c["expected_outcome"], c["actual_outcome"]) for c in wrong]
    with (program.latest / "miscategorised.csv").open(encoding="utf-8", newline="") as file:
        table = [(row["case_id"], row["question"], float(row["confidence"])) for row in csv.DictReader(file)]
    assert table == [(c["id"], c["question"], c["confidence_score"]) for c in wrong]
    page = (program.latest / "report.html").read_text("utf-8")
    assert "Confusion matrix of question_router" in page
    assert "Calibration of question_router" in page


def test_retrieval_survives_cases_with_nothing_to_find(program: Program) -> None:
    done = program("experiment=retrieval")
    assert done.returncode == 0, done.stderr
    rows, details = summary(program)
    row = rows["retrieval", "recall"]
    assert (row["n_scored"], row["n_undefined"]) == (15, 1)
    cases = [case for case in load("retrieval") if case["expected_chunk_uids"]]
    recalls = [
        len({r["chunk_uid"] for r in c["actual_search_results"]} & set(c["expected_chunk_uids"]))
        / len(c["expected_chunk_uids"])
        for c in cases
    ]
    assert row["value"] == pytest.approx(sum(recalls) / len(recalls))
    assert details["retrieval", "recall"]["undefined"] == 1
    assert rows["retrieval_pages", "mrr"]["value"] is not None


def test_topic_tagger_counts_its_errors(program: Program) -> None:
    done = program("experiment=topic_tagger")
    assert done.returncode == 0, done.stderr
    rows, _ = summary(program)
    cases = [case for case in load("topic_tagger") if case["status"] == "success"]
    pairs = [
        (
            (c["expected_primary_topic"], c["expected_secondary_topic"]),
            (c["actual_primary_topic"], c["actual_secondary_topic"]),
        )
        for c in cases
    ]
    sets = [({*e} - {None}, {*a} - {None}) for e, a in pairs]
    rates = {
        "topics_in_order": [e == a for e, a in pairs],
        "topics_any_order": [e == a for e, a in sets],
        "topic_primary": [e[0] == a[0] for e, a in pairs],
        "topic_primary_in_either": [e[0] in a for e, a in pairs],
        "topic_any": [bool(e & a) for e, a in sets],
    }
    for name, hits in rates.items():
        row = rows[name, "mean"]
        assert row["value"] == pytest.approx(sum(hits) / len(hits)), name
        assert (row["ci_method"], row["n_error"], row["n_scored"]) == ("wilson", 1, 20)
    assert program("experiment=topic_tagger", "max_error_rate=0").returncode == 3
    # what a run writes of its cases loads again, the error included
    again = (
        "dataset=topic_tagger",
        f"dataset.topic_tagger.path={program.latest / 'cases.jsonl'}",
        "dataset.topic_tagger.fields=null",
        "metric=topic_primary",
    )
    assert program(*again).returncode == 3
    assert summary(program)[0]["topic_primary", "mean"]["n_error"] == 1


RECORDED = {
    "jailbreak_guardrails": ("actual_outcome",),
    "output_guardrails": ("actual_triggered", "actual_guardrails"),
    "question_router": ("actual_outcome", "confidence_score"),
    "retrieval": ("actual_search_results",),
    "topic_tagger": ("actual_primary_topic", "actual_secondary_topic", "status", "error_message"),
    "rag": ("llm_answer", "structured_contexts"),
}
KEPT_BACK = ("expected_outcome", "expected_guardrails", "expected_chunk_uids", "expected_primary_topic", "ideal_answer")
METRICS = {
    "jailbreak_guardrails": "jailbreak_guardrails",
    "output_guardrails": "[output_guardrails,output_guardrails_triggered]",
    "question_router": "question_router",
    "retrieval": "[retrieval,retrieval_pages]",
    "topic_tagger": "[topics_in_order,topics_any_order,topic_primary,topic_primary_in_either,topic_any]",
    "rag": "[faithfulness,exact_match]",
}
COMMAND = """import json, sys
case = json.load(sys.stdin)
print(json.dumps(json.load(open("replies.json"))[case["question"]]))
"""


@dataclass(frozen=True, kw_only=True)
class Says(Answering):
    """A service that replies in JSON of its own."""

    said: Mapping[str, Any]

    def body(self, request: Request) -> Mapping[str, Any]:
        return self.said


def replies(task: str, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the system that was recorded would reply to each question, as the columns of its task."""
    asked = "message" if task == "output_guardrails" else "question"
    return {row[asked]: {column: row[column] for column in RECORDED[task] if column in row} for row in rows}


def scores(program: Program) -> list[tuple[Any, ...]]:
    """All that must not depend on where the answers came from."""
    lines = (program.latest / "scores.jsonl").read_text("utf-8").splitlines()
    kept = ("dataset", "case_id", "metric", "status", "score", "value", "reason")
    return sorted(tuple(json.dumps(json.loads(line).get(key)) for key in kept) for line in lines)


@pytest.mark.parametrize("task", sorted(RECORDED))
def test_every_task_can_be_generated(program: Program, task: str) -> None:
    """A live system that says what was recorded gets the scores of the recorded answers, over HTTP and as a command."""
    rows = load(task)[-8:]
    path = program.write("mine.jsonl", *rows)
    words = (f"dataset={task}", f"dataset.{task}.path={path}", f"metric={METRICS[task]}", "max_error_rate=1")
    done = program(*words)
    assert done.returncode == 0, done.stderr
    recorded = scores(program)
    said = replies(task, rows)
    with Endpoint(lambda request: Says(said=said[request.body["question"]])) as endpoint:
        live = (*words, "generate=true", "target=http", f"target.url={endpoint.url}/chat/completions")
        done = program(*live)
        assert done.returncode == 0, done.stderr
        assert endpoint.count == len(said)
        told = {column for request in endpoint.requests for column in request.body["vars"]}
    assert scores(program) == recorded
    assert not told & {*RECORDED[task], *KEPT_BACK}
    (program.folder / "replies.json").write_text(json.dumps(said))
    (program.folder / "bot.py").write_text(COMMAND)
    done = program(*words, "generate=true", "target=command", f"target.argv=[{sys.executable},bot.py]")
    assert done.returncode == 0, done.stderr
    assert scores(program) == recorded


def test_parts_of_a_field_can_be_told_wrongly(program: Program) -> None:
    done = program("check", "experiment=question_router", "dataset.question_router.fields.actual.outcome=outcome")
    assert done.returncode == 2
    assert "question_router needs actual.outcome, but no case of question_router has it" in done.stderr
    done = program("check", "experiment=question_router", "+dataset.question_router.fields.answer={a: b}")
    assert "it cannot be put together of parts" in done.stderr
