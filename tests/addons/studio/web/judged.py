"""A run that a judge has scored, each name and reason of which can be told from everything else."""

from __future__ import annotations

import re
from typing import Any

from evalflow.addons.studio.work import bots, cases, datasets, judges, metrics
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.space import Workspace
from evalflow.testing import Endpoint, Request
from tests.finishing import finish

BOT, JUDGE, MODEL, DATASET, TITLE = "autumnbot", "sternjudge", "modelof7b", "feecases", "Octoberrun"
REASON = "Becausethejudgesaysso"
TAG, CASE = "knownfailures", "caseofweek"
SECRETS = (BOT, JUDGE, MODEL, DATASET, TITLE, REASON, TAG, CASE)
"""None of these is for a person who labels."""
GRADED: dict[str, Any] = {
    "kind": "rubric",
    "version": 1,
    "description": "Whether the fee is right.",
    "needs": ["question", "answer"],
    "prompt": "right/grade.jinja",
    "scale": {"type": "boolean"},
    "threshold": 1.0,
    "judge": JUDGE,
}
PROMPT = (
    "Is this right?\n{{ question | fenced('question') }}\n{{ answer | fenced('answer') }}\nReply with reason and score."
)


def judge(request: Request) -> dict[str, Any]:
    """Right where the number of the fee is even."""
    numbers = re.findall(r"fee (\d+)", request.text)
    return {"reason": f"{REASON} {numbers[-1]}.", "score": int(numbers[-1]) % 2 == 0}


def finish_judged(space: Workspace, count: int) -> Run:
    """Define bot, judge, metric and cases, and run them; the answer to each third question is wrong."""
    with Endpoint(judge) as endpoint:
        config = {"kind": "openai", "model": MODEL, "base_url": endpoint.url, "api_key_env": None}
        judges.create_judge(space, JUDGE, config)
        bots.create_bot(space, BOT, {"kind": "recorded"}, "")
        metrics.create_metric(space, BOT, MetricDraft("right", GRADED, {"right/grade.jinja": PROMPT}))
        datasets.create_dataset(space, DATASET, "")
        rows = [
            {
                "id": f"{CASE}{i}",
                "question": f"What is fee {i}?",
                "answer": f"It is {i if i % 3 else 0} euros.",
                "tags": [TAG],
            }
            for i in range(count)
        ]
        cases.add_cases(space, DATASET, rows)
        return finish(space, RunRequest(BOT, [DATASET], ["right"], title=TITLE))
