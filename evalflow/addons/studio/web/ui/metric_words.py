"""The purposes, inputs and kinds of metrics, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

CASE_FIELDS = MappingProxyType(
    {
        "question": "Question",
        "answer": "Answer",
        "reference": "Expected answer",
        "contexts": "Context",
        "history": "Earlier turns",
        "messages": "Whole conversation",
        "metadata": "Metadata of the answer",
        "expected": "Expected label",
        "actual": "Predicted label",
    }
)
"""Case fields that can be shown to a judge."""
_OTHER_FIELDS = MappingProxyType(
    {
        "brief": "Brief of the simulated user",
        "turn_contexts": "Context of each turn",
        "cost_usd": "Cost",
        "latency_s": "Response time",
    }
)
OWN_PROMPT = "own_prompt"
"""A rubric with a prompt of its own, which people take for a kind of its own."""
_KINDS = MappingProxyType({"g_eval": "G-Eval", "sql": "SQL", "judge": "steps of a judge"})
_PURPOSES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Right or wrong": (
            "The answer beside an expected answer.",
            ("match", "factual", "preference", "composite"),
        ),
        "Helpful and well written": (
            "Whether the answer does what was asked, and how it reads.",
            ("relevance", "task", "coherence", "text", "summarisation", "g_eval", "answer", "checks"),
        ),
        "Answers from documents": (
            "What was retrieved, and whether the answer keeps to it.",
            ("faithfulness", "rag", "context", "citations", "retrieval"),
        ),
        "Safe": ("Harm, private data, attacks and refusals.", ("safety", "guardrails")),
        "Conversations": ("Several turns together.", ("conversation",)),
        "Agents": ("Tools, plans and steps.", ("agents",)),
        "Labels": ("A predicted class or topics beside the expected ones.", ("routing", "topics")),
    }
)
OTHERS = "Others"
"""The purpose of metrics of other families."""


def purposes() -> dict[str, str]:
    """The purposes of metrics in the order of the library, each with a sentence."""
    return {purpose: about for purpose, (about, _) in _PURPOSES.items()} | {OTHERS: "Metrics of this server."}


def purpose_of(family: str) -> str:
    """The purpose of the metrics of a family."""
    return next((purpose for purpose, (_, families) in _PURPOSES.items() if family in families), OTHERS)


def way_of(definition: Mapping[str, object], prompts: Mapping[str, str]) -> str:
    """The kind of a metric as people see it: its kind, or `OWN_PROMPT`; `prompts` are its own templates."""
    kind = str(definition.get("kind") or "g_eval")
    return OWN_PROMPT if kind == "rubric" and definition.get("prompt") in prompts else kind


def kind_in_words(kind: str) -> str:
    """The kind of a metric, such as `G-Eval` or `set match`."""
    return _KINDS.get(kind, kind.replace("_", " "))


def needs_in_words(needs: Iterable[str]) -> str:
    """What a metric needs of a case, such as `answer, expected answer`; columns of the data are counted as one."""
    names: list[str] = []
    for need in needs:
        root = need.partition(".")[0]
        known = CASE_FIELDS.get(root) or _OTHER_FIELDS.get(root)
        names.append(known.lower() if known else "a column of its own" if root == "vars" else root.replace("_", " "))
    return ", ".join(dict.fromkeys(names))


_LACKS = re.compile(r"(?<=\Athe case has no )\S+(?: and no \S+)*\Z")


def lacking_in_words(reason: str) -> str:
    """Why a metric skipped a case, with the words that people know for the fields of a case.

    >>> lacking_in_words("the case has no reference and no vars.Topic")
    'the case has no expected answer and no column Topic'
    """
    return _LACKS.sub(lambda match: " and no ".join(map(_field_in_words, match[0].split(" and no "))), reason)


def _field_in_words(field: str) -> str:
    whole, _, inner = field.partition(".")
    return f"column {inner}" if whole == "vars" else field if inner else needs_in_words([field])
