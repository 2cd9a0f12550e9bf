"""Guess from their names which columns of unknown data hold which case fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

USUAL: dict[str, tuple[str, ...]] = {
    "id": ("case_id", "sample_id", "example_id", "question_id", "uid", "uuid"),
    "question": ("query", "prompt", "instruction", "input", "user_input", "user_message", "user_query", "inputs"),
    "history": ("chat_history", "conversation_history", "dialogue_history", "previous_turns", "previous_messages"),
    "messages": ("conversation", "conversations", "chat", "dialogue", "dialog", "turns"),
    "answer": (
        "llm_answer",
        "response",
        "output",
        "actual_output",
        "generated_answer",
        "model_answer",
        "completion",
        "generation",
        "model_output",
        "llm_response",
        "assistant_response",
        "summary",
    ),
    "reference": (
        "ideal_answer",
        "reference_answer",
        "expected_output",
        "expected_answer",
        "ground_truth",
        "groundtruth",
        "ground_truths",
        "gold_answer",
        "golden_answer",
        "gold",
        "target",
        "ideal",
        "correct_answer",
        "reference_output",
        "references",
        "targets",
        "gold_answers",
        "reference_answers",
        "correct_answers",
        "acceptable_answers",
    ),
    "contexts": (
        "structured_contexts",
        "context",
        "documents",
        "docs",
        "passages",
        "chunks",
        "sources",
        "source_documents",
        "evidence",
        "source",
        "document",
        "passage",
    ),
    "expected": ("expected_outcome", "label", "expected_label", "true_label", "gold_label", "y_true", "class"),
    "actual": ("actual_outcome", "prediction", "predicted", "predicted_label", "y_pred", "outcome"),
    "demo_answer": ("demo_output",),
    "tags": ("tag", "categories", "category", "topics", "topic"),
    "group": ("group_id", "cluster", "cluster_id", "document_id", "doc_id", "user_id", "template"),
}
"""Case field to common column names, best guess first."""

# Words of longer names, such as `Bot says` or `Frage (user)`, in English and a few other languages.
_WORDS: dict[str, set[str]] = {
    "id": {"id", "nr", "no"},
    "question": {
        "question",
        "questions",
        "query",
        "prompt",
        "input",
        "asks",
        "asked",
        "utterance",
        "frage",
        "pregunta",
        "domanda",
        "pergunta",
        "demande",
    },
    "answer": {
        "answer",
        "answers",
        "response",
        "reply",
        "replies",
        "output",
        "bot",
        "chatbot",
        "assistant",
        "says",
        "said",
        "completion",
        "antwort",
        "respuesta",
        "réponse",
        "risposta",
        "resposta",
    },
    "reference": {
        "reference",
        "expected",
        "ideal",
        "gold",
        "golden",
        "truth",
        "should",
        "correct",
        "desired",
        "wanted",
        "soll",
        "erwartet",
        "erwartete",
        "musterantwort",
    },
    "contexts": {
        "context",
        "contexts",
        "passage",
        "passages",
        "snippet",
        "snippets",
        "chunk",
        "chunks",
        "document",
        "documents",
        "retrieved",
        "evidence",
        "source",
        "sources",
        "kb",
        "kontext",
    },
    "tags": {"tag", "tags", "category", "categories", "topic", "topics", "kategorie", "thema"},
}
_RETRIEVED = {"retrieved", "retrieval", "retriever"}
"""Words for columns of retrieved contexts, as opposed to expected ones."""
_CONTEXT = {"context", "contexts"}
_MEASURES = {
    "score",
    "scores",
    "rating",
    "grade",
    "time",
    "date",
    "at",
    "ms",
    "seconds",
    "latency",
    "cost",
    "price",
    "tokens",
    "count",
    "length",
    "type",
    "lang",
    "language",
    "model",
    "version",
    "name",
    "url",
    "link",
    "status",
    "feedback",
    "comment",
    "comments",
    "ids",
    "uids",
}
"""Words for columns that describe a text but do not contain it."""


def propose_fields(columns: Sequence[str]) -> dict[str, str]:
    """Propose a `fields` mapping for unknown data: case field to column, without columns of a field's own name.

    Usual names count first. Then a column is taken whose words belong to one field only, if no other column's do. Of
    several context columns, the one with retrieved contexts is taken. Turns beside a question are its history.
    """
    names = {_snake_case(column): column for column in reversed(columns)}
    if "target_repeat" in names:  # a run's results, where the target is what was evaluated
        names.pop("target", None)
    wanted = [name for name in USUAL if name not in columns and not (name == "question" and "messages" in columns)]
    proposed = {
        field: names[usual_name]
        for field in wanted
        if (usual_name := next((name for name in (field, *USUAL[field]) if name in names), None))
    }
    usual_names = {*USUAL, *(name for usual in USUAL.values() for name in usual)}
    rest = [(_field_of(name), column) for name, column in names.items() if name not in usual_names]
    for field in wanted:
        likely = [column for usual_name, column in rest if usual_name == field]
        if field not in proposed and len(likely) == 1:
            proposed[field] = likely[0]
    if retrieved := [column for name, column in names.items() if _is_retrieved(name)]:
        proposed["contexts"] = retrieved[-1]  # the first one in the file
    if "messages" in proposed and ("question" in proposed or "question" in columns):
        turns = proposed.pop("messages")
        if "history" not in columns:
            proposed.setdefault("history", turns)
    return {field: proposed[field] for field in USUAL if field in proposed}


def other_contexts(columns: Sequence[str], proposed: Mapping[str, str]) -> list[str]:
    """The columns with contexts that the mapping leaves out, such as ideal contexts beside retrieved ones."""
    taken = proposed.get("contexts", "contexts")
    names = {column: _snake_case(column) for column in columns if column != taken}
    return [
        column for column, name in names.items() if name in ("contexts", *USUAL["contexts"]) or _words(name) & _CONTEXT
    ]


def _is_retrieved(name: str) -> bool:
    words = _words(name)
    return bool(words & _RETRIEVED) and not words & (_MEASURES | _WORDS["reference"] | {"id", "uid"})


def _words(name: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", name))


def _field_of(name: str) -> str | None:
    """The field that the words of a name belong to; None if they belong to no field or to several."""
    words = _words(name)
    fields = [field for field, own in _WORDS.items() if words & own]
    if "id" in fields:  # `product id` is not the case's
        return "id" if words <= _WORDS["id"] | _WORDS["question"] else None
    if words & _MEASURES:
        return None
    if fields == ["answer", "reference"]:  # such as `the right answer that was expected`
        return "reference"
    return fields[0] if len(fields) == 1 else None


def _snake_case(column: str) -> str:
    """The name in snake_case: `Ground Truth`, `ground-truth` and `groundTruth` are one."""
    separated = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())
    return re.sub(r"[\s.-]+", "_", separated).lower()
