"""Delimiters around judged text, and the order of a prompt's parts.

A prompt is made of four parts: the rule on data, the metric's rules, the material, and the task. Their order makes
good use of the prompt caches of providers, which reuse a common beginning of prompts from about 1,024 tokens on:

- short material: the rule on data and the metric's rules come first, as the system message. It is the same for all
  cases of a metric.
- long material: it comes directly after the rule on data, so that the prompts of all metrics of a case begin alike.

The length of the material alone decides, so that a case has the same prompt in every run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

from evalflow.records import Message
from evalflow.values.jsonvalues import is_mapping, is_sequence, written

Key = Callable[[], bytes]
"""The secret that the ids of fences are made with; see `calls.fence_key`."""
NO_KEY: Key = bytes
LONG_BYTES = 4096
"""The length, in bytes of UTF-8, from which material counts as long: about 1,024 tokens in any script."""
_DIGITS = 6


def fenced(text: object, name: str, key: bytes = b"") -> str:
    """`text` between delimiters that it cannot contain. Equal texts get equal delimiters.

    Their id is a keyed digest of the text, so that nobody without the key can write a block with a right id.
    """
    body, at = str(text), 0
    lower, content = body.lower(), f"{name}\n{body}".encode()
    while True:
        mark = hashlib.blake2b(content, key=key, salt=at.to_bytes(8)).hexdigest()[: _DIGITS + at // 8]
        if mark not in lower:
            return f"<{name} id={mark}>\n{body}\n</{name} id={mark}>"
        at += 1  # a longer id each time that the text contains the one before


def one_line(text: object) -> str:
    r"""`text` with a space for each line end of any script, so that it cannot begin a new line.

    >>> one_line("a\r2. b\u2028c")
    'a 2. b c'
    """
    return " ".join(str(text).splitlines())


def examples_text(examples: Sequence[Mapping[str, object]], key: bytes) -> str:
    """Few-shot examples as the judge reads them: the fields of each between delimiters, then the reply."""
    shown: list[str] = []
    for number, example in enumerate(examples, 1):
        fields = [fenced(_field(value), name, key) for name, value in example.items() if name != "reply"]
        reply = json.dumps(example["reply"], ensure_ascii=False)
        shown.append("\n".join([f"Example {number}:", *fields, f"Reply: {reply}"]))
    return "\n\n".join(shown)


def _field(value: object) -> str:
    if is_sequence(value):
        return "\n".join(f"{number}. {one_line(_field(one))}" for number, one in enumerate(value, 1))
    return json.dumps(value, ensure_ascii=False) if is_mapping(value) else written(value)


def part_mark(name: str, mark: str) -> str:
    """The text that begins a part in a rendered template; `mark` is random, so that no other text contains it."""
    return f"{mark}:{name};"


def laid_out(text: str, mark: str, examples: str = "") -> tuple[Message, ...]:
    """The messages of a rendered prompt. A template without parts is one user message, after any examples."""
    head, *pieces = text.split(f"{mark}:")
    if not pieces:
        return _messages([examples], [text])
    parts = {name: part for name, _, part in (piece.partition(";") for piece in pieces)}
    data, material, task = (parts.get(name, "") for name in ("data", "material", "task"))
    rules = [head, parts.get("rules", ""), examples]
    if len(material.strip().encode()) < LONG_BYTES:
        return _messages([data, *rules], [material, task])
    return _messages([data], [material, *rules, task])


def _messages(system: Sequence[str], user: Sequence[str]) -> tuple[Message, ...]:
    texts = {"system": _joined(system), "user": _joined(user)}
    return tuple(Message(role, text) for role, text in texts.items() if text or role == "user")


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(filter(None, (part.strip() for part in parts)))
