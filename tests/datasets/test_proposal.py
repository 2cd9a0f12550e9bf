"""Which column of unknown data is proposed for which field."""

from __future__ import annotations

import pytest

from evalflow.datasets.fields import CONVERTERS
from evalflow.datasets.proposal import USUAL, other_contexts, propose_fields


@pytest.mark.parametrize(
    ("found", "proposed"),
    [
        (
            ["query", "response", "ground_truth"],
            {"question": "query", "answer": "response", "reference": "ground_truth"},
        ),
        (["Prompt", "Retrieved Contexts"], {"question": "Prompt", "contexts": "Retrieved Contexts"}),
        (["groundTruth", "userInput"], {"question": "userInput", "reference": "groundTruth"}),
        (["question", "prompt", "answer", "response"], {}),
        (["messages", "prompt", "demo_output"], {"demo_answer": "demo_output"}),
        (["text", "label", "prediction"], {"expected": "label", "actual": "prediction"}),
        (["response", "llm_answer"], {"answer": "llm_answer"}),
        (["Answer"], {"answer": "Answer"}),
        (["instruction", "input", "output"], {"question": "instruction", "answer": "output"}),
        (
            ["Nr.", "Frage (user)", "Bot says", "what it should say", "KB snippet", "Team"],
            {
                "id": "Nr.",
                "question": "Frage (user)",
                "answer": "Bot says",
                "reference": "what it should say",
                "contexts": "KB snippet",
            },
        ),
        (["Frage ID", "User question"], {"id": "Frage ID", "question": "User question"}),
        (["answer no", "the answer"], {"answer": "the answer"}),
        (["Question score", "answer_tokens", "product id", "bot name", "expected topics"], {}),
        (["the bot's answer", "another answer", "expected answer"], {"reference": "expected answer"}),
        (["response", "first answer"], {"answer": "response"}),
        (["context", "retrieval_context"], {"contexts": "retrieval_context"}),
        (["contexts", "Retrieved passages"], {"contexts": "Retrieved passages"}),
        (["reference_contexts", "retrieved_contexts", "retrieval_score"], {"contexts": "retrieved_contexts"}),
        (["context", "ground_truth_context"], {"contexts": "context"}),
        (["ideal_context", "retrieved_doc_ids"], {}),
        (["chat_history", "query"], {"question": "query", "history": "chat_history"}),
        (["conversation", "question"], {"history": "conversation"}),
        (["conversation", "history", "question"], {}),
        (["conversation"], {"messages": "conversation"}),
        (["case_id", "target", "target_repeat", "question"], {"id": "case_id"}),
        ([], {}),
    ],
)
def test_proposed_fields(found: list[str], proposed: dict[str, str]) -> None:
    assert propose_fields(found) == proposed


def test_contexts_that_are_left_out_are_named() -> None:
    columns = ["context", "ideal context", "retrieval_context", "question"]
    assert other_contexts(columns, propose_fields(columns)) == ["context", "ideal context"]
    assert other_contexts(["contexts", "question"], {}) == []


def test_no_usual_name_belongs_to_two_fields() -> None:
    names = [name for field, usual in USUAL.items() for name in (field, *usual)]
    assert len(names) == len(set(names))
    assert set(USUAL) <= set(CONVERTERS)
