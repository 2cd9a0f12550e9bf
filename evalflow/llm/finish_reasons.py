"""Translate the finish reasons of all providers to those of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from evalflow.records import CUT_OFF, FILTERED
from evalflow.values.jsonvalues import as_map

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed"), "stop"),
        **dict.fromkeys(
            (
                "length",
                "max_tokens",
                "max_output_tokens",
                "max_length",
                "max_new_tokens",
                "model_length",
                "model_context_window_exceeded",
                "context_length",
                "token_limit",
                "incomplete",
                "truncated",
                "cut_off",
            ),
            CUT_OFF,
        ),
        **dict.fromkeys(
            (
                "content_filter",
                "content_filtered",
                "filtered",
                "refusal",
                "safety",
                "recitation",
                "blocklist",
                "prohibited_content",
                "spii",
                "image_safety",
                "guardrail_intervened",
                "error_toxic",
                "sensitive",
            ),
            FILTERED,
        ),
        **dict.fromkeys(("tool_calls", "tool_use", "tool_call", "function_call"), "tool_calls"),
    }
)
BROKEN_OFF = frozenset(
    {
        "error",
        "error_limit",
        "abort",
        "aborted",
        "cancelled",
        "user_cancel",
        "timeout",
        "time_limit",
        "insufficient_system_resource",
        "malformed_model_output",
    }
)
"""Finish reasons of endpoints (OpenRouter, Mistral, vLLM, SGLang, DeepSeek, Cohere) that failed during a reply."""


def finish_reason(value: object) -> str | None:
    """Return `stop`, `length`, `content_filter` or `tool_calls`; other texts unchanged; None for other values.

    SGLang has the reason in an object, as `type`.
    """
    text = value if value is None or isinstance(value, str) else as_map(value).get("type")
    word = text.strip() if isinstance(text, str) else ""
    if not word:
        return None
    reason = word.lower().replace("-", "_").replace(" ", "_")
    return _WORDS.get(reason, reason if reason in BROKEN_OFF else word)
