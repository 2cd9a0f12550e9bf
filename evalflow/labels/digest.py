"""What a label is bound to: a digest of the answer that the person saw."""

from __future__ import annotations

import hashlib
import json

from evalflow.records import Answer

_DIGITS = 16


def answer_hash(answer: Answer) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the answer's text; of `actual` as JSON where it has no text."""
    text = answer.answer
    if text is None:
        text = json.dumps(answer.actual, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
