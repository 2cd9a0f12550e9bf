"""deepeval's metrics over the cases, one after the other: `done NAME` after each, then waits for a line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deepeval import metrics
from deepeval.models import OpenAIModel
from deepeval.test_case import LLMTestCase

METRICS = {
    "faithfulness": metrics.FaithfulnessMetric,
    "relevance": metrics.AnswerRelevancyMetric,
    "context_precision": metrics.ContextualPrecisionMetric,
    "context_recall": metrics.ContextualRecallMetric,
    "context_relevance": metrics.ContextualRelevancyMetric,
    "hallucination": metrics.HallucinationMetric,
    "toxicity": metrics.ToxicityMetric,
    "bias": metrics.BiasMetric,
    "pii_leakage": metrics.PIILeakageMetric,
    "summarisation": metrics.SummarizationMetric,
}
"""By the name of evalflow's metric of the same meaning."""


def main(cases: Path) -> None:
    """Judge the cases by each metric."""
    rows = [json.loads(line) for line in cases.read_text().splitlines()]
    for name, kind in METRICS.items():
        metric = kind(model=OpenAIModel(model="gpt-4o"), async_mode=False)
        for row in rows:
            given = "\n\n".join(row["contexts"]) if name == "summarisation" else row["question"]
            case = LLMTestCase(
                input=given,
                actual_output=row["answer"],
                expected_output=row["reference"],
                retrieval_context=row["contexts"],
                context=row["contexts"],
            )
            metric.measure(case, _show_indicator=False)
        print(f"done {name}", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
