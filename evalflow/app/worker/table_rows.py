"""A run's answers and scores as rows of the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evalflow.datasets import tag_levels
from evalflow.records import Answer, Case
from evalflow.report.join import as_answered

Record = dict[str, Any]


def answer_row(run: int, position: int, case: Case, answer: Answer | None, pair: tuple[str, int]) -> Record:
    """A row of answers: the case with what this answer says.

    Args:
        run: The run's row.
        position: Where it stands among the run's answers.
        case: As it is in the data.
        answer: None where there is none.
        pair: The target, and which of its answers to the case it is.
    """
    shown = as_answered(case, answer)
    said = shown.answer
    if said is None and shown.actual is not None:
        said = shown.actual if isinstance(shown.actual, str) else json.dumps(shown.actual, ensure_ascii=False)
    return {
        "run": run,
        "position": position,
        "dataset": _text(shown.dataset),
        "case_id": _text(shown.id),
        "target": _text(pair[0]),
        "target_repeat": pair[1],
        "tags": list(shown.tags),
        "question": _text(shown.question or ""),
        "answer": _text(said),
        "reference": _text(shown.reference),
        "error": _text(answer.error if answer else None),
    }


def tag_rows(run: int, position: int, case: Case) -> list[Record]:
    """Rows of answer_tags: each tag of the case, and those above it."""
    levels = dict.fromkeys(level for tag in case.tags for level in tag_levels(tag))
    return [{"run": run, "tag": _text(level), "position": position} for level in levels]


_TEXTS = ("metric", "judge", "member_of", "status", "value", "reason", "error_type", "error", "path")
_PLAIN = ("repeat", "score", "cost_usd", "latency_s")


def score_row(run: int, position: int, n: int, score: Mapping[str, Any]) -> Record:
    """A row of scores.

    Args:
        run: The run's row.
        position: Of the answer.
        n: The score's number among those of the answer.
        score: By the columns of scores.parquet, or the keys of a line of scores.jsonl.
    """
    texts = {name: _text(score[name]) for name in _TEXTS}
    return {"run": run, "position": position, "n": n, **texts, **{name: score[name] for name in _PLAIN}}


def step_rows(run: int, position: int, n: int, score: Mapping[str, Any]) -> list[Record]:
    """The row of score_steps, where the judge was asked step by step."""
    steps = score["steps"]
    return [] if steps in (None, "[]") else [{"run": run, "position": position, "n": n, "steps": _text(steps)}]


def _text(text: str | None) -> str | None:
    if text is None or (text.isascii() and "\0" not in text):  # as most texts are, and looked at quickest
        return text
    from evalflow.store.rows import storable

    return storable(text)
