"""deepeval's G-Eval over the cases: `evaluate` with one metric whose steps are given."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig
from deepeval.metrics import GEval
from deepeval.models import OpenAIModel
from deepeval.test_case import LLMTestCase, SingleTurnParams

STEPS = [
    "Check whether each sentence of the actual output follows from the one before.",
    "Check whether the actual output reads as a whole and not as a list of unrelated facts.",
]


def main(cases: Path, in_flight: int) -> None:
    """Judge the cases."""
    metric = GEval(
        name="coherence",
        evaluation_steps=STEPS,
        evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
        model=OpenAIModel(model="gpt-4o"),
    )
    rows = [json.loads(line) for line in cases.read_text().splitlines()]
    found = evaluate(
        [LLMTestCase(input=row["question"], actual_output=row["llm_answer"]) for row in rows],
        [metric],
        async_config=AsyncConfig(max_concurrent=in_flight),
    )
    scores = [data.score for result in found.test_results for data in result.metrics_data or []]
    print(f"\nscored {sum(score is not None for score in scores)} of {len(rows)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
