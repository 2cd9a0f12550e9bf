"""Compares the facts of a claim with its evidence: quantities, names, negation, quantifiers and opposites."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from evalflow.addons.embedded.evidence import FUNCTION_WORDS, Window, Word, listed, stem, words
from evalflow.addons.embedded.quantities import Quantity, quantities
from evalflow.addons.embedded.units import MONTHS, WEEKDAYS

# English, German, French, Spanish; one line each.
NEGATIONS = listed(
    """
    not no never none nobody nothing neither nor without cannot
    nicht kein keine keinen keinem keiner keines nie niemals niemand nichts ohne weder
    pas jamais aucun aucune rien sans ni
    nunca ningún ninguna ninguno nada nadie sin jamás tampoco
    """
)
QUANTIFIERS = {
    "only": listed(
        """
        only solely exclusively merely
        nur ausschließlich lediglich
        seulement uniquement
        solo sólo solamente únicamente
        """
    ),
    "all": listed(
        """
        all always everyone everybody everything
        alle allen alles immer stets sämtliche
        tous toutes toujours
        todos todas siempre
        """
    ),
}
OPPOSITES = tuple(
    (stem(one), stem(other))
    for pair in sorted(
        listed(
            """
            before:after more:less more:fewer least:most minimum:maximum above:below over:under increase:decrease
            higher:lower rise:fall include:exclude allowed:forbidden allowed:prohibited accept:reject first:last
            earlier:later early:late possible:impossible required:optional outside:inside better:worse best:worst
            positive:negative always:never
            vor:nach mehr:weniger mindestens:höchstens über:unter erlaubt:verboten früher:später
            avant:après plus:moins dessus:dessous autorisé:interdit
            antes:después más:menos mínimo:máximo permitido:prohibido
            """
        )
    )
    for one, other in (pair.split(":"), reversed(pair.split(":")))
)
_GERMAN = listed("der die das und ist nicht ein eine mit für von zu im den dem wird werden sich auf auch")
_CLAUSE = re.compile(r"[,;:.!?()]|\b(?:but|and|or|aber|und|oder|mais|et|ou|pero|y|o)\b", re.IGNORECASE)
# "No, it is open" answers a question; "no more than 5" and "not before 9" are bounds. None of these denies what
# follows.
_ASIDE = re.compile(
    r"""^\W*(?:no|non|nein|nope)\s?[,.!;:]|\bnot\ sure\b
    |\b(?:no|not|nicht|pas)\ (?:more|less|fewer|later|earlier|mehr|weniger|später|plus|moins|más|menos)
        \ (?:than|als|que|de)\b
    |\bnot\ (?:before|until|till|only|just|even|while)\b|\bnicht\ (?:vor|nur|einmal)\b
    |\bnon\ seulement\b|\bno\ (?:sólo|solo)\b""",
    re.IGNORECASE | re.VERBOSE,
)
# Words that exclude without a negation: "only with a ticket" supports "not without a ticket".
_EXCLUDING = listed(
    """
    only except unless free forbidden prohibited excluded exclude refuse refused fail failed unable impossible instead
    nur außer verboten ausgeschlossen frei statt
    seulement sauf interdit gratuit excepté
    solo sólo salvo excepto prohibido gratis
    """
)
_DOUBLE = listed("without ohne sans sin")
_TOKEN = re.compile(r"[^\W_]+(?:[.&'’-][^\W_]+)*")
_CODE = re.compile(r"(?=\D*\d)[^\W\d]\w*|\w*[a-zß-ÿ][A-ZÀ-Þ]\w*")
_ROW = re.compile(r"\b[A-ZÀ-Þ]\w+(?:[ -](?:of |the |and )*[A-ZÀ-Þ]\w+)+")
_CAPITALISED = re.compile(r"\b[A-ZÀ-Þ]\w+")
_SCOPE = 4  # content words that a negation reaches
_PREFIX = 5  # minimum common prefix, in letters, of a name and its derivations: Germany, German


class Statement:
    """One sentence and its facts, each extracted at first use."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words(text)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        return quantities(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(_names(self.text))

    @cached_property
    def negations(self) -> tuple[Negation, ...]:
        return tuple(_negations(_ASIDE.sub(" ", self.text)))

    @cached_property
    def denied(self) -> frozenset[str]:
        return frozenset(word.stem for negation in self.negations for word in negation.denied)

    def asserts(self, stem: str) -> bool:
        """Whether it has the word outside of a denial."""
        return stem in self.stems and stem not in self.denied

    def quantifier(self, kind: str) -> str | None:
        return next((word.surface for word in self.words if word.surface.lower() in QUANTIFIERS[kind]), None)


