"""Vectors for texts, without a model: the same text always gets the same one."""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.testing.steps import Answering

if TYPE_CHECKING:
    from evalflow.testing.request import Request


@dataclass(frozen=True, kw_only=True)
class Embeddings(Answering):
    """The reply to an embeddings request. Made by `embeddings`.

    Args:
        vectors: One for each text, or None: of `vector`.
    """

    vectors: Sequence[Sequence[float]] | None = None

    def body(self, request: Request) -> Mapping[str, Any]:
        """The reply, as numbers or as base64, as the request wants it."""
        vectors = self.vectors if self.vectors is not None else [vector(text) for text in request.inputs]
        packed = request.body.get("encoding_format") == "base64"
        tokens = sum(len(text) for text in request.inputs) // 4
        return {
            "object": "list",
            "model": request.model,
            "data": [
                {"object": "embedding", "index": index, "embedding": _packed(numbers) if packed else list(numbers)}
                for index, numbers in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }


def embeddings(vectors: Sequence[Sequence[float]] | None = None) -> Embeddings:
    """A reply to an embeddings request.

    Args:
        vectors: One for each text in the request; by default those of `vector`.
    """
    return Embeddings(vectors=vectors)


def vector(text: str, dimensions: int = 16) -> list[float]:
    """A unit vector that depends on every character of a text; those of different texts are nearly orthogonal.

    Args:
        text: Any text.
        dimensions: At most 32.
    """
    numbers = [byte / 127.5 - 1 for byte in hashlib.sha256(text.encode()).digest()[:dimensions]]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def _packed(numbers: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
