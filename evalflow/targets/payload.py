"""A case as a program that is evaluated gets it: plain data, without what it is held against."""

from __future__ import annotations

from typing import Any

from evalflow.records import Case, Context, Message


def payload(case: Case) -> dict[str, Any]:
    """id, question, messages, contexts, metadata and vars; never the reference, the expected outcome or an answer."""
    return {
        "id": case.id,
        "question": case.question,
        "messages": [_message(message) for message in case.messages],
        "contexts": None if case.contexts is None else [_context(context) for context in case.contexts],
        "metadata": case.metadata,
        "vars": case.vars,
    }


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": message.content}


def _context(context: Context) -> dict[str, Any]:
    return {"text": context.text, "title": context.title, "path": context.path}