class Negation:
    """A negating word, and the content words after it that it denies."""

    def __init__(self, surface: str, denied: Sequence[Word]) -> None:
        self.surface = surface
        self.denied = denied


def _negations(text: str) -> Iterator[Negation]:
    for clause in _CLAUSE.split(text):
        clause_words = words(clause)
        places = [place for place, word in enumerate(clause_words) if word.surface.lower() in NEGATIONS]
        if len(places) == 2 and clause_words[places[1]].surface.lower() in _DOUBLE:  # "never without"
            continue
        for place in places:
            yield Negation(clause_words[place].surface, _content(clause_words[place + 1 :])[:_SCOPE])


def _content(sequence: Sequence[Word]) -> list[Word]:
    return [word for word in sequence if word.is_content and word.surface.lower() not in NEGATIONS]


def _names(text: str) -> Iterator[str]:
    """Names: capitalised words inside a sentence.

    In German, where nouns have capitals, only several in a row, and codes.
    """
    german = len({word.lower() for word in _TOKEN.findall(text)} & _GERMAN) >= 2
    row: list[str] = []
    end = 0
    opening = True
    for match in [*_TOKEN.finditer(text), None]:
        gap = text[end : match.start()] if match else "."
        if row and (not match or gap.strip() or not _is_name(match[0], opening=False)):
            if not german or len(row) > 1 or _is_code(row[0]):
                yield " ".join(row)
            row = []
        if match:
            opening = opening or bool(set(gap) & set('.!?:\n"“„»'))
            if _is_name(match[0], opening):
                row.append(match[0])
            opening, end = False, match.end()


def _is_name(word: str, opening: bool) -> bool:
    if _is_code(word):
        return True
    lower = word.lower()
    common = lower in FUNCTION_WORDS or word == "I" or word.startswith(("I'", "I’"))
    return word[0].isupper() and not opening and not common and lower.removesuffix("s") not in WEEKDAYS | MONTHS


def _is_code(word: str) -> bool:
    """E07, iPhone, NATO."""
    return bool(_CODE.fullmatch(word)) or (len(word) > 1 and word.isalpha() and word.isupper())


