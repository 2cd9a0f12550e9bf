"""The kind `lexical`: how alike two texts are, letter by letter or word by word; no model is asked.

| measure | what it is | after |
|---|---|---|
| `levenshtein` | 1 - edits / letters of the longer text | Levenshtein, 1966; by rapidfuzz |
| `token_f1` | F1 of the words, without case, punctuation and articles | Rajpurkar et al., 2016 (SQuAD) |
| `rouge1`, `rouge2`, `rougeL` | F1 of words, of word pairs, of the longest common subsequence | Lin, 2004 |
| `bleu` | precision of 1 to 4 words in a row, with exponential smoothing | Papineni et al., 2002; by sacrebleu |
| `chrf`, `chrf++` | F2 of 1 to 6 letters in a row; `++` adds words and pairs of words | Popović, 2015; by sacrebleu |
| `meteor` | F of aligned words, mostly recall, less a penalty for another order | Lavie and Agarwal, 2007; by nltk |

ROUGE and METEOR split words like Google's rouge_score without stemming, but accept letters of any script. In scripts
without spaces between words, such as Chinese, Japanese or Thai, each character is a word.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from evalflow.config.schema import Word
from evalflow.errors import Problem, UserError
from evalflow.extras import install_command, pip_install
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, scored
from evalflow.metrics.references import references_at, which
from evalflow.prompts import Prompts
from evalflow.records import Outcome
from evalflow.values.jsonvalues import look_up, written
from evalflow.values.segments import WITHOUT_SPACES, characters, spaced, without_ends, words

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as CorpusMetric

Measure = Literal["levenshtein", "token_f1", "rouge1", "rouge2", "rougeL", "bleu", "chrf", "chrf++", "meteor"]
LONGEST = 200_000
"""Maximum letters of a text: the work grows with the product of both lengths."""
_WORD = re.compile(r"[^\W_]+")
_ANY_MEASURE = ("auto", "words", "characters")
_BLEU = {"auto": "13a", "words": "13a", "characters": "char"}
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
Words = Callable[[str], list[str]]
Likeness = tuple[float, str]
"""A score in 0..1, and what it was computed from."""


class LexicalMetricConfig(UnitMetricConfig):
    """Two texts and a measure.

    Attributes:
        measure: How they are compared; `show lexical` and docs/metrics.md say what each computes.
        field: The text: a case field, or a dotted path into metadata or vars.
        against: The reference, likewise. A list of texts is several references, of which the best counts (bleu: all
            together).
        lowercase: Whether to ignore case; token_f1, rouge and meteor always do.
        tokenize: What counts as a word. auto: text between white space and punctuation, and each character of a script
            without spaces; words: the former only; characters: each character. bleu accepts sacrebleu's names too;
            `ja-mecab` and `ko-mecab` need additional packages.
        synonyms: Whether meteor also aligns English synonyms, by the WordNet in nltk's data folder.
    """

    kind: Literal["lexical"]  # pyright: ignore[reportIncompatibleVariableOverride]
    measure: Measure
    field: Word = "answer"
    against: Word = "reference"
    lowercase: bool = False
    tokenize: Literal["auto", "words", "characters", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"] = (
        "auto"
    )
    synonyms: bool = False

    @model_validator(mode="after")
    def _of_the_measure(self) -> Self:
        if self.synonyms and self.measure != "meteor":
            raise ValueError(f"`synonyms` is for meteor, but the measure is {self.measure}")
        if self.tokenize != "auto" and self.measure in ("levenshtein", "chrf"):
            raise ValueError(f"`tokenize` is for measures of words, but {self.measure} compares letters")
        if self.tokenize not in _ANY_MEASURE and self.measure != "bleu":
            raise ValueError(f"tokenize: {self.tokenize} is for bleu; {self.measure} accepts {', '.join(_ANY_MEASURE)}")
        return self


class LexicalMetric(FieldMetric[LexicalMetricConfig]):
    """Compares a text with its references. Undefined if no reference has words to compare with."""

    Config = LexicalMetricConfig
    names_fields = ("field", "against")

    def __init__(self, name: str, config: LexicalMetricConfig) -> None:
        super().__init__(name, config)
        self._compare = _measure(config)
        if config.tokenize in ("words", "13a", "intl", "none"):
            self.unknown_scripts = WITHOUT_SPACES

    @classmethod
    def build(cls, name: str, config: LexicalMetricConfig, prompts: Prompts) -> Self:
        try:
            return super().build(name, config, prompts)
        except ModuleNotFoundError as error:
            package = str(error.name).split(".")[0]
            what = f"the measure {config.measure} needs the package {package}, which is not installed"
            raise UserError(Problem(what, f"metric.{name}.measure", install_command("lexical"))) from None
        except LookupError:
            hint = "python -m nltk.downloader wordnet, or synonyms: false"
            raise UserError(Problem("nltk does not find WordNet", f"metric.{name}.synonyms", hint)) from None
        except RuntimeError:  # of sacrebleu, without the packages of a language
            what = f"tokenize: {config.tokenize} needs packages that are not installed"
            hint = pip_install(f"sacrebleu[{config.tokenize[:2]}]")
            raise UserError(Problem(what, f"metric.{name}.tokenize", hint)) from None

    async def compare(self, fields: dict[str, object]) -> Outcome:
        references = [written(one) for one in references_at(self.config.against, fields)]
        text = written(look_up(self.config.field, fields))
        longest = max(map(len, [text, *references]), default=0)
        if longest > LONGEST:
            raise ValueError(f"a text has {longest:,} characters; at most {LONGEST:,} are compared")
        if self.config.lowercase:
            text, references = text.lower(), [one.lower() for one in references]
        comparable = list(dict.fromkeys(one for one in references if one.strip()))
        likeness = self._compare(text, comparable) if comparable else None
        if likeness is None:
            return Outcome(status="undefined", reason=f"the {self.config.against} has no words to compare with")
        score, about = likeness
        return scored(score, score, f"{self.config.measure} {score:.3f}: {about}")


def _measure(config: LexicalMetricConfig) -> Callable[[str, Sequence[str]], Likeness | None]:
    """The measure as a function of text and references. It returns None if no reference has words."""
    name, words_of = config.measure, _words_of(config)
    if name == "levenshtein":
        return _best(_levenshtein())
    if name == "token_f1":
        return _best(lambda text, other: _shared(words_of(text), words_of(other)))
    if name == "rougeL":
        return _best(_rouge_l(words_of))
    if name in ("rouge1", "rouge2"):
        size = int(name[-1])
        return _best(lambda text, other: _shared(_in_a_row(words_of(text), size), _in_a_row(words_of(other), size)))
    if name == "meteor":
        return _best(_meteor(words_of, synonyms=config.synonyms))
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if name == "bleu":
        return _by_corpus(
            BLEU(tokenize=_BLEU.get(config.tokenize, config.tokenize), effective_order=True), _parted(config)
        )
    return _by_corpus(CHRF(word_order=2 if name == "chrf++" else 0), _parted(config))


def _words_of(config: LexicalMetricConfig) -> Words:
    """The function that splits a text into lower-case words; for token_f1 by SQuAD's rules."""
    squad = config.measure == "token_f1"
    match config.tokenize:
        case "words":
            return _squad_words if squad else lambda text: _WORD.findall(text.lower())
        case "characters":
            return lambda text: [one for word in _of_any_script(text, squad=squad) for one in characters(word)]
        case _:
            return lambda text: _of_any_script(text, squad=squad)


