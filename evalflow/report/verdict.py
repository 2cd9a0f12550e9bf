"""The result of a comparison as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from evalflow.records import CASES
from evalflow.report.wording import number
from evalflow.summary.compare import ComparisonRow

_DETAIL = 0.005


def verdict_in_words(row: ComparisonRow, others: Sequence[ComparisonRow]) -> str:
    """Whether B is better, by one row, and where other rows say the opposite."""
    change = change_in_words(row)
    if row.verdict == "cannot_tell":
        said = f"No clear difference: {change}." if row.found.difference else f"No difference: {change}."
        clear = [other for other in others if other.verdict != "cannot_tell"]
    else:
        said = f"B is {row.verdict}: {change}."
        clear = [other for other in others if other.verdict not in ("cannot_tell", row.verdict)]
    by_verdict = {"better": [one for one in clear if one.verdict == "better"]}
    by_verdict["worse"] = [one for one in clear if one.verdict == "worse"]
    exceptions = [
        f"{', '.join(dict.fromkeys(_named(one) for one in rows))} {'is' if len(rows) == 1 else 'are'} {verdict}"
        for verdict, rows in by_verdict.items()
        if rows
    ]
    return f"{said} But {' and '.join(exceptions)}." if exceptions else said


def change_in_words(row: ComparisonRow) -> str:
    """The difference of a row with its interval, such as `8 points more answers pass exact (2 to 14)`."""
    found = row.found
    if found.difference is None:
        return f"{_named(row)} has no difference to show"
    rate = "pass_rate" in (row.statistic, *row.also) and row.judged is None
    passing = "cases pass everything" if row.metric == CASES else f"answers pass {row.metric}"
    more, fewer = ("more", "fewer") if rate else ("higher", "lower")
    rises = found.difference >= 0
    here, there = (more, fewer) if rises else (fewer, more)
    ends = ""
    if found.low is not None and found.high is not None:
        low, high = (found.low, found.high) if rises else (-found.high, -found.low)
        if low < 0:
            ends = f" ({_amount(-low, row, short=True)} {there} to {_amount(high, row, short=True)} {here})"
        else:
            ends = f" ({_amount(low, row, short=True)} to {_amount(high, row, short=True)})"
    if not found.difference:
        return f"as many {passing} in both{ends}" if rate else f"{_named(row)} is the same in both{ends}"
    size = _amount(abs(found.difference), row)
    about = "" if row.higher_is_better else ", lower is better"
    return f"{size} {here} {passing}{ends}" if rate else f"{_named(row)} is {size} {here}{ends}{about}"


def _named(row: ComparisonRow) -> str:
    if row.metric == CASES:
        return "the share of cases that pass everything"
    return f"{row.called} of {row.metric}" if row.called else row.metric


def _amount(value: float, row: ComparisonRow, *, short: bool = False) -> str:
    """A size in points of a hundred where no difference exceeds 1, else as a number."""
    if not row.bounded:
        return number(value)
    digits = 1 if 0 < value < _DETAIL * 2 else 0
    points = f"{100 * value:.{digits}f}"
    return points if short else f"{points} point{'' if points == '1' else 's'}"
