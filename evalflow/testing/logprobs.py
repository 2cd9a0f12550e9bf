"""Token probabilities as a chat completion carries them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

Alternatives = Mapping[str, Mapping[str, float]]
"""What else could have stood in a token's place, and how likely: {"4": {"4": 0.6, "5": 0.3}}."""

_IMPOSSIBLE = -9999.0
_TOKEN = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")


def logprobs(text: str, alternatives: Alternatives, top: int) -> dict[str, Any]:
    """The `logprobs` of a choice. Tokens are words and signs, each with the white space before it, and tile the text.

    Args:
        text: The content of the choice.
        alternatives: For a token, without its white space; any other token is certain.
        top: How many alternatives the request wants to see.
    """
    return {"content": [_token(token, alternatives, top) for token in _TOKEN.findall(text)], "refusal": None}


def _token(token: str, alternatives: Alternatives, top: int) -> dict[str, Any]:
    word = token.lstrip()
    space = token[: len(token) - len(word)]
    likely = alternatives.get(word, {word: 1.0})
    ranked = sorted(likely.items(), key=lambda item: -item[1])[:top]
    chosen = _entry(token, likely.get(word, 0.0))
    return {**chosen, "top_logprobs": [_entry(space + other, probability) for other, probability in ranked]}


def _entry(token: str, probability: float) -> dict[str, Any]:
    logprob = math.log(probability) if probability > 0 else _IMPOSSIBLE
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}
