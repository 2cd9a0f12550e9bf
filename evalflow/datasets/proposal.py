"""Which of somebody's columns is which case field, by the names that are usual."""

from __future__ import annotations

import re
from collections.abc import Sequence

USUAL: dict[str, tuple[str, ...]] = {
    "id": ("case_id", "sample_id", "example_id", "question_id", "uid", "uuid"),
    "question": ("query", "prompt", "input", "user_input", "instruction", "user_message", "user_query", "inputs"),
    "messages": ("conversation", "chat", "dialogue", "dialog", "chat_history", "turns"),
    "answer": (
        "llm_answer", "response", "output", "actual_output", "generated_answer", "model_answer", "completion",
        "generation", "model_output", "llm_response", "assistant_response", "summary",
    ),
    "reference": (
        "ideal_answer", "reference_answer", "expected_output", "expected_answer", "ground_truth", "groundtruth",
        "gold_answer", "golden_answer", "gold", "target", "ideal", "correct_answer", "reference_output",
    ),
    "contexts": (
        "structured_contexts", "context", "retrieved_contexts", "retrieval_context", "retrieved_context", "documents",
        "docs", "passages", "chunks", "sources", "source_documents", "evidence", "source", "document", "passage",
    ),
    "expected": ("expected_outcome", "label", "expected_label", "true_label", "gold_label", "y_true", "class"),
    "actual": ("actual_outcome", "prediction", "predicted", "predicted_label", "y_pred", "outcome"),
    "demo_answer": ("demo_output",),
    "tags": ("tag", "categories", "category", "topics", "topic"),
    "group": ("group_id", "cluster", "cluster_id", "document_id", "doc_id", "user_id", "template"),
}  # fmt: skip
"""Case field to the names that data often has for it, the surest first."""


def propose_fields(columns: Sequence[str]) -> dict[str, str]:
    """A `fields` mapping for unknown data: case field to column, each column at most once.

    A column with a case field's own name maps itself and is left out, as is a field that has such a column.
    """
    names = {_plain(column): column for column in reversed(columns)}
    return {
        field: names[found]
        for field, usual in USUAL.items()
        if field not in columns and not (field == "question" and "messages" in columns)
        if (found := next((name for name in (field, *usual) if name in names), None))
    }


def _plain(column: str) -> str:
    """The name in snake_case: `Ground Truth`, `ground-truth` and `groundTruth` are one."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())
    return re.sub(r"[\s.-]+", "_", words).lower()
