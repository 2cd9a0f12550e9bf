"""Amounts, dates and times in a text, as values that can be compared in any notation.

Digits with the separators of any country ("1,200", "1.200", "1 200"), number words in English and small ones in German,
French and Spanish, percent, currencies, plain units, clock times, weekdays, and dates of the Gregorian calendar.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

from evalflow.addons.embedded import units
from evalflow.addons.embedded.units import FRACTIONS, LARGE, SMALL

Reading = tuple[float, str]
"""A value and its dimension: km and m are both in metres; "" is a plain number."""

_NUMBER = frozenset({""})


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount as written, with all its possible values: "20 cents" is 0.2 of several currencies.

    `bare` has its numbers without the unit. `stated` is false for expressions such as "a week" or "half": other
    amounts are compared with them, but they need no evidence. A `loose` amount was rounded.
    """

    surface: str
    readings: frozenset[Reading]
    bare: frozenset[float]
    stated: bool = True
    loose: bool = False

    @property
    def dimensions(self) -> frozenset[str]:
        return frozenset(dimension for _, dimension in self.readings)

    def agrees(self, other: Quantity) -> bool:
        """Whether both can mean the same. Without a unit, only the numbers are compared."""
        if self.dimensions == _NUMBER or other.dimensions == _NUMBER:
            return any(self._is_close(other, first, second, "") for first in self.bare for second in other.bare)
        return any(
            self._is_close(other, first, second, dimension)
            for first, dimension in self.readings
            for second, same in other.readings
            if same == dimension
        )

    def competes(self, other: Quantity) -> bool:
        """Whether the other is a different amount of the same dimension."""
        return bool(self.dimensions & other.dimensions) and not self.agrees(other)

    def _is_close(self, other: Quantity, first: float, second: float, dimension: str) -> bool:
        # Thirty days are a month; a rounded amount may be off by a tenth.
        allowed = 0.1 if self.loose or other.loose else 0.02 if dimension == "s" else 1e-6
        return math.isclose(first, second, rel_tol=allowed, abs_tol=1e-9)


class Date(Quantity):
    """A date that may lack parts; two dates agree if the parts that both have are equal."""

    __slots__ = ()

    def agrees(self, other: Quantity) -> bool:
        if not isinstance(other, Date):
            return not self.bare.isdisjoint(other.bare)
        mine, theirs = ({name: value for value, name in date.readings} for date in (self, other))
        shared = mine.keys() & theirs.keys()
        return bool(shared) and all(mine[name] == theirs[name] for name in shared)


def quantities(text: str) -> tuple[Quantity, ...]:
    """Every amount, date and time of a text, in order."""
    placed: list[tuple[int, Quantity]] = []
    for pattern, read in _readers():
        for match in pattern.finditer(text):
            quantity = read(match)
            if quantity is not None:
                placed.append((match.start(), quantity))
                text = f"{text[: match.start()]}{'·' * len(match[0])}{text[match.end() :]}"
    return tuple(quantity for _, quantity in sorted(placed, key=lambda pair: pair[0]))


def _amount(match: re.Match[str]) -> Quantity:
    written, unit, scale = match["number"].lower(), (match["unit"] or "").lower(), (match["scale"] or "").lower()
    currency = (match["currency"] or "").lower()
    factor = LARGE.get(scale, 1.0) * (-1 if match["sign"] else 1)
    if currency and unit == "m":  # "€3m"
        factor, unit = factor * 1e6, ""
    spelled = written[0].isalpha()
    values = {_spelled(written)} if spelled else _with_fraction(written)
    if unit == "s" and min(values) >= 1000:  # "the 1990s"
        unit = ""
    bare = frozenset((value + (0.5 if match["half"] else 0)) * factor for value in values)
    return Quantity(
        match[0].strip(),
        frozenset(chain.from_iterable(_in_base(value, unit or currency) for value in bare)),
        bare,
        stated=written not in units.ARTICLES or (written == "one" and bool(unit)),
        loose=bool(match["loose"] or match["about"] or scale),
    )


