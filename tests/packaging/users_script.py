"""A script as a user has one: `test_stranger.py` checks it strictly and runs it. It uses the whole public API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import evalflow
from evalflow import (
    Answer,
    Case,
    CaseInput,
    CaseRow,
    Context,
    GateOutcome,
    Message,
    Outcome,
    Report,
    RunCalibration,
    RunComparison,
    RunResult,
)

cases: list[CaseRow] = [
    {"id": "loan", "question": "How long may I keep a book?", "answer": "28 days.", "reference": "28 days."},
    {"id": "late", "question": "What does it cost?", "answer": "Nothing.", "reference": "20 cents.", "branch": 3},
]


def short(case: Case, answer: Answer) -> bool:
    """The answer is short, in a short conversation."""
    contexts: list[Context] = list(case.contexts or ())
    messages: list[Message] = list(case.messages)
    return len(contexts) < 3 and len(messages) < 5 and len(answer.text) < 30


@evalflow.metric(threshold=0.5, needs=["answer", "reference"])
def kept(case: Case, answer: Answer) -> Outcome:
    return Outcome(status="scored", score=1.0, reason=case.reference_text)


@evalflow.metric
def half(case: Case, answer: Answer) -> float:
    return 0.5


def bot(case: CaseInput) -> str:
    return case["question"] or ""


async def later(case: CaseInput) -> dict[str, object]:
    return {"answer": case["question"], "contexts": case["contexts"]}


run: RunResult = evalflow.run("metric=exact_match", cases=cases, metrics=[short, kept, half], target=bot)
again = asyncio.run(evalflow.arun("metric=exact_match", cases=cases, target=later))
passed: bool | None = run.passed
cost: float | None = run.cost_usd
gates: list[GateOutcome] = run.gates
for gate in gates:
    name: str = gate["name"]
    value: float | None = gate["value"]
    print(name, value, gate["passed"], gate["message"])
print(run.summary.columns, run.scores.height, run.cases.height, run.sentence, run.notes, run.exit_code)

comparison: RunComparison = evalflow.compare(run, again, margin=0.1, allow=["metric"])
print(comparison.verdict("exact_match"), comparison.rows.height, comparison.flips.height, comparison.sentence)
hashes: list[str] = run.cases["answer_hash"].to_list()
labels = [{"case_id": "loan", "metric": "exact_match", "value": 1, "by": "ana", "answer_hash": hashes[0]}]
calibration: RunCalibration = evalflow.calibrate(run, labels)
print(calibration.rows.height, calibration.notes, calibration.certificates)

folder: Path = run.folder
report: Report = evalflow.load(folder).report
print(report.path)
try:
    evalflow.run("datset=rag")
except evalflow.UserError as error:
    for problem in error.problems:
        print(f"UserError: {problem.what}", problem.where, problem.hint)
except (evalflow.BudgetError, evalflow.IncompleteError, evalflow.InfrastructureError, evalflow.WaitingError) as error:
    print(error, error.exit_code)
except evalflow.EvalflowError as error:
    print(error)
