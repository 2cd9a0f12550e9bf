"""The kind `number`: a number of the answer itself, such as its latency, its cost, its length or its readability.

The readability indices need no dictionary. They work for languages written with spaces and are undefined for others;
they were designed for English (`ari`: Smith and Senter, 1967; `coleman_liau`: Coleman and Liau, 1975) and Swedish
(`lix`: Björnsson, 1968).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from evalflow.config.schema import MetricConfig, Word
from evalflow.metrics.base import FieldMetric, scored
from evalflow.metrics.operations import counted, spelled_number
from evalflow.records import Outcome
from evalflow.values.jsonvalues import kind, look_up, written
from evalflow.values.segments import WITHOUT_SPACES, is_plain, script_of, sentences, words

_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_LONG = 6  # for lix a word is long if it has more letters


class NumberMetricConfig(MetricConfig):
    """A case field, and what is measured in it.

    Attributes:
        field: A case field, or a dotted path into one, such as latency_s, cost_usd or metadata.tokens.
        unit: `value`: the field is the number. `characters`, `words`, `lines` or `items`: how many it has.
            `words_per_sentence`, and the readability indices: `ari` and `coleman_liau` estimate the American school
            year that can read the text; `lix` is below 30 for very easy and above 60 for very hard texts.
        tokenize: What `unit: words` counts. auto: text between white space, and each character of a script without
            spaces, such as Chinese or Thai; words: text between white space, in any script.
    """

    kind: Literal["number"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word
    unit: Literal[
        "value", "characters", "words", "lines", "items", "words_per_sentence", "ari", "coleman_liau", "lix"
    ] = "value"
    tokenize: Literal["auto", "words"] = "auto"


class NumberMetric(FieldMetric[NumberMetricConfig]):
    """The score is the number itself, not in 0..1; the metric's threshold has the same unit."""

    Config = NumberMetricConfig
    names_fields = ("field",)
    bounded = False
    measures = True

    async def compare(self, fields: dict[str, object]) -> Outcome:
        value = look_up(self.config.field, fields)
        if self.config.unit == "value":
            number = spelled_number(value)
            if number is None:
                raise ValueError(f"the {self.config.field} is not a number: it is {kind(value)}")
            return scored(number, number, f"the {self.config.field} is {number:g}")
        if self.config.unit in _READING:
            read = _Read(written(value))
            if not read.words:
                return Outcome(status="undefined", reason=f"the {self.config.field} has no words")
            if self.config.unit in _OF_WORDS and (script := script_of(written(value))) in WITHOUT_SPACES:
                reason = f"{self.config.unit} counts letters of words, but {script} has no spaces between words"
                return Outcome(status="undefined", reason=reason)
            number = _READING[self.config.unit](read)
            reason = f"{number:.2f}: {read.words:,} words, {read.sentences:,} sentences, {read.letters:,} letters"
            return scored(number, number, reason)
        spaces_only = self.config.tokenize == "words" and self.config.unit == "words"
        number = len(written(value).split()) if spaces_only else counted(self.config.unit, value)
        if number is None:
            raise ValueError(f"the {self.config.field} is not a list: it is {kind(value)}")
        unit = self.config.unit.removesuffix("s") if number == 1 else self.config.unit
        return scored(float(number), number, f"the {self.config.field} has {number:,} {unit}")


class _Read:
    def __init__(self, text: str) -> None:
        tokens = _WORD.findall(text) if is_plain(text) else words(text)
        self.words = len(tokens)
        self.letters = sum(sum(map(str.isalnum, word)) for word in tokens)  # combining marks belong to their letters
        self.long_words = sum(len(word) > _LONG for word in tokens)
        self.sentences = max(1, sum(bool(_WORD.search(one)) for one in sentences(text)))


_OF_WORDS = ("ari", "coleman_liau", "lix")
_READING: Mapping[str, Callable[[_Read], float]] = {
    "words_per_sentence": lambda t: t.words / t.sentences,
    "ari": lambda t: 4.71 * t.letters / t.words + 0.5 * t.words / t.sentences - 21.43,
    "coleman_liau": lambda t: 5.88 * t.letters / t.words - 29.6 * t.sentences / t.words - 15.8,
    "lix": lambda t: t.words / t.sentences + 100 * t.long_words / t.words,
}