def _with_fraction(written: str) -> set[float]:
    part = FRACTIONS.get(written[-1], 0.0)
    digits = written[:-1] if part else written
    return {value + part for value in _numbers(digits)} if digits else {part}


def _numbers(digits: str) -> set[float]:
    """The possible values of digits: "1.200" is 1200 in Berlin and 1.2 in Boston."""
    compact = re.sub(r"[\s'’]", "", digits)
    marks = [mark for mark in compact if mark in ".,"]
    whole, _, part = compact.rpartition(marks[-1]) if marks else (compact, "", "")
    grouped = float(re.sub("[.,]", "", compact))
    if not marks or (len(marks) > 1 and len(set(marks)) == 1):
        return {grouped}
    decimal = float(f"{re.sub('[.,]', '', whole)}.{part}")
    return {grouped, decimal} if len(marks) == 1 and len(part) == 3 else {decimal}


def _spelled(text: str) -> float:
    total = current = 0.0
    for word in re.findall(r"[^\W_]+", text):
        if word in LARGE:
            current = (current or 1) * LARGE[word]
            if LARGE[word] > 100:
                total, current = total + current, 0.0
        else:
            current += SMALL.get(word, 0.0)  # "and"
    return total + current


def _in_base(value: float, unit: str) -> Iterator[Reading]:
    if unit in units.CENTS:
        yield from ((value / 100, currency) for currency in units.COINED)
    elif unit in units.POUNDS:
        yield from ((value, "GBP"), (value * 0.45359237, "kg"))
    elif unit in units.UNITS:
        dimension, factor = units.UNITS[unit]
        yield value * factor, dimension
    else:
        yield value, ""


def _period(match: re.Match[str]) -> Quantity:
    return Quantity(match[0], frozenset(_in_base(1.0, match["unit"].lower())), frozenset({1.0}), stated=False)


def _part(match: re.Match[str]) -> Quantity:
    share, unit = units.PARTS[match["part"].lower()] * (3 if match["three"] else 1), (match["unit"] or "").lower()
    readings = frozenset(_in_base(share, unit)) if unit else frozenset({(share * 100, "%"), (share, "")})
    return Quantity(match[0], readings, frozenset({share}), stated=bool(unit))


def _clock(match: re.Match[str]) -> Quantity | None:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), (match["half"] or "")[:1].lower()
    if hour > 24 or minute > 59:
        return None
    since_midnight = hour % 12 + (12 if half == "p" else 0) if half in {"a", "p"} else hour
    readings = frozenset({(since_midnight * 60.0 + minute, "clock")})
    return Quantity(match[0].strip(), readings, frozenset({float(hour), float(since_midnight)}))


def _weekday(match: re.Match[str]) -> Quantity:
    first = units.WEEKDAYS[match["first"].lower()]
    last = units.WEEKDAYS[(match["last"] or match["first"]).lower()]
    days = (float((first + day) % 7) for day in range((last - first) % 7 + 1))
    return Quantity(match[0], frozenset((day, "weekday") for day in days), frozenset())


def _date(surface: str, year: str | int | None, month: int | None, day: str | int | None) -> Quantity | None:
    parts = [(year, "year"), (month, "month"), (day, "day of a month")]
    parts_of_date = frozenset((float(value), name) for value, name in parts if value)
    values = {name: value for value, name in parts_of_date}
    if not parts_of_date or values.get("month", 1) > 12 or values.get("day of a month", 1) > 31:
        return None
    return Date(surface.strip(), parts_of_date, frozenset(value for name, value in values.items() if name != "month"))


def _iso_date(match: re.Match[str]) -> Quantity | None:
    return _date(match[0], match["year"], int(match["month"]), match["day"])


def _numeric_date(match: re.Match[str]) -> Quantity | None:
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    year += 2000 if year < 100 else 0
    if match["mark"] == "/" and second > 12:
        first, second = second, first
    elif match["mark"] == "/" and first <= 12 and first != second:  # either of them may be the month
        return _date(match[0], year, None, None)
    return _date(match[0], year, second, first)


