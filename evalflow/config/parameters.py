"""Further parameters of a model's requests, which are passed on unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from evalflow.redaction import SECRET_NAME
from evalflow.values.jsonvalues import as_list, as_map, is_finite, is_too_deep

LIMIT = "max_completion_tokens"
"""The newer name of max_tokens, which replaces it."""
OWN_KEYS = ("temperature", "max_tokens")
"""Parameters that have a configuration key; null removes them from requests."""
_PLACES: Mapping[str, str] = MappingProxyType(
    {
        **{name: f"use the key {name} beside parameters" for name in ("model", *OWN_KEYS)},
        "messages": "the messages are the prompt",
        "stream": "replies are read whole",
        "stream_options": "replies are read whole",
        "n": "repeats.target and repeats.judge ask several times",
    }
)
_CALLS = ("tools", "tool_choice", "functions", "function_call")
_LOGPROBS = ("logprobs", "top_logprobs")
_OF_TYPED_REPLIES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("response_format", *_CALLS), "use the key mode beside parameters"),
        **dict.fromkeys(_LOGPROBS, "use the key logprobs beside parameters"),
    }
)
_OF_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_CALLS, "a target of kind agent has tools"),
        **dict.fromkeys(_LOGPROBS, "nothing reads them of a target's answers"),
    }
)
KNOWN = frozenset(
    {
        LIMIT,
        "chat_template_kwargs",
        "extra_body",
        "frequency_penalty",
        "logit_bias",
        "min_p",
        "presence_penalty",
        "reasoning",
        "reasoning_effort",
        "repetition_penalty",
        "seed",
        "service_tier",
        "stop",
        "thinking",
        "top_k",
        "top_p",
        "user",
        "verbosity",
    }
)
"""Request parameters that people may mistake for configuration keys."""


def checked(parameters: Mapping[str, object], *, typed: bool) -> dict[str, object]:
    """Return the parameters that are not null; ValueError if evalflow sets one itself or one is not JSON.

    `typed`: whether the requests ask for typed replies, as those of judges do.
    """
    taken = {**_PLACES, **(_OF_TYPED_REPLIES if typed else _OF_TEXTS)}
    for name, value in parameters.items():
        if value is not None and name in taken:
            raise ValueError(f"{name} cannot be one of the parameters: {taken[name]}")
    if not is_finite(dict(parameters)) or is_too_deep(dict(parameters)):
        raise ValueError("a parameter cannot be sent as JSON: a number is not finite, or maps are nested too deeply")
    return {name: value for name, value in parameters.items() if value is not None}


def secrets_among(parameters: object) -> Iterator[str]:
    """Return the names in nested maps and lists that mark their text as a secret."""
    for name, value in as_map(parameters).items():
        if isinstance(value, str) and SECRET_NAME.search(name) and "tokenizer" not in name and "${" not in value:
            yield name
        yield from secrets_among(value)
    for one in as_list(parameters):
        yield from secrets_among(one)
