"""What a case asks, of which promptfoo only knows variables and a filled prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = ("question", "query", "input", "user_input", "message", "user_message", "prompt", "text", "topic")


def question_of(variables: Mapping[str, Any], prompt: str) -> str:
    """The variable that is called so, else the only text among them, else the filled prompt, else all texts."""
    texts = {name: value for name, value in variables.items() if isinstance(value, str) and value.strip()}
    named = next((texts[name] for name in _NAMES if name in texts), None)
    if named is not None:
        return named
    return next(iter(texts.values())) if len(texts) == 1 else prompt or " ".join(texts.values())
