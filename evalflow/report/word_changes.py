"""The differences between two texts, word by word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

# A word or a sign with the space before it; in scripts without spaces, each character.
_WORD = re.compile(r"\s*(?:[\u3040-\u30ff\u3400-\u9fff]|(?:(?![\u3040-\u30ff\u3400-\u9fff])\w)+|[^\w\s])|\s+$")
_LARGEST = 4_000_000
"""Maximum pairs of words to compare word by word.

Longer texts are only compared at both ends; all between is marked.
"""

_AROUND = 80  # characters shown at each end of an unchanged stretch
_LEFT_OUT = " […] "


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text, and whether the other text lacks it."""

    content: str
    is_changed: bool


def word_changes(before: str, after: str) -> tuple[Sequence[Stretch], Sequence[Stretch]]:
    """Both texts in stretches; differences in spaces are ignored."""
    words = [_WORD.findall(content) for content in (before, after)]
    a, b = ([word.strip() for word in one] for one in words)
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle = (a[start : len(a) - end], b[start : len(b) - end])
    same = ([True] * start, [True] * start)
    if len(middle[0]) * len(middle[1]) > _LARGEST:
        blocks = []
    else:
        blocks = SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks()
    for side in (0, 1):
        kept = [False] * len(middle[side])
        for block in blocks:
            first = block[side]
            kept[first : first + block.size] = [True] * block.size
        same[side].extend(kept + [True] * end)
    return _stretches(words[0], same[0]), _stretches(words[1], same[1])


def shortened(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The stretches, with the middle of long unchanged ones left out."""
    return [one if one.is_changed else replace(one, content=_without_middle(one.content)) for one in stretches]


def _without_middle(text: str) -> str:
    if len(text) <= 2 * _AROUND + len(_LEFT_OUT):
        return text
    return f"{text[:_AROUND]}{_LEFT_OUT}{text[-_AROUND:]}"


def _stretches(words: Sequence[str], same: Sequence[bool]) -> list[Stretch]:
    stretches: list[Stretch] = []
    for token, is_same in zip(words, same, strict=True):
        word = token
        if stretches and stretches[-1].is_changed != is_same:
            stretches[-1] = replace(stretches[-1], content=stretches[-1].content + word)
            continue
        if stretches and not stretches[-1].is_changed:  # the space between belongs to the common stretch
            space = word[: len(word) - len(word.lstrip())]
            stretches[-1] = replace(stretches[-1], content=stretches[-1].content + space)
            word = word.lstrip()
        if word:
            stretches.append(Stretch(word, not is_same))
    return stretches
