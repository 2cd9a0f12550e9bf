"""inspect's `model_graded_qa` over the cases: a task whose solver gives the recorded answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import model_graded_qa
from inspect_ai.solver import Generate, Solver, TaskState, solver

CRITERION = "Each sentence of the submission follows from the one before, so that it reads as a whole."


@solver
def recorded() -> Solver:
    """Gives the answer that stands in the data."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - inspect gives it
        state.output = ModelOutput.from_content("recorded", state.metadata["answer"])
        return state

    return solve


def main(cases: Path, in_flight: int) -> None:
    """Judge the cases."""
    rows = [json.loads(line) for line in cases.read_text().splitlines()]
    samples = [
        Sample(id=row["id"], input=row["question"], target=CRITERION, metadata={"answer": row["llm_answer"]})
        for row in rows
    ]
    task = Task(dataset=samples, solver=recorded(), scorer=model_graded_qa())
    log = eval(task, model="openai/gpt-4o", max_connections=in_flight, max_samples=in_flight, display="plain")[0]
    assert log.results
    print(f"\nscored {log.results.scores[0].scored_samples} of {len(rows)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
