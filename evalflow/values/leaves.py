"""The texts and lists inside JSON objects, with the paths that lead to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evalflow.values.jsonvalues import is_list, is_object

_WRAPPERS = ("content", "text", "value", "page_content", "message")
"""Keys that do not say what their text is about."""
_REPLIES = ("choices", "candidates", "generations", "output", "content", "parts")
"""Lists whose first item holds the text of a reply."""
_NOT_SAID = re.compile(r"model|id|\w+(?:_id|Id)")
"""Names of texts that nobody said: a model, an id."""
_SIMPLE = re.compile(r"[A-Za-z_]\w*")
_DEEPEST = 8  # `$.response.body.choices[0].message.content` has 6


@dataclass(frozen=True, slots=True)
class Leaf:
    """A text or a list in an object, with the keys that lead to it."""

    keys: tuple[str | int, ...]
    value: object

    @property
    def name(self) -> str:
        """The last key that is not a wrapper, such as `reply` of `reply.content`; else the last key."""
        names = [key for key in self.keys if isinstance(key, str)]
        return next((name for name in reversed(names[1:]) if name not in _WRAPPERS), names[-1] if names else "")

    @property
    def is_wrapped(self) -> bool:
        """Whether its last key only says that it is a text."""
        return bool(self.keys) and self.keys[-1] in _WRAPPERS

    @property
    def path(self) -> str:
        """Its JSONPath."""
        return written_path(self.keys)


def leaves(value: object, *keys: str | int) -> Iterator[Leaf]:
    """Yield the texts and lists below a value at these keys; of a list such as `choices` also what its first item has.

    Example:
        >>> [leaf.path for leaf in leaves({"choices": [{"text": "Paris"}]})]
        ['$.choices', '$.choices[0].text']
    """
    if len(keys) > _DEEPEST:
        return
    if is_object(value):
        for key, inner in value.items():
            yield from leaves(inner, *keys, key)
    elif is_list(value):
        yield Leaf(keys, value)
        if value and keys and keys[-1] in _REPLIES:
            yield from leaves(value[0], *keys, 0)
    elif isinstance(value, str) and value.strip():
        yield Leaf(keys, value)


def utterances(candidates: Iterable[Leaf]) -> list[Leaf]:
    """The texts that may be a question or an answer: without names of models and ids, those in wrappers first."""
    texts = (leaf for leaf in candidates if isinstance(leaf.value, str) and not _NOT_SAID.fullmatch(leaf.name))
    return sorted(texts, key=lambda leaf: not leaf.is_wrapped)


def written_path(keys: Sequence[str | int]) -> str:
    """The JSONPath of keys and indexes."""
    parts = (
        f"[{key}]"
        if isinstance(key, int)
        else f".{key}"
        if _SIMPLE.fullmatch(key)
        else f"[{json.dumps(key, ensure_ascii=False)}]"
        for key in keys
    )
    return f"${''.join(parts)}"
