"""Answers as live targets begin them, and what becomes of one that fails."""

from __future__ import annotations

from dataclasses import replace

from evalflow.errors import CallError
from evalflow.records import Answer, Case


def blank(case: Case, target: str, repeat: int) -> Answer:
    """The answer to a case before anything is known of it.

    Args:
        case: The case.
        target: The column value.
        repeat: The target's repeat.
    """
    return Answer(
        dataset=case.dataset,
        index=case.index,
        case_id=case.id,
        target=target,
        target_repeat=repeat,
        messages=case.messages,
    )


def failed(answer: Answer, error: CallError) -> Answer:
    """The answer in state `error`, with what was paid for all the same."""
    return replace(
        answer,
        status="error",
        error_type=error.error_type,
        error=str(error),
        requests=error.requests,
        usage=error.usage,
        cost_usd=error.cost_usd,
        latency_s=error.latency_s if error.requests else None,
    )
