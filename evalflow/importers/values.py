"""Answers and questions in the forms that other tools have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_QUESTIONS = ("question", "query", "input", "user_input", "message", "user_message", "prompt", "text", "topic")


def output_text(value: Any) -> str:
    """An answer that is no text, as other tools compare it: as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def question_of(variables: Mapping[str, Any], prompt: str) -> str:
    """The variable that is called so, else the only text among them, else the filled prompt, else all texts."""
    texts = {name: value for name, value in variables.items() if isinstance(value, str) and value.strip()}
    named = next((texts[name] for name in _QUESTIONS if name in texts), None)
    if named is not None:
        return named
    return next(iter(texts.values())) if len(texts) == 1 else prompt or " ".join(texts.values())
