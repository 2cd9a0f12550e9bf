"""The kind `lexical`: how alike two texts are, letter by letter or word by word; no model is asked.

| measure | what it is | after |
|---|---|---|
| `levenshtein` | 1 - edits / letters of the longer text | Levenshtein, 1966; by rapidfuzz |
| `token_f1` | F1 of the words, without case, punctuation and articles | Rajpurkar et al., 2016 (SQuAD) |
| `rouge1`, `rouge2`, `rougeL` | F1 of words, of pairs of words, and by the longest common sequence | Lin, 2004 |
| `bleu` | precision of 1 to 4 words in a row, with exponential smoothing | Papineni et al., 2002; by sacrebleu |
| `chrf`, `chrf++` | F2 of 1 to 6 letters in a row; `++` adds words and pairs of words | Popović, 2015; by sacrebleu |
| `meteor` | F of aligned words, mostly recall, less a penalty for another order | Lavie and Agarwal, 2007; by nltk |

Words of ROUGE and METEOR are those of Google's rouge_score without stemming, and letters of any script belong to words
here.
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
from evalflow.extras import install_command
from evalflow.jsonvalues import look_up, written
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, scored
from evalflow.metrics.references import references_at, which
from evalflow.prompts import Prompts
from evalflow.records import Outcome

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as CorpusMetric

Measure = Literal["levenshtein", "token_f1", "rouge1", "rouge2", "rougeL", "bleu", "chrf", "chrf++", "meteor"]
LONGEST = 200_000
"""Letters of the longest text that is compared: the work grows with the product of both lengths."""
_WORD = re.compile(r"[^\W_]+")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
Likeness = tuple[float, str]
"""A score in 0..1, and what it was computed from."""


class LexicalMetricConfig(UnitMetricConfig):
    """Two texts and a measure.

    Attributes:
        measure: How they are compared; `show lexical` and docs/metrics.md say what each computes.
        field: The text: a case field, or a dotted path into metadata or vars.
        against: The reference, likewise; a list of texts counts as several references, of which the best is taken
            (bleu: all together).
        lowercase: Whether to compare without case; token_f1, rouge and meteor never mind it.
        tokenize: How bleu finds words: by sacrebleu's names; `zh` and `char` for texts without spaces.
        synonyms: Whether meteor aligns English synonyms too, beside equal words and stems, by the WordNet in nltk's
            folder of data.
    """

    kind: Literal["lexical"]  # pyright: ignore[reportIncompatibleVariableOverride]
    measure: Measure
    field: Word = "answer"
    against: Word = "reference"
    lowercase: bool = False
    tokenize: Literal["13a", "intl", "char", "zh", "none"] = "13a"
    synonyms: bool = False

    @model_validator(mode="after")
    def _of_the_measure(self) -> Self:
        for key, measure in (("tokenize", "bleu"), ("synonyms", "meteor")):
            if getattr(self, key) != type(self).model_fields[key].default and self.measure != measure:
                raise ValueError(f"`{key}` is for {measure}, and the measure is {self.measure}")
        return self


class LexicalMetric(FieldMetric[LexicalMetricConfig]):
    """Compares a text with its references. Undefined where no reference holds anything to compare with."""

    Config = LexicalMetricConfig
    names_fields = ("field", "against")

    def __init__(self, name: str, config: LexicalMetricConfig) -> None:
        super().__init__(name, config)
        self._compare = _measure(config)

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
            raise UserError(Problem("nltk finds no WordNet here", f"metric.{name}.synonyms", hint)) from None

    async def compare(self, fields: dict[str, Any]) -> Outcome:
        references = [written(one) for one in references_at(self.config.against, fields)]
        text = written(look_up(self.config.field, fields))
        longest = max(map(len, [text, *references]), default=0)
        if longest > LONGEST:
            raise ValueError(f"a text has {longest:,} characters; at most {LONGEST:,} are compared")
        if self.config.lowercase:
            text, references = text.lower(), [one.lower() for one in references]
        comparable = list(dict.fromkeys(one for one in references if one.strip()))
        found = self._compare(text, comparable) if comparable else None
        if found is None:
            return Outcome(status="undefined", reason=f"the {self.config.against} has no words to compare with")
        score, about = found
        return scored(score, score, f"{self.config.measure} {score:.3f}: {about}")


def _measure(config: LexicalMetricConfig) -> Callable[[str, Sequence[str]], Likeness | None]:
    """The function of a measure: from a text and its references; None if no reference can be compared with."""
    name = config.measure
    if name == "levenshtein":
        return _best(_levenshtein())
    if name == "token_f1":
        return _best(lambda text, other: _shared(_squad_words(text), _squad_words(other)))
    if name == "rougeL":
        return _best(_rouge_l())
    if name in ("rouge1", "rouge2"):
        size = int(name[-1])
        return _best(lambda text, other: _shared(_in_a_row(_words(text), size), _in_a_row(_words(other), size)))
    if name == "meteor":
        return _best(_meteor(synonyms=config.synonyms))
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if name == "bleu":
        return _by_corpus(BLEU(tokenize=config.tokenize, effective_order=True))
    return _by_corpus(CHRF(word_order=2 if name == "chrf++" else 0))


def _best(compare: Callable[[str, str], Likeness | None]) -> Callable[[str, Sequence[str]], Likeness | None]:
    def best(text: str, references: Sequence[str]) -> Likeness | None:
        found = [(one, place) for place, other in enumerate(references) if (one := compare(text, other)) is not None]
        if not found:
            return None
        (score, about), place = max(found, key=lambda one: one[0][0])
        return score, "; ".join(part for part in (about, which(place, references)) if part)

    return best


def _by_corpus(measure: CorpusMetric) -> Callable[[str, Sequence[str]], Likeness]:
    def compare(text: str, references: Sequence[str]) -> Likeness:
        found = measure.sentence_score(text, references)
        about = " ".join(found.format(signature=str(measure.get_signature())).split())
        many = f"; {len(references)} references" if len(references) > 1 else ""
        return min(1.0, found.score / 100), about + many

    return compare


def _levenshtein() -> Callable[[str, str], Likeness]:
    from rapidfuzz.distance import Levenshtein

    def compare(text: str, other: str) -> Likeness:
        edits, longer = Levenshtein.distance(text, other), max(len(text), len(other))
        return 1 - edits / longer, f"{edits:,} edits in {longer:,} characters"

    return compare


def _rouge_l() -> Callable[[str, str], Likeness | None]:
    from rapidfuzz.distance import LCSseq

    def compare(text: str, other: str) -> Likeness | None:
        said, wanted = _words(text), _words(other)
        return _f1(LCSseq.similarity(said, wanted), len(said), len(wanted)) if wanted else None

    return compare


class _NoSynonyms:
    """A WordNet that knows no word."""

    def synsets(self, word: str) -> Sequence[Any]:
        return ()


def _meteor(*, synonyms: bool) -> Callable[[str, str], Likeness | None]:
    """LookupError if synonyms are wanted and WordNet is not there."""
    from nltk.corpus import wordnet  # pyright: ignore[reportMissingTypeStubs]
    from nltk.translate.meteor_score import single_meteor_score  # pyright: ignore[reportMissingTypeStubs]

    if synonyms:
        wordnet.ensure_loaded()
    known: Any = wordnet if synonyms else _NoSynonyms()

    def compare(text: str, other: str) -> Likeness | None:
        said, wanted = _words(text), _words(other)
        about = f"words: {len(said):,} in the text, {len(wanted):,} in the reference"
        return (single_meteor_score(wanted, said, wordnet=known), about) if wanted else None

    return compare


def _shared(said: Sequence[Any], wanted: Sequence[Any]) -> Likeness | None:
    """The F1 of two bags; None if nothing is wanted."""
    return _f1((Counter(said) & Counter(wanted)).total(), len(said), len(wanted)) if wanted else None


def _f1(shared: int, said: int, wanted: int) -> Likeness:
    about = f"{shared:,} shared of {said:,} in the text and {wanted:,} in the reference"
    return 2 * shared / (said + wanted), about


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _in_a_row(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]


def _squad_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()
