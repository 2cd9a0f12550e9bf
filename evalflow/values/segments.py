"""Words, characters, sentences and scripts of a text, by the properties that Unicode gives to characters.

Some scripts put no spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese and a few more. In these each
character, as a reader sees it (a grapheme cluster), stands for a word. Texts in other scripts have the words that they
have without this module.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regex import Pattern


def listed(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


_CLASSES = {
    "E": r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}ーｰ]&&[\p{L}\p{M}\p{N}]]",  # East Asian
    "A": r"[\p{Line_Break=SA}&&[\p{L}\p{M}\p{N}]]",  # South East Asian
    # Punctuation of East Asian texts, which stands without spaces too.
    "P": r"[\p{P}&&[\u3000-\u303F\uFE30-\uFE4F\uFF00-\uFF65]]",
    "END": r"[\p{Sentence_Terminal}--[\p{ASCII}]]",
    "CLOSE": r"""["'”’)\]」』）》】〉»]""",
}
_PLAIN_WORD = re.compile(r"[^\W_]+")
_PLAIN_NUMBER = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+")
_ASCII_END = re.compile(r"""(?<![.!?])[.!?]++["'”’)\]]*+(?=\s)""")
_END = (
    r"(?<![.!?])(?<![0-9０-９](?=．))[.!?]*+<END>[.!?<END>]*<CLOSE>*"  # of other scripts, regardless of what follows
    r"""|(?<![.!?])[.!?]++["'”’)\]]*+(?=\s)"""
    r"|(?:(?<![!?])[!?]++|(?<=<E>)\.)<CLOSE>*+(?=<E>)"
)
ABBREVIATIONS = listed(
    """
    mr mrs ms dr prof sr jr st vs inc ltd co corp vol fig approx dept est gen gov sen rep capt col lt sgt mt al cf
    e.g i.e u.s u.k a.m p.m jan feb mar apr jun jul aug sep sept oct nov dec
    """
)
_LIST_MARKER = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.)])\s+")
_LETTER = re.compile(r"[^\W_]")
_SAMPLE = 2000  # characters of a text by which its script is found
_BEYOND_LATIN = re.compile("[\u0370-\u1dff\u2c00-\ua71f\ua800-\ud7ff\uf900-\ufaff\ufb1d-\uffef\U00010000-\U0003ffff]")
_LANGUAGES = {
    "CJK": "Chinese",
    "BOPOMOFO": "Chinese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "MYANMAR": "Burmese",
    "FULLWIDTH": "Latin",
    "HALFWIDTH": "Japanese",
}
"""Language names, by the first word of a character's Unicode name, where they are better known than the script's."""
WITHOUT_SPACES = frozenset({"Chinese", "Japanese", "Thai", "Lao", "Khmer", "Burmese"})
"""The names that `script_of` gives to texts without spaces between words."""


@cache
def _pattern(form: str) -> Pattern[str]:
    import regex

    for name, characters in _CLASSES.items():
        form = form.replace(f"<{name}>", characters)
    return regex.compile(form, regex.VERSION1)


_JOINER = r"[\u200c\u200d](?=[\p{L}\p{N}])"  # inside of a word, as in Persian
_WORD = rf"(?=[<E><A>])\X|[[\p{{L}}\p{{N}}]--[<E><A>]](?:[[\p{{L}}\p{{N}}\p{{M}}]--[<E><A>]]|{_JOINER})*"


def words(text: str, *, decimals: bool = False) -> list[str]:
    """Letters and digits in a row, with their marks; of a script without spaces each character.

    With `decimals`, 3.5 and 1,000 are one word each.
    """
    text = unicodedata.normalize("NFC", text)
    if is_plain(text):
        return (_PLAIN_NUMBER if decimals else _PLAIN_WORD).findall(text)
    return _pattern(rf"\d+(?:[.,]\d+)+|{_WORD}" if decimals else _WORD).findall(text)


def is_plain(text: str) -> bool:
    """Whether it has neither marks that belong to a letter nor letters of scripts without spaces."""
    return text.isascii() or _pattern(r"[\p{M}\u200c\u200d<E><A>]").search(text) is None


def characters(text: str) -> list[str]:
    """The characters as a reader sees them, without white space."""
    if text.isascii():
        return [one for one in text if not one.isspace()]
    return [one for one in _pattern(r"\X").findall(text) if not one.isspace()]


def is_unspaced(text: str) -> bool:
    """Whether some of it is in a script without spaces between words."""
    return not text.isascii() and _pattern("[<E><A>]").search(text) is not None


def spaced(text: str, *, keep_punctuation: bool = True) -> str:
    """The text with spaces around each character of scripts without them, and around East Asian punctuation."""
    if not is_unspaced(text):
        return text
    text = _pattern("<P>").sub(r" \g<0> " if keep_punctuation else " ", text)
    return _pattern(r"(?=[<E><A>])\X").sub(r" \g<0> ", text)


def word_count(text: str) -> int:
    """How many words stand between white space; in a script without spaces each character is one."""
    return len(spaced(text, keep_punctuation=False).split())


def without_ends(text: str) -> str:
    """The text without the signs beyond ASCII that end a sentence or a clause, such as the Danda."""
    return text if text.isascii() else _pattern(r"[\p{Terminal_Punctuation}--[\p{ASCII}]]").sub(" ", text)


def sentence_ends(text: str) -> Iterator[re.Match[str]]:
    """Where sentences may end: signs such as . ! ? 。 ؟ । with what closes after them.

    Signs of ASCII end one before white space only, or within Chinese and Japanese.
    """
    pattern = _ASCII_END if text.isascii() else _pattern(_END)
    return pattern.finditer(text)  # pyright: ignore[reportReturnType] - both have the same kind of matches


def ends_in_asian(text: str) -> bool:
    """Whether the last character is of a South East Asian script, in which a full stop marks an abbreviation."""
    return not text[-1:].isascii() and _pattern("<A>").match(text[-1]) is not None


def script_of(text: str) -> str | None:
    """The script of most of a text, or its language where only one is written so; None without letters."""
    sample = text[:_SAMPLE]
    if not _BEYOND_LATIN.search(sample):
        return "Latin" if any(map(str.isalpha, sample)) else None
    counts = Counter(_script(one) for one in sample if one.isalpha())
    if counts["Japanese"] and counts["Chinese"]:  # kana stand beside characters that Chinese has too
        counts["Japanese"] += counts.pop("Chinese")
    return max(counts, key=counts.__getitem__, default=None)


@lru_cache(maxsize=20_000)
def _script(letter: str) -> str:
    word = unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]
    return _LANGUAGES.get(word, word.capitalize())


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, in order; line ends always end one. Parts without letters and digits are left out."""
    parts: list[str] = []
    for line in text.splitlines():
        body = _LIST_MARKER.sub("", line)
        start = 0
        for end in sentence_ends(body):
            if _ends_sentence(body[start : end.start()], end[0], body[end.end() :]):
                parts.append(body[start : end.end()])
                start = end.end()
        parts.append(body[start:])
    return tuple(sentence.strip() for sentence in parts if _LETTER.search(sentence))


def _ends_sentence(before: str, mark: str, after: str) -> bool:
    # In tokenised text (" . ") a full stop stands alone; within Chinese and Japanese nothing follows it.
    if mark != "." or before.endswith(" ") or not after[:1].isspace():
        return True
    if ends_in_asian(before):
        return False
    last = before.split()[-1].lower().lstrip("(\"'“") if before.strip() else ""
    if last in ABBREVIATIONS or (len(last) == 1 and last.isalpha()):
        return False
    return not after.lstrip()[:1].islower()
