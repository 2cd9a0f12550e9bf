"""ragas' metrics over the cases, one after the other: `done NAME` after each, then waits for a line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from ragas.embeddings.base import embedding_factory
from ragas.llms import llm_factory
from ragas.metrics import collections


async def main(cases: Path) -> None:
    """Judge the cases by each metric."""
    rows = [json.loads(line) for line in cases.read_text().splitlines()]
    client = AsyncOpenAI()
    llm = llm_factory("gpt-4o", client=client)
    embeddings = embedding_factory("openai", model="text-embedding-3-small", client=client)
    fields = {
        "user_input": "question",
        "response": "answer",
        "reference": "reference",
        "retrieved_contexts": "contexts",
    }
    metrics: dict[str, tuple[Any, tuple[str, ...]]] = {
        "faithfulness": (collections.Faithfulness(llm=llm), ("user_input", "response", "retrieved_contexts")),
        "answer_relevancy": (
            collections.AnswerRelevancy(llm=llm, embeddings=embeddings),
            ("user_input", "response"),
        ),
        "context_precision": (
            collections.ContextPrecisionWithReference(llm=llm),
            ("user_input", "reference", "retrieved_contexts"),
        ),
        "context_recall": (collections.ContextRecall(llm=llm), ("user_input", "reference", "retrieved_contexts")),
        "factual_correctness": (collections.FactualCorrectness(llm=llm), ("response", "reference")),
    }
    for name, (metric, needs) in metrics.items():
        for row in rows:
            await metric.ascore(**{need: row[fields[need]] for need in needs})
        print(f"done {name}", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
