"""How far a context supports a claim, by the words they share: no model, no training, no fitted weights.

A claim is held against every window of three consecutive sentences of the context; the window that shares most with it
is the evidence. Three precisions are taken between the claim and that window, each in 0..1:

    words      share of the claim's content words that the window contains
    bigrams    share of the claim's pairs of neighbouring words that the window contains
    sequence   longest common subsequence over the claim's length (ROUGE-L precision; Lin, 2004)

Their mean is the lexical support. With sentence embeddings a fourth number joins with equal weight: the largest cosine
between the claim and a sentence of the window.

English only. Words cannot show a swapped name, a negation or a changed relation: all of them keep nearly every word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from evalflow.llm.text import Word, sentences, words

WINDOW = 3
Similarity = Callable[[str, Sequence[str]], float]
"""Largest cosine between a text and some others, negative values as 0."""


class Overlap(NamedTuple):
    """What a claim shares with a window, each 0..1."""

    words: float
    bigrams: float
    sequence: float

    @property
    def mean(self) -> float:
        """The lexical support."""
        return sum(self) / len(self)


@dataclass(frozen=True, slots=True)
class Evidence:
    """How far a context supports a claim, and by what.

    Attributes:
        support: 0..1.
        passage: The sentences that support it best, as written; empty where the context is.
        unseen: The claim's content words and numbers that the passage lacks, as written.
        overlap: The lexical parts of the support.
        similarity: The largest cosine to a sentence of the passage, or None where it was not measured.
    """

    support: float
    passage: str
    unseen: tuple[str, ...]
    overlap: Overlap
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive sentences of one context, prepared for comparison."""

    sentences: tuple[str, ...]
    stems: tuple[str, ...]
    vocabulary: frozenset[str]
    bigrams: frozenset[tuple[str, str]]


def windows(texts: Iterable[str]) -> tuple[Window, ...]:
    """Every run of three sentences of every text; a shorter text is one window."""
    return tuple(window for text in texts for window in _windows_of(sentences(text)))


def weigh(claim: str, context: Sequence[Window], similarity: Similarity | None = None) -> Evidence:
    """Hold a claim against a context.

    Args:
        claim: One statement, best a single sentence.
        context: What it is held against, from `windows`.
        similarity: Adds sentence similarity; None leaves the lexical part alone.
    """
    said = words(claim)
    content = tuple(word for word in said if word.is_content) or said
    if not said or not context:
        return Evidence(0.0, "", tuple(word.surface for word in content), Overlap(0.0, 0.0, 0.0))
    stems = tuple(word.stem for word in said)
    overlaps = [_overlap(stems, content, window) for window in context]
    best = max(range(len(context)), key=lambda index: overlaps[index].mean)
    window, overlap = context[best], overlaps[best]
    parts = [*overlap]
    cosine = None
    if similarity is not None:
        cosine = similarity(claim, window.sentences)
        parts.append(cosine)
    return Evidence(
        support=sum(parts) / len(parts),
        passage=" ".join(window.sentences),
        unseen=tuple(dict.fromkeys(word.surface for word in content if word.stem not in window.vocabulary)),
        overlap=overlap,
        similarity=cosine,
    )


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, bit-parallel (Hyyrö, 2004).

    Each bit of `row` stands for a word of `first`; it is cleared where a longer common subsequence ends there.
    """
    positions: defaultdict[str, int] = defaultdict(int)
    for index, word in enumerate(first):
        positions[word] |= 1 << index
    full = (1 << len(first)) - 1
    row = full
    for word in second:
        matches = row & positions.get(word, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(first) - row.bit_count()


def _windows_of(lines: Sequence[str]) -> Iterable[Window]:
    stems = [tuple(word.stem for word in words(line)) for line in lines]
    for start in range(max(1, len(lines) - WINDOW + 1) if lines else 0):
        flat = tuple(stem for line in stems[start : start + WINDOW] for stem in line)
        yield Window(tuple(lines[start : start + WINDOW]), flat, frozenset(flat), frozenset(pairwise(flat)))


def _overlap(stems: Sequence[str], content: Sequence[Word], window: Window) -> Overlap:
    found = sum(word.stem in window.vocabulary for word in content) / len(content)
    pairs = list(pairwise(stems))
    # One word has no neighbours: whether it is there at all is all that can be asked.
    bigrams = sum(pair in window.bigrams for pair in pairs) / len(pairs) if pairs else found
    return Overlap(found, bigrams, longest_common_subsequence(stems, window.stems) / len(stems))
