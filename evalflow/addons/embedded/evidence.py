"""Measures how far a context supports a claim, by shared words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from evalflow.values import segments
from evalflow.values.segments import listed, sentences

WINDOW = 3
Similarities = Callable[[Sequence[tuple[str, Sequence[str]]]], Sequence[float]]
"""Returns for each text the largest cosine between it and some others; negative values count as 0."""


# Function words. Speakers ("I", "you"), negations and quantifiers ("all", "few") are left out on purpose: they change
# what a sentence states, so a context has to contain them too.
FUNCTION_WORDS = listed(
    """
    a an the this that these those there it its he him his she her hers they them their theirs who whom whose which
    and or but if then than so as of at by for with about into to from in on
    is are was were be been being have has had having do does did doing
    will would shall should can could may might must
    """
)
# A sentence with only these words has nothing to compare.
INTERJECTIONS = listed(
    """
    yes yeah yep yup no nope ok okay sure well oh ah hm hmm hi hello hey thank thanks you please
    sorry wow lol haha right
    """
)
# Polite phrases, which also say nothing about the subject.
_COURTESY = re.compile(
    r"""(?:many\ )?thank(?:s|\ you)\b(?:\ (?:so|very)\ much)?\ for\ .*|(?:great|good)\ question
    |(?:i\ )?hope\ (?:this|that|it)\ (?:helps?|is\ helpful)\b.*
    |(?:i\ am|i['’]m|we\ are|we['’]re)\ (?:happy|glad|here)\ to\ (?:help|assist)\b.*|you['’]?(?:\ a)?re\ welcome
    |(?:please\ )?(?:let\ (?:me|us)\ know|feel\ free\ to\ (?:ask|reach\ out|contact))\b.*
    |(?:is\ there\ anything\ else|how\ (?:can|may)\ (?:i|we)\ (?:help|assist))\b.*
    |have\ a\ (?:nice|great|good|lovely)\ (?:day|evening|weekend|trip|visit|time)""",
    re.IGNORECASE | re.VERBOSE,
)
_NEGATION = re.compile(r"\s?n'[Tt]\b")
_CLITIC = re.compile(r"\s?'(?:s|re|ve|ll|d|m)\b", re.IGNORECASE)
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""))


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, and the stem used for comparison."""

    surface: str
    stem: str

    @property
    def is_content(self) -> bool:
        """Whether it is a content word, not a function word."""
        return self.surface.lower() not in FUNCTION_WORDS


def stem(word: str) -> str:
    """A lower-case word without its common English ending.

    Deliberately small: on labelled data a full stemmer ranked no better. It makes "emeralds" in a context match
        "emerald" in a claim.
    """
    if len(word) < 4 or not word.isalpha():
        return word
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us")):
            word = word.removesuffix(ending) + replacement
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def words(text: str) -> tuple[Word, ...]:
    """The words and numbers of a text, in order.

    "isn't" gives "is", "not" however it is spaced; possessive and contracted endings are dropped; thousands
    separators are ignored. In a script without spaces between words each character is one.
    """
    plain = _CLITIC.sub("", _NEGATION.sub(" not", text.replace("’", "'")))
    return tuple(Word(word, stem(word.lower().replace(",", ""))) for word in segments.words(plain, decimals=True))


def states_something(sentence: str) -> bool:
    """Whether a sentence is more than "yes", "thanks", "I hope this helps" and the like."""
    if _COURTESY.fullmatch(sentence.strip().rstrip(".!? ")):
        return False
    return any(word.surface.lower() not in INTERJECTIONS for word in words(sentence))


class Overlap(NamedTuple):
    """The overlap of a claim with a window; each part is 0..1."""

    words: float
    bigrams: float
    sequence: float

    @property
    def mean(self) -> float:
        return sum(self) / len(self)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The support of a claim by a context, and the supporting sentences, which lack the claim's words `unseen`."""

    support: float
    sentences: tuple[str, ...]
    unseen: tuple[str, ...]
    overlap: Overlap

    @property
    def passage(self) -> str:
        return " ".join(self.sentences)

    def with_similarity(self, cosine: float) -> Evidence:
        """Count the largest cosine to one of the sentences (0..1) as a fourth part of the support, of equal weight."""
        return replace(self, support=sum((*self.overlap, cosine)) / (len(self.overlap) + 1))


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive sentences of one context, prepared for comparison."""

    sentences: tuple[str, ...]
    stems: tuple[str, ...]
    vocabulary: frozenset[str]
    bigrams: frozenset[tuple[str, str]]


def windows(texts: Iterable[str]) -> tuple[Window, ...]:
    """Every run of three sentences of every text; a shorter text is one window."""
    windows: list[Window] = []
    for lines in map(sentences, texts):
        stems = [tuple(word.stem for word in words(line)) for line in lines]
        for start in range(max(1, len(lines) - WINDOW + 1) if lines else 0):
            flat = tuple(stem for line in stems[start : start + WINDOW] for stem in line)
            windows.append(Window(lines[start : start + WINDOW], flat, frozenset(flat), frozenset(pairwise(flat))))
    return tuple(windows)


def weigh(claim: str, context: Sequence[Window]) -> Evidence:
    """Measure how far a context supports a claim, by shared words."""
    own_words = words(claim)
    content = tuple(word for word in own_words if word.is_content) or own_words
    if not own_words or not context:
        return Evidence(0.0, (), tuple(word.surface for word in content), Overlap(0.0, 0.0, 0.0))
    stems = tuple(word.stem for word in own_words)
    overlaps = [_overlap(stems, content, window) for window in context]
    best = max(range(len(context)), key=lambda index: overlaps[index].mean)
    window, overlap = context[best], overlaps[best]
    return Evidence(
        support=overlap.mean,
        sentences=window.sentences,
        unseen=tuple(dict.fromkeys(word.surface for word in content if word.stem not in window.vocabulary)),
        overlap=overlap,
    )


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, bit-parallel (Hyyrö, 2004).

    Each bit of `row` is a word of `first`; it is cleared if a longer common subsequence ends there.
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


def _overlap(stems: Sequence[str], content: Sequence[Word], window: Window) -> Overlap:
    share = sum(word.stem in window.vocabulary for word in content) / len(content)
    pairs = list(pairwise(stems))
    # One word has no neighbours, so only its presence counts.
    bigrams = sum(pair in window.bigrams for pair in pairs) / len(pairs) if pairs else share
    return Overlap(share, bigrams, longest_common_subsequence(stems, window.stems) / len(stems))