def _of_any_script(text: str, *, squad: bool) -> list[str]:
    if squad:
        return _squad_words(spaced(without_ends(text), keep_punctuation=False))
    return words(text.lower())


def _parted(config: LexicalMetricConfig) -> Callable[[str], str]:
    """The function that prepares a text for sacrebleu, which splits at white space and punctuation."""
    if config.tokenize == "auto":
        return spaced
    if config.tokenize == "characters" and config.measure == "chrf++":
        return lambda text: " ".join(characters(text))
    return str


def _best(compare: Callable[[str, str], Likeness | None]) -> Callable[[str, Sequence[str]], Likeness | None]:
    def best(text: str, references: Sequence[str]) -> Likeness | None:
        likenesses = [
            (one, place) for place, other in enumerate(references) if (one := compare(text, other)) is not None
        ]
        if not likenesses:
            return None
        (score, about), place = max(likenesses, key=lambda one: one[0][0])
        return score, "; ".join(part for part in (about, which(place, references)) if part)

    return best


def _by_corpus(measure: CorpusMetric, parted: Callable[[str], str]) -> Callable[[str, Sequence[str]], Likeness]:
    def compare(text: str, references: Sequence[str]) -> Likeness:
        result = measure.sentence_score(parted(text), list(map(parted, references)))
        about = " ".join(result.format(signature=str(measure.get_signature())).split())
        many = f"; {len(references)} references" if len(references) > 1 else ""
        return min(1.0, result.score / 100), about + many

    return compare


def _levenshtein() -> Callable[[str, str], Likeness]:
    from rapidfuzz.distance import Levenshtein

    def compare(text: str, other: str) -> Likeness:
        edits, longer = Levenshtein.distance(text, other), max(len(text), len(other))
        return 1 - edits / longer, f"{edits:,} edits in {longer:,} characters"

    return compare


def _rouge_l(words_of: Words) -> Callable[[str, str], Likeness | None]:
    from rapidfuzz.distance import LCSseq

    def compare(text: str, other: str) -> Likeness | None:
        given, wanted = words_of(text), words_of(other)
        return _f1(LCSseq.similarity(given, wanted), len(given), len(wanted)) if wanted else None

    return compare


class _NoSynonyms:
    def synsets(self, word: str) -> Sequence[object]:
        return ()


def _meteor(words_of: Words, *, synonyms: bool) -> Callable[[str, str], Likeness | None]:
    """The METEOR score as a function; LookupError if synonyms are wanted but WordNet is missing."""
    from nltk.corpus import wordnet  # pyright: ignore[reportMissingTypeStubs]
    from nltk.translate.meteor_score import single_meteor_score  # pyright: ignore[reportMissingTypeStubs]

    if synonyms:
        wordnet.ensure_loaded()
    known: Any = wordnet if synonyms else _NoSynonyms()

    def compare(text: str, other: str) -> Likeness | None:
        given, wanted = words_of(text), words_of(other)
        about = f"words: {len(given):,} in the text, {len(wanted):,} in the reference"
        return (single_meteor_score(wanted, given, wordnet=known), about) if wanted else None

    return compare


def _shared(given: Sequence[object], wanted: Sequence[object]) -> Likeness | None:
    """The F1 of two bags of words; None if the reference's is empty."""
    return _f1((Counter(given) & Counter(wanted)).total(), len(given), len(wanted)) if wanted else None


def _f1(shared: int, given: int, wanted: int) -> Likeness:
    about = f"{shared:,} shared of {given:,} in the text and {wanted:,} in the reference"
    return 2 * shared / (given + wanted), about


def _in_a_row(tokens: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


def _squad_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()
