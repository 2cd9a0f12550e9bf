"""ragas' aspect critic over the cases: `evaluate` with one metric."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from openai import AsyncOpenAI
from ragas import EvaluationDataset, RunConfig, evaluate
from ragas.llms import llm_factory
from ragas.metrics import AspectCritic


def main(cases: Path, in_flight: int) -> None:
    """Judge the cases."""
    metric = AspectCritic(
        name="coherence",
        definition="Does each sentence of the response follow from the one before, so that it reads as a whole?",
    )
    rows = [json.loads(line) for line in cases.read_text().splitlines()]
    found = evaluate(
        EvaluationDataset.from_list([{"user_input": row["question"], "response": row["llm_answer"]} for row in rows]),
        [metric],
        llm=llm_factory("gpt-4o", client=AsyncOpenAI()),
        run_config=RunConfig(max_workers=in_flight),
    )
    print(f"\nscored {sum(not math.isnan(score) for score in found['coherence'])} of {len(rows)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