class FactCheck:
    """Checks claims against the facts of a context. Facts in the question need no evidence."""

    def __init__(self, context: Sequence[Window], question: str = "") -> None:
        self._context = context
        self._question = Statement(question)

    def differences(self, claim: str, passage: Sequence[str]) -> list[str]:
        """Return the claim's contradictions to the context. `passage` are the sentences closest to the claim."""
        if not passage:
            return []
        claimed, evidence = Statement(claim), [Statement(text) for text in passage]
        closest = max(evidence, key=lambda statement: len(statement.stems & claimed.stems))
        return [
            *self._quantities(claimed, evidence, closest),
            *self._names(claimed),
            *_denials(claimed, evidence, closest),
            *_quantifiers(claimed, evidence),
            *_opposites(claimed, evidence),
        ]

    @cached_property
    def _sentences(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for window in self._context for text in window.sentences))

    @cached_property
    def _amounts(self) -> list[tuple[Quantity, ...]]:
        return [quantities(text) for text in self._sentences]

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return self._question.stems.union(*(window.vocabulary for window in self._context))

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return frozenset(word[:_PREFIX] for word in self._vocabulary if len(word) >= _PREFIX)

    @cached_property
    def _initials(self) -> frozenset[str]:
        """United States: us."""
        rows = (_CAPITALISED.findall(row) for text in self._sentences for row in _ROW.findall(text))
        return frozenset("".join(word[0] for word in row if word.lower() not in FUNCTION_WORDS).lower() for row in rows)

    def _quantities(self, claimed: Statement, evidence: Sequence[Statement], closest: Statement) -> Iterator[str]:
        quantities = (*closest.quantities, *self._question.quantities)
        doubtful = [
            quantity for quantity in claimed.quantities if quantity.stated and not _agrees(quantity, quantities)
        ]
        # Rows of a table have similar words, so the row with all of the amounts is the relevant one.
        if (
            len(claimed.quantities) > 1
            and doubtful
            and any(all(_agrees(quantity, row) for quantity in claimed.quantities) for row in self._amounts)
        ):
            return
        near = [quantity for statement in evidence for quantity in statement.quantities]
        for quantity in doubtful:
            bare = not any(quantity.dimensions)  # any number would be a rival
            places = closest.quantities if bare or _agrees(quantity, near) else (*closest.quantities, *near)
            rival = next(
                (other for other in places if quantity.competes(other) and not _agrees(other, claimed.quantities)), None
            )
            if rival is not None:
                yield f"says {quantity.surface}, the context says {rival.surface}"
            elif not any(_agrees(quantity, row) for row in self._amounts):
                yield f"says {quantity.surface}, which is not in the context"

    def _names(self, claimed: Statement) -> Iterator[str]:
        for name in claimed.names:
            if not all(self._is_known(word) for word in words(name)):
                yield f"names {name}, which is not in the context"

    def _is_known(self, word: Word) -> bool:
        lower = word.surface.lower()
        return (
            word.stem in self._vocabulary
            or lower in self._initials
            or (len(lower) >= _PREFIX and lower[:_PREFIX] in self._beginnings)
        )


def _agrees(quantity: Quantity, others: Iterable[Quantity]) -> bool:
    return any(quantity.agrees(other) for other in others)


def _denials(claimed: Statement, evidence: Sequence[Statement], closest: Statement) -> Iterator[str]:
    """Return a word that one denies and the other states, or a denial without a counterpart in the evidence."""
    excluding = [word.stem for word in closest.words if word.surface.lower() in _EXCLUDING]
    for negation in claimed.negations:
        word = next(iter(negation.denied), None)
        if word and closest.asserts(word.stem) and (not excluding or word.stem in excluding):
            yield f"says “{negation.surface} … {word.surface}”, the context says {word.surface}"
            return
    for negation in closest.negations:
        word = next(iter(negation.denied), None)
        if word and claimed.asserts(word.stem):
            yield f"says {word.surface}, the context says “{negation.surface} … {word.surface}”"
            return
    there = {stem for statement in evidence for stem in statement.denied}
    if claimed.negations and not (closest.negations or excluding or claimed.denied & there):
        yield f"says “{claimed.negations[0].surface}”, the context denies nothing"


def _quantifiers(claimed: Statement, evidence: Sequence[Statement]) -> Iterator[str]:
    for kind in QUANTIFIERS:
        word = claimed.quantifier(kind)
        if word and not any(statement.quantifier(kind) for statement in evidence):
            yield f"says “{word}”, the context does not"


def _opposites(claimed: Statement, evidence: Sequence[Statement]) -> Iterator[str]:
    near = frozenset[str]().union(*(statement.stems for statement in evidence))
    for term, opposite in OPPOSITES:
        if term in claimed.stems and term not in near and opposite in near and opposite not in claimed.stems:
            written = {word.stem: word.surface for statement in (claimed, *evidence) for word in statement.words}
            yield f"says {written[term]}, the context says {written[opposite]}"
