"""Changes of a good answer whose effect on its score is known: faults that must lower it, and changes that must not.

They need no model and no random numbers: the case's id alone decides which number, name or sentence is changed. Numbers
and sentences are found in any language; negations, paraphrases and the padding are English.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from evalflow.config.schema import FAULTS
from evalflow.records import Case
from evalflow.values.segments import sentences

CHANGES: tuple[str, ...] = (*FAULTS, "noise", "paraphrase", "reorder", "padding", "contexts")
ABOUT: Mapping[str, str] = {
    "number": "one number is another",
    "name": "one name is another",
    "negation": "one statement is denied, or a denial is taken back",
    "addition": "a sentence of another case's answer is added",
    "omission": "one sentence is left out",
    "other_answer": "the answer is that of another case",
    "noise": "other spaces, line breaks and quotation marks",
    "paraphrase": "short and long forms, and words of the same meaning",
    "reorder": "the sentences in another order",
    "padding": "polite words before and after",
    "contexts": "the contexts in reverse order",
}

T = TypeVar("T")
_NUMBER = re.compile(r"(?<![\w.,:])\d{1,3}(?:,\d{3})+(?!\d)|(?<![\w.,:])\d+(?:\.\d+)?(?![\w]|[.,:]\d)")
_NUMBER_WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_NUMBER_WORD = re.compile(rf"\b({'|'.join(_NUMBER_WORDS[1:])})\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][\w’'-]*[a-z](?: [A-Z][\w’'-]*[a-z])*")
_DENIED = (
    (re.compile(r"\b(can)not\b|\b(can)['’]t\b", re.IGNORECASE), "can"),
    (re.compile(r"\b(?:do|does|did) not |\b(?:do|does|did)n['’]t ", re.IGNORECASE), ""),
    (re.compile(r"\b(is|are|was|were|will|must|should|may|has|have|had) not\b"), r"\1"),
    (re.compile(r"\b(is|are|was|were|has|have|had)(?:n['’]t| no)\b"), r"\1"),
)
_STATED = (
    (re.compile(r"\bcan\b"), "cannot"),
    (re.compile(r"\b(is|are|was|were|will|must|should|may)\b(?! not?\b|n['’]t)"), r"\1 not"),
)
_PARAPHRASES = (
    ("cannot", "can’t"),
    ("do not", "don’t"),
    ("does not", "doesn’t"),
    ("is not", "isn’t"),
    ("are not", "aren’t"),
    ("it is", "it’s"),
    ("you will", "you’ll"),
    ("for example", "for instance"),
    ("in order to", "to"),
    ("also", "too"),
    ("need to", "have to"),
    ("each", "every"),
    ("begin", "start"),
    ("purchase", "buy"),
    ("however", "but"),
    ("per cent", "percent"),
    ("until", "till"),
    ("free of charge", "at no cost"),
    ("large", "big"),
)
_BEFORE, _AFTER = "Thank you for your question.", "I hope this helps."


@dataclass(frozen=True)
class Perturbation:
    """A case whose answer was changed in one way; `change` is None for the unchanged answer."""

    base: Case
    change: str | None
    case: Case


def perturbed(bases: Sequence[Case], changes: Sequence[str] = CHANGES) -> list[Perturbation]:
    """Each case unchanged, and then once for each change that can be made to it.

    Cases need a text as answer. Their ids become `ID~CHANGE`, their tags the change, and their group that of the case
    (its id if it has none), since variants of one case are related. Other answers and names come from cases of other
    groups, so that the case's contexts do not support them; without other groups those changes are not made.
    """
    changed: list[Perturbation] = []
    for place, base in enumerate(bases):
        others = [
            other.answer or ""
            for other in (*bases[place + 1 :], *bases[:place])
            if base.group is None or other.group != base.group
        ]
        for change in (None, *changes):
            case = base if change is None else _changed(base, change, others)
            if case is not None:
                changed.append(Perturbation(base, change, _renamed(case, base, change)))
    return changed


def _renamed(case: Case, base: Case, change: str | None) -> Case:
    identifier = base.id if change is None else f"{base.id}~{change}"
    return replace(case, id=identifier, tags=(change or "as it is",), group=base.group or base.id)


def _changed(case: Case, change: str, others: Sequence[str]) -> Case | None:
    """The case with one change; None if it cannot be made, or does not change the answer."""
    if change == "contexts":
        turned = tuple(reversed(case.contexts or ()))
        return replace(case, contexts=turned) if turned != (case.contexts or ()) else None
    text = case.answer or ""
    made = (
        _HARMLESS[change](text) if change in _HARMLESS else _FAULTY[change](text, _FaultSources(case, change, others))
    )
    return None if made is None or (made.split() == text.split() and change != "noise") else replace(case, answer=made)


@dataclass(frozen=True)
class _FaultSources:
    case: Case
    change: str
    others: Sequence[str]

    def pick(self, choices: Sequence[T]) -> T:
        """Choose one of several, always the same."""
        digest = hashlib.sha256(f"{self.case.id}~{self.change}".encode()).digest()
        return choices[int.from_bytes(digest, "big") % len(choices)]

    def all_text(self) -> str:
        """All texts of the case. A fault must not be true by them by chance."""
        contexts = (context.text for context in self.case.contexts or ())
        return "\n".join([self.case.question or "", *self.case.references, self.case.answer or "", *contexts])


def _number(text: str, around: _FaultSources) -> str | None:
    numbers = [*_NUMBER.finditer(text), *_NUMBER_WORD.finditer(text)]
    if not numbers:
        return None
    number = around.pick(numbers)
    present = set(_NUMBER.findall(around.all_text())) | {
        word.lower() for word in _NUMBER_WORD.findall(around.all_text())
    }
    candidates = [other for other in _near(number[0]) if other.lower() not in present]
    return _in_place(text, number, around.pick(candidates)) if candidates else None


def _near(number: str) -> list[str]:
    """Other numbers of about the same size, written the same way."""
    if number.lower() in _NUMBER_WORDS:
        place = _NUMBER_WORDS.index(number.lower())
        near = [word for word in _NUMBER_WORDS[max(1, place - 4) : place + 5] if word != number.lower()]
        return [word.capitalize() for word in near] if number[0].isupper() else near
    decimals = len(number.partition(".")[2])
    value = float(number.replace(",", ""))
    if value.is_integer() and 1000 <= value <= 2100 and "," not in number:
        return [f"{int(value) + by}" for by in (-20, -11, -7, -3, 3, 7, 11, 20)]  # a year
    changed = [value + by * 10**-decimals for by in (-3, -2, 2, 3, 5)] + [value * 2, value * 3, value * 10]
    form = f"{',' if ',' in number else ''}.{decimals}f"
    return [format(other, form) for other in changed if other > 0]


def _name(text: str, around: _FaultSources) -> str | None:
    names, present = list(_NAME.finditer(text)), around.all_text()
    candidates = [name for other in around.others for name in _NAME.findall(other) if name not in present]
    return _in_place(text, around.pick(names), around.pick(candidates)) if names and candidates else None


def _negation(text: str, around: _FaultSources) -> str | None:
    for patterns in (_DENIED, _STATED):
        places = [(match, pattern, by) for pattern, by in patterns for match in pattern.finditer(text)]
        if places:
            match, pattern, by = around.pick(places)
            return _in_place(text, match, pattern.sub(by, match[0]))
    return None


def _addition(text: str, around: _FaultSources) -> str | None:
    present = around.all_text()
    candidates = [sentence for other in around.others for sentence in sentences(other)[:1] if sentence not in present]
    return f"{text.rstrip()} {candidates[0]}" if candidates else None


def _omission(text: str, around: _FaultSources) -> str | None:
    parts = list(sentences(text))
    if len(parts) < 2:
        return None
    parts.pop(around.pick(range(len(parts))))
    return " ".join(parts)


def _other_answer(text: str, around: _FaultSources) -> str | None:
    return next((other for other in around.others if other.strip() and other != text), None)


def _noise(text: str) -> str:
    spaced = re.sub(r"(?<=[.!?]) +", "\n\n", text.strip())
    return "  " + re.sub(r'"([^"\n]*)"', "“\\1”", spaced).replace(", ", ",  ").replace("'", "’") + " \n"


def _paraphrase(text: str) -> str:
    for long, short in _PARAPHRASES:
        text = re.sub(rf"\b{long}\b", short, text)
        text = re.sub(rf"\b{long.capitalize()}\b", short.capitalize(), text)
    return text


def _reorder(text: str) -> str | None:
    first, *rest = sentences(text) or ("",)
    return " ".join([*rest, first]) if rest else None


def _in_place(text: str, match: re.Match[str], by: str) -> str:
    return f"{text[: match.start()]}{by}{text[match.end() :]}"


_FAULTY: Mapping[str, Callable[[str, _FaultSources], str | None]] = {
    "number": _number,
    "name": _name,
    "negation": _negation,
    "addition": _addition,
    "omission": _omission,
    "other_answer": _other_answer,
}
_HARMLESS: Mapping[str, Callable[[str], str | None]] = {
    "noise": _noise,
    "paraphrase": _paraphrase,
    "reorder": _reorder,
    "padding": lambda text: f"{_BEFORE} {text.strip()} {_AFTER}",
}
