"""A workspace with runs that have ended, made once for all tests that only read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from tests.finishing import finish

EVIL = "no <img src=x onerror=\"document.title='owned'\">"
EXACT: dict[str, Any] = {
    "kind": "check",
    "version": 1,
    "description": "Whether the answer is the reference.",
    "needs": ["answer", "reference"],
    "field": "answer",
    "checks": [{"op": "equals", "against": "reference"}],
    "threshold": 1.0,
    "gate": {"mean": ">= 0.5"},
}


@dataclass(frozen=True)
class Finished:
    """The runs by what they found.

    Attributes:
        folder: The working directory of the workspace.
        worse: Right in the first of 12 cases alone, so that its gate fails.
        better: Right in all of them but the first.
        other: As `better`, by another version of the metric.
    """

    folder: Path
    worse: str
    better: str
    other: str


def finish_runs(space: Workspace, title: str = "New prompt", question: str = "What is fee {}?") -> Finished:
    """Define a bot, a metric and cases, and run them three times; in between the answers and the metric change.

    `title`: of the second run, `question`: of each case, with a place for its number.
    """
    bots.create_bot(space, "fees", {"kind": "recorded"}, "What the fees desk said.")
    metrics.create_metric(space, "fees", MetricDraft("exact", EXACT))
    datasets.create_dataset(space, "questions", "Twelve questions.")
    cases.add_cases(space, "questions", [_case(i, question, right=i == 0) for i in range(12)])
    worse = _run(space, "As it was")
    for i, stored in enumerate(cases.list_cases(space, "questions").items):
        cases.update_case(space, "questions", stored.id, stored.version, _case(i, question, right=i > 0))
    better = _run(space, title)
    metrics.update_metric(space, "fees", MetricDraft("exact", {**EXACT, "version": 2}), 1)
    return Finished(space.root, worse, better, _run(space, "Second version"))


def _case(i: int, question: str, *, right: bool) -> dict[str, Any]:
    answer = f"It costs {i} pounds." if right else EVIL
    return {"id": f"c{i}", "question": question.format(i), "reference": f"It costs {i} pounds.", "answer": answer}


def _run(space: Workspace, title: str) -> str:
    return finish(space, RunRequest("fees", ["questions"], ["exact"], title=title)).run_id
