"""Results of a run in whole sentences, which consoles, files and pages show unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from evalflow.records import CASES
from evalflow.report.wording import bracketed, counted, interval, number, percent, plain_statistic, who_scored
from evalflow.summary.finding import is_corrected, judge_alone
from evalflow.summary.rows import SummaryRow

Named = Callable[[str], str]
_NAMED = 8  # metrics to name in a sentence


@dataclass(frozen=True, slots=True)
class RunSentence:
    """The headline of a run for one dataset, target and judge: a sentence and its parts.

    Attributes:
        row: The row of the summary that it is about.
        result: The result, such as `30 % of 300 cases pass everything`.
        ends: Its 95 % interval, such as `25 to 36 %`, or empty.
        by: Whether the number is the judge's alone or corrected by labels; empty if nothing judges.
        left: The number of cases that are undecided because of errors, or empty.
        more: Further results, such as the pass rate of each metric; without a final full stop.
        about: The dataset, target or judge, if the run has several; else empty.
    """

    row: SummaryRow
    result: str
    ends: str = ""
    by: str = ""
    left: str = ""
    more: str = ""
    about: str = ""

    @property
    def first(self) -> str:
        """The sentence without the further results."""
        ends = f" ({self.ends})" if self.ends else ""
        sentence = ", ".join(part for part in (f"{self.result}{ends}", self.by) if part)
        sentence = f"{sentence}; {self.left}" if self.left else sentence
        return f"{self.about}: {sentence}" if self.about else sentence

    def __str__(self) -> str:
        return f"{self.first}. {self.more}" if self.more else self.first


def of_run(rows: Sequence[SummaryRow], gated: Collection[str | None] = (), named: Named = str) -> list[RunSentence]:
    """The headline of a run: a sentence for each dataset, target and judge that has the leading number.

    `rows` are those of its summary; the metrics in `gated` have a gate, and `named` gives their titles.
    """
    own = [row for row in rows if row.tag is None]
    if not own:
        return []
    first = min(own, key=lambda row: leading_place(row, gated))
    heads = [row for row in own if (row.metric, row.statistic) == (first.metric, first.statistic)]
    apart = [part for part in ("dataset", "target", "judge") if len({getattr(row, part) for row in heads}) > 1]
    return [of_row(row, own, named, " · ".join(str(getattr(row, part)) for part in apart)) for row in heads]


def leading_place(row: SummaryRow, gated: Collection[str | None]) -> tuple[bool, ...]:
    """A sort key for the rows that show how good a run is, best suited first.

    Whole cases come first, then metrics with a gate, with pass and fail, with a judge.
    """
    is_of_cases = row.metric == CASES
    return not is_of_cases, row.metric not in gated, row.pass_rate is None, row.judge is None


def of_row(row: SummaryRow, rows: Sequence[SummaryRow], named: Named = str, about: str = "") -> RunSentence:
    """The sentence of one of `rows`: the share that passes if it has one, else its value."""
    named = distinct(named, (other.metric for other in rows))
    if row.metric == CASES:
        return _of_cases(row, rows, named, about)
    others = [other for other in rows if other.metric != row.metric and _is_beside(other, row)]
    which = f" {named(row.metric)}" if any(other.metric != CASES for other in others) else ""
    more = _values(others, named)
    statistic = shown_statistic(row)
    if statistic == "pass_rate":
        finding = f"{percent(row.pass_rate)} of answers pass{which}"
        ends = percent_interval(row.pass_rate_low, row.pass_rate_high)
        return RunSentence(row, finding, ends, number_source(row), "", more, about)
    if row.value is None:
        return RunSentence(row, f"{named(row.metric)}: nothing could be scored", more=more, about=about)
    how = "on average" if statistic == "mean" else plain_statistic(statistic)
    ends = "" if row.ci_low is None else interval(row.ci_low, row.ci_high, _short)
    finding = f"{named(row.metric)}: {_short(row.value)} {how}"
    return RunSentence(row, finding, ends, number_source(row), "", more, about)


def distinct(named: Named, metrics: Iterable[str]) -> Named:
    """`named`, but if several of these metrics have the same title, followed by the metric's name."""
    titles = Counter(named(name) for name in dict.fromkeys(metrics))
    return lambda name: f"{named(name)} ({name})" if titles[named(name)] > 1 else named(name)


def shown_statistic(row: SummaryRow) -> str:
    """The statistic shown for a row: the share that passes if it has one, else the mean."""
    return "pass_rate" if row.pass_rate is not None and row.statistic in ("mean", "pass_rate") else str(row.statistic)


def _of_cases(row: SummaryRow, rows: Sequence[SummaryRow], named: Named, about: str) -> RunSentence:
    """How many cases pass everything, and the pass rate of each metric."""
    n, n_open = row.n_scored, row.n_error
    left_open = f"{counted(n_open)} {'is' if n_open == 1 else 'are'} open because of errors" if n_open else ""
    if not n:
        return RunSentence(row, left_open or "No case has a score that passes or fails", about=about)
    others = [other for other in rows if other.metric != CASES and _is_beside(other, row)]
    finding = f"{percent(row.pass_rate)} of {counted(n)} pass{'es' if n == 1 else ''} everything"
    passing = [other for other in others if other.has_pass_rate]
    by = by_whole_cases(passing, labelled=any(other.n_labels is not None for other in passing))
    rates = _listed([f"{named(o.metric)} {percent(o.pass_rate)}{_mark(o)}" for o in passing])
    ends = percent_interval(row.pass_rate_low, row.pass_rate_high)
    return RunSentence(row, finding, ends, by, left_open, rates, about)