def _named_date(match: re.Match[str]) -> Quantity | None:
    month, day = match["month"].lower(), match["before"] or match["after"]
    if not (day or match["year"] or match["lead"]) and (month in units.AMBIGUOUS_MONTHS or len(month) < 4):
        return None
    return _date(match[0], match["year"], units.MONTHS[month], day)


def _any_of(names: Iterable[str]) -> str:
    return "|".join(re.escape(name).replace(r"\ ", r"\s") for name in sorted(names, key=len, reverse=True))


_DIGITS = r"\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?"
_FRACTION = f"[{''.join(FRACTIONS)}]"
_NUMBER_WORD, _LARGE_WORD = _any_of((*SMALL, *LARGE)), _any_of(LARGE)
_SPELLED = rf"""\b(?:{_NUMBER_WORD})(?:[ -](?:{_LARGE_WORD})
    |(?:(?<=ty)[ -]|(?:(?<=hundred)|(?<=thousand))\ (?:and\ )?)(?:{_NUMBER_WORD}))*\b"""


@cache
def _readers() -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Quantity | None]], ...]:
    """Return the readers of amounts, most specific first; text read by one is hidden from the next."""
    unit, month, day = (
        _any_of((*units.UNITS, *units.CENTS, *units.POUNDS)),
        _any_of(units.MONTHS),
        _any_of(units.WEEKDAYS),
    )
    forms = (
        (r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b", _iso_date),
        (r"\b(?P<first>\d{1,2})(?P<mark>[./])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4}|\d\d)\b", _numeric_date),
        (
            rf"""(?:\b(?P<before>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?\s(?:of\s|de\s)?
            |\b(?P<lead>in|until|since|by|from|im|bis|seit|en)\s)?
            \b(?P<month>{month})\b\.?(?:\s(?P<after>\d{{1,2}})(?:st|nd|rd|th)?\b(?![\d:.,]*\d))?
            (?:,?\s(?:del?\s|of\s)?(?P<year>\d{{4}})\b)?""",
            _named_date,
        ),
        (rf"\b(?P<first>{day})s?\b(?:\s?(?:to|until|through|bis|à|au|a|al|-|–)\s?(?P<last>{day})s?\b)?", _weekday),
        (r"\b(?P<hour>\d{1,2})[:.h](?P<minute>\d\d)(?::\d\d)?\s?(?P<half>[ap]\.?m\b\.?|uhr\b)", _clock),
        (r"\b(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::\d\d)?(?P<half>)(?!\d)", _clock),
        (r"\b(?P<hour>\d{1,2})(?P<minute>)\s?(?P<half>[ap]\.?m\b\.?|uhr\b|o['’]clock\b)", _clock),
        (
            rf"""(?<!and\sa\s)\b(?P<three>three[ -])?(?P<part>{_any_of(units.PARTS)})s?\b
            (?:[ -](?:of\s)?(?:an?\s)?(?P<unit>{unit})\b)?""",
            _part,
        ),
        (
            rf"""(?:\b(?P<loose>{_any_of(units.LOOSE)})\s|(?P<about>~))?
            (?P<currency>[€$£¥]|\b(?:EUR|USD|GBP|CHF)\b)?\s?(?P<sign>(?<![\w.])[-−](?=\d)|\bminus\s)?
            (?<![\w.,])(?P<number>(?:{_DIGITS})(?:\s?{_FRACTION})?|{_FRACTION}|{_SPELLED})(?!\w*\d)
            (?:(?:st|nd|rd|th|e|er|ª|º)\b)?(?P<half>\sand\sa\shalf\b)?
            (?:\s?(?P<scale>{_LARGE_WORD})\b\.?)?(?:[\s-]?(?P<unit>{unit})(?!\w))?""",
            _amount,
        ),
        (
            rf"\b(?:an?|per|every|each|pro|jede[nrms]?|par|chaque|por|cada)\s(?P<unit>{_any_of(units.PERIODS)})\b",
            _period,
        ),
    )
    return tuple((re.compile(form, re.IGNORECASE | re.VERBOSE), read) for form, read in forms)