class _OfPassing(Protocol):
    """A result of a metric that says whether it has a pass rate: a row, a difference or a leaderboard."""

    @property
    def metric(self) -> str: ...
    @property
    def judge(self) -> str | None: ...
    @property
    def has_pass_rate(self) -> bool: ...


def by_whole_cases(results: Iterable[_OfPassing], *, labelled: bool) -> str:
    """Who alone decides whether whole cases pass, since labels never correct that: `by the judge alone`.

    `results` are those of their dataset. A judge decides only by metrics with pass and fail. Without one it is "", or
    `by the metrics alone` if people labelled some case.
    """
    if any(one.judge for one in results if one.metric != CASES and one.has_pass_rate):
        return "by the judge alone"
    return "by the metrics alone" if labelled else ""


def _values(rows: Sequence[SummaryRow], named: Named) -> str:
    """The value of each other metric, such as `Tone 0.71 on average, topic 0.80 accuracy`."""
    firsts: dict[tuple[str, str | None], SummaryRow] = {}
    for row in rows:
        if row.metric != CASES and row.value is not None:
            firsts.setdefault((row.metric, row.judge), row)
    return _listed([f"{named(row.metric)} {_value(row)}{_mark(row)}" for row in firsts.values()])


def _value(row: SummaryRow) -> str:
    if row.has_pass_rate:
        return f"{percent(row.pass_rate)} pass"
    return f"{_short(row.value)} {'on average' if row.statistic == 'mean' else row.statistic.replace('_', ' ')}"


def _listed(parts: Sequence[str]) -> str:
    left = len(parts) - _NAMED
    return ", ".join([*parts[:_NAMED], *([f"{left} more metrics"] if left > 0 else [])])


def _mark(row: SummaryRow) -> str:
    column = "pass_rate" if row.has_pass_rate else "value"
    return f" (corrected by {counted(row.n_labels or 0, 'label')})" if is_corrected(row, column) else ""


def _is_beside(row: SummaryRow, other: SummaryRow) -> bool:
    return (row.dataset, row.target) == (other.dataset, other.target)


def number_source(row: SummaryRow) -> str:
    """The source of a row's number: the judge alone, or the labels too; "" for a metric without judge and labels."""
    column = "pass_rate" if shown_statistic(row) == "pass_rate" else "value"
    if is_corrected(row, column):
        return f"corrected by {counted(row.n_labels or 0, 'label')}"
    alone = f"by the {who_scored(row.judge)} alone"
    if row.uncorrected:
        return f"{alone}, since labels correct nothing: {row.uncorrected}"
    return alone if row.judge else ""


def judge_beside(row: SummaryRow) -> str:
    """The judge's own value of a row's number; "" if labels correct nothing."""
    is_rate = shown_statistic(row) == "pass_rate"
    if not is_corrected(row, "pass_rate" if is_rate else "value"):
        return ""
    alone, who = judge_alone(row), who_scored(row.judge)
    if is_rate:
        ends = percent_interval(alone.pass_rate_low, alone.pass_rate_high)
        return f"The {who} alone says {percent(alone.pass_rate)}{f' ({ends})' if ends else ''}."
    return f"The {who} alone says {_short(alone.value)}{bracketed(alone.ci_low, alone.ci_high, _short)}."


def label_lines(rows: Sequence[SummaryRow], sentences: Iterable[RunSentence] = ()) -> Iterator[str]:
    """The metric and `of_labels` of each row with labels. Repeated reasons, and those in `sentences`, are left out."""
    for row in reasons_once(rows, sentences):
        if text := of_labels(row):
            yield f"{row.metric}: {text}"


def reasons_once(rows: Iterable[SummaryRow], sentences: Iterable[RunSentence] = ()) -> Iterator[SummaryRow]:
    """The rows; reasons why labels correct nothing are emptied if an earlier row or `sentences` has them."""
    known = {one.row.uncorrected for one in sentences if (one.row.uncorrected or one.result) in one.by}
    for row in rows:
        why = row.uncorrected
        yield replace(row, uncorrected="") if why and why in known else row
        known.add(why)


def of_labels(row: SummaryRow) -> str:
    """How labels correct a row's value, with the judge's own value, or why they do not; "" without labels."""
    if row.n_labels is None:
        return ""
    labels = counted(row.n_labels, "label") + (f" ({n:,} more missing)" if (n := row.n_missing_labels) else "")
    if not is_corrected(row, "value"):
        return f"{labels}, which correct nothing" + (f": {row.uncorrected}" if row.uncorrected else "")
    alone, who = judge_alone(row), who_scored(row.judge)
    rate = f", pass {percent(alone.pass_rate)}" if is_corrected(row, "pass_rate") else ""
    figures = f"{number(alone.value)}{bracketed(alone.ci_low, alone.ci_high)}{rate}"
    return f"corrected by {labels}; the {who} alone {figures}"


def labelled_in(followed: Iterable[Mapping[str, str]], dataset: str, metric: str) -> str:
    """The other runs (of `followed`) in which people labelled equal answers; "" if there are none."""
    runs = [one["run"] for one in followed if (one["dataset"], one["metric"]) == (dataset, metric)]
    return f"in {'run' if len(runs) == 1 else 'runs'} {', '.join(runs)}, of equal answers" if runs else ""


def percent_interval(low: float | None, high: float | None) -> str:
    """An interval of shares, such as `25 to 36 %`, or empty."""
    return "" if low is None or high is None else f"{percent(low).removesuffix(' %')} to {percent(high)}"


def _short(value: float | None) -> str:
    return number(value, 2)
