"""The results of a comparison in whole sentences, which consoles, files and pages show unchanged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalflow.records import CASES
from evalflow.records.manifest import Manifest
from evalflow.report.sentences import by_whole_cases, distinct
from evalflow.report.word_changes import word_changes
from evalflow.report.wording import counted, cut, number, plain_line, unseen_in_words, who_scored
from evalflow.summary.changed import ChangedPart, ChangedValue, WhatChanged
from evalflow.summary.compare import ComparisonRow
from evalflow.summary.judge_change import AgreementChange, JudgeAgreementChange
from evalflow.summary.preferences import PeoplePreference
from evalflow.summary.verdicts import LEVEL, Verdict, excludes_zero, is_significant, of_difference

SIDES = ("A", "B")
"""Names of runs without titles, or with equal ones."""
NOT_LABELLED = "Nobody has labelled these answers, so this does not show which judge is right."
NOT_OF_THE_BOT = "This is about the test cases, not about the bot."
ONE_RUN = (
    "A run's own value may differ from the one here, with few labels by some hundredths, and `rank` may call a run the "
    "best where `compare` cannot tell: see “Two answers about one run” in statistics.md."
)
"""Explains differences between a comparison and a run's summary, or a ranking."""
CLEAR = f"A difference is clear if its adjusted p-value is below {LEVEL:g} and its interval excludes 0."
_NOT_WORSE: Mapping[bool | None, str] = {True: "not worse", False: "worse", None: "cannot tell whether worse"}
_CLEAR: Sequence[Verdict] = ("better", "worse", "higher", "lower")
_BY_JUDGE = ", by the judge"
_DETAIL = 0.005
_VALUE = 40  # characters of a setting in a line
_WORDS = 120  # characters of the words in a line that differ between two texts
_CHANGES: Mapping[str, str] = {
    "judge": "another judge",
    "prompt": "another prompt of the judge",
    "metric": "a changed metric",
    "threshold": "another threshold",
}
_NOUNS: Mapping[str, str] = {
    "judge": "the judge",
    "prompt": "the judge's prompt",
    "metric": "the metric",
    "threshold": "the threshold",
    "cases": "the test cases",
}
_MEASURES = {"kappa": "kappa", "kappa_weighted": "weighted kappa", "spearman": "Spearman", "accuracy": "same verdicts"}


@dataclass(frozen=True, slots=True)
class ComparisonSentence:
    """The result of comparing two runs.

    Attributes:
        row: The leading row, or None.
        first: The row's result, such as `B is better: 8 points more answers pass exact (2 to 14).`
        more: Rows that contradict it or cannot be attributed, and what is unknown; may be empty.
        beside: The judge's own number, if the result is corrected by labels; else empty.
    """

    row: ComparisonRow | None
    first: str
    more: str = ""
    beside: str = ""

    @property
    def verdict(self) -> Verdict:
        return self.row.verdict if self.row else "cannot_tell"

    def __str__(self) -> str:
        return f"{self.first} {self.more}" if self.more else self.first


def of_comparison(
    rows: Sequence[ComparisonRow],
    changed: WhatChanged,
    judges: Sequence[JudgeAgreementChange] = (),
    *,
    gated: Collection[str] = (),
    family: int = 1,
    sides: tuple[str, str] = SIDES,
    named: Callable[[str], str] = str,
) -> ComparisonSentence:
    """Whether B is better, or how its judge differs, by the leading row; and which rows contradict it.

    `gated` are the metrics with a gate, `family` is the number of p-values adjusted together, `sides` are the names of
    the runs, and `named` gives the titles of metrics.
    """
    if not rows:
        return ComparisonSentence(None, "The runs have no scored case in common.")
    named = distinct(named, (one.metric for one in rows))
    row = leading_row(rows, gated)
    unclear = [one for one in rows if one.attribution == "unclear"]
    if row.verdict == "cannot_tell" and any(one.verdict != "cannot_tell" for one in unclear):
        row = leading_row(unclear, gated)
    beside = ""
    if row.judged is not None and row.judged.difference is not None:
        beside = f"The {who_scored(row.judge)} alone says: {change_in_words(row, named, alone=True)}."
    if row.attribution == "judge":
        return ComparisonSentence(row, *_of_judges(row, changed, judges, named))
    change = change_in_words(row, named)
    if row.attribution == "data":
        clear = "" if row.verdict != "cannot_tell" else "no clear change in the scores, "
        return ComparisonSentence(row, f"Same answers, other test cases: {clear}{change}.", NOT_OF_THE_BOT)
    better, worse = (
        [one for one in rows if one is not row and one.verdict == verdict] for verdict in ("better", "worse")
    )
    if row.attribution == "unclear":
        differing = f"The difference cannot be attributed to one change, since {_differing(row, changed)} differ"
        return ComparisonSentence(row, f"{differing}: {change}.", _attributable(rows, named), beside)
    if row.verdict == "cannot_tell":
        between = "" if sides == SIDES else f" between {sides[0]} and {sides[1]}"
        first = f"No clear difference{between}{_why_unclear(row, family)}{_by_whom(row, rows)}: {change}."
    else:
        better, worse = ([], worse) if row.verdict == "better" else (better, [])
        than = "" if sides == SIDES else f" than {sides[0]}"
        first = f"{sides[1]} is {row.verdict}{than}{_by_whom(row, rows)}: {change}."
    return ComparisonSentence(row, first, _exceptions(better, worse, _by_people(row, rows), rows, named), beside)


def _by_whom(row: ComparisonRow, rows: Sequence[ComparisonRow]) -> str:
    """Says that the difference is by the judge or metrics alone; "" if labels correct it or nothing judges.

    Labels never correct the figure of whole cases.
    """
    if row.judged is not None:
        return ""
    if row.metric == CASES:
        by = by_whole_cases((one for one in rows if one.dataset == row.dataset), labelled=row.labelled > 0)
        return f", {by}" if by else ""
    if row.uncorrected:
        return f", by the {who_scored(row.judge)} alone, since labels correct nothing ({row.uncorrected})"
    return f"{_BY_JUDGE} alone" if row.judge and not row.labelled else ""


def _by_people(row: ComparisonRow, rows: Sequence[ComparisonRow]) -> Sequence[ComparisonRow]:
    """The metrics without a clear difference by labels, if whole cases have one by the judge alone."""
    if row.metric != CASES or row.verdict == "cannot_tell":
        return ()
    return [one for one in rows if one.judged is not None and one.tag is None and one.verdict == "cannot_tell"]


def _exceptions(
    better: Sequence[ComparisonRow],
    worse: Sequence[ComparisonRow],
    by_people: Sequence[ComparisonRow],
    rows: Sequence[ComparisonRow],
    named: Callable[[str], str],
) -> str:
    """Those of `rows` that contradict the first one, in a sentence."""
    unclear = [one for one in rows if one.attribution == "unclear"]
    clauses = [
        _are([_named(one, named) for one in own], end) for own, end in ((better, "better"), (worse, "worse")) if own
    ]
    clauses += [_are(_subjects(unclear, rows, named), "not attributable to one change")] if unclear else []
    same = "not clearly different by labels"
    clauses += [_are([_named(one, named) for one in by_people], same)] if by_people else []
    return f"But {' and '.join(clauses)}." if clauses else ""


def _attributable(rows: Sequence[ComparisonRow], named: Callable[[str], str]) -> str:
    """The result of the rows that only the answers affect, or ""."""
    own = [one for one in rows if one.attribution == "answers"]
    clauses = [
        _are([_named(one, named) for one in own if one.verdict == verdict], verdict)
        for verdict in ("better", "worse")
        if any(one.verdict == verdict for one in own)
    ]
    if clauses:
        return f"By the answers alone, {' and '.join(clauses)}."
    if not own:
        return ""
    return f"No clear difference in what the answers alone decide: {listed(_subjects(own, rows, named))}."


def _subjects(
    some: Sequence[ComparisonRow], rows: Sequence[ComparisonRow], named: Callable[[str], str]
) -> Sequence[str]:
    """What some of the rows are about: their metrics, with the statistic if another row of the metric is not one."""
    divided = {row.metric for row in rows if row.attribution != some[0].attribution}
    return [_named(row, named) if row.metric in divided else _metric(row, named) for row in some]


def _are(names: Sequence[str], end: str) -> str:
    several = len(set(names)) > 1
    return f"{listed(names)} {'are' if several else 'is'} {end}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, each once, such as `a, b and c`."""
    *most, last = dict.fromkeys(names)
    return f"{', '.join(most)} and {last}" if most else last


def _why_unclear(row: ComparisonRow, family: int) -> str:
    """Why a difference is not clear although its interval excludes 0; "" if the interval includes 0."""
    if excludes_zero(row.difference) and row.difference.p_value is not None:
        adjusted = f" after adjusting for {counted(family, 'comparison')}"
        return adjusted if is_significant(row.difference.p_value) else " by the test"
    return ""


def leading_row(rows: Sequence[ComparisonRow], gated: Collection[str]) -> ComparisonRow:
    """The row that decides whether a run is better.

    Preferred, in this order: rows over all cases, attributable rows, whole cases, metrics with a gate, with pass and
    fail, with a judge, with more answers. Among a metric's rows: corrected by labels, then pass rates.
    """
    passing = {row.metric for row in rows if row.has_pass_rate}

    def place(row: ComparisonRow) -> tuple[int, ...]:
        metric = row.metric != CASES, row.metric not in gated, row.metric not in passing, row.judge is None
        corrected = row.judged is not None
        return (
            row.tag is not None,
            row.attribution == "unclear",
            *metric,
            -row.difference.n,
            not corrected,
            not row.has_pass_rate,
        )

    return min(rows, key=place)


def _of_judges(
    row: ComparisonRow, changed: WhatChanged, judges: Sequence[JudgeAgreementChange], named: Callable[[str], str]
) -> tuple[str, str]:
    """The change by another judge of the same answers, and what is unknown about it."""
    parts = changed.judged(row.metric, row.statistic) or changed.judged(CASES)
    what = " and ".join(_CHANGES[kind] for kind in dict.fromkeys(part.kind for part in parts) if kind in _CHANGES)
    clear = "" if row.verdict != "cannot_tell" else "no clear change in its scores, "
    change = f"{clear}{change_in_words(row, named, than=' than before')}"
    agreed = [
        agreement for one in judges if one.metric in (row.metric, CASES) and (agreement := agreement_in_words(one))
    ]
    if not agreed and row.metric == CASES:
        agreed = [agreement for one in judges if (agreement := agreement_in_words(one, f" on {named(one.metric)}"))]
    first = f"Same answers, {what}: {'; '.join([*agreed, change])}."
    asks = row.judge is not None or any(part.kind in ("judge", "prompt") for part in parts)
    return first, "" if agreed or not asks else NOT_LABELLED


def agreement_in_words(change: JudgeAgreementChange, about: str = "") -> str:
    """Agreement with labels before and after, such as `agreement with labels .44 before, .46 now, no clear change`."""
    for one in change.changes[:1]:
        if one.before.value is not None and one.after.value is not None:
            ends = f"{number(one.before.value, 2)} before, {number(one.after.value, 2)} now"
            labels = counted(change.n_labels, "label")
            return f"agreement with labels{about} {ends} ({measure_in_words(one)}, {labels}; {agreement_verdict(one)})"
    return ""


def measure_in_words(change: AgreementChange) -> str:
    """The measure's name for people."""
    return _MEASURES[change.measure]


def agreement_verdict(change: AgreementChange) -> str:
    """Whether agreement with labels rose or fell."""
    verdict = of_difference(change.difference, change.difference.p_value, higher_is_better=True, of_answers=False)
    return {"higher": "clearly higher", "lower": "clearly lower"}.get(verdict, "no clear change")


def _differing(row: ComparisonRow, changed: WhatChanged) -> str:
    """Everything that differs, such as `the answers and the judge`."""
    own: list[ChangedPart] = [*changed.judged(row.metric, row.statistic)]
    own += [part for part in changed.parts if part.kind == "cases"]
    nouns = dict.fromkeys(_NOUNS[part.kind] for part in own)
    answers = [] if changed.same_answers else ["the answers" if changed.other_answers else "perhaps the answers"]
    return listed([*answers, *nouns])


def change_lines(changed: WhatChanged) -> list[str]:
    """The differences between two runs: a line for each part, with its settings; long texts are only named."""
    lines: list[str] = []
    for part in changed.parts:
        values = [f"{one.name} {_change_of(one)}" for one in part.values]
        lines.append(f"{part.what}: {', '.join(values)}" if values else part.what)
    if changed.other_answers:
        lines.append(f"{changed.other_answers:,} of {counted(changed.answers or 0)} have another answer")
    elif lines and changed.answers:
        lines.append(f"the answers of all {counted(changed.answers)} are the same")
    return lines


def _change_of(value: ChangedValue) -> str:
    """A value before and after; for long texts only the words that differ."""
    ends = value.before, value.after
    if None in ends or all(len(end or "") <= _VALUE for end in ends):
        return " → ".join("none" if end is None else cut(plain_line(end), _VALUE) for end in ends)
    changes = [[one.content for one in side if one.is_changed] for side in word_changes(*(end or "" for end in ends))]
    if not any(changes):
        return "differs in spaces only"
    return " → ".join(cut(plain_line(" … ".join(side)), _WORDS) or "nothing" for side in changes)


def preference_in_words(preference: PeoplePreference, sides: tuple[str, str] = SIDES) -> str:
    """Whose answers people prefer, how often, and how sure that is; `sides` are the names of the two runs.

    It begins with "Provisional" while people may still label.

    Example:
        >>> from evalflow.summary.preferences import preference_of
        >>> preference_in_words(preference_of(("a", "b"), [1.0] * 9 + [0.0], list("abcdefghij")))
        'People prefer B: its answer in 9 of 10 cases, that of A in 1 (share of B 90 %, 95 % interval 60 to 98 %).'
    """
    if not preference.n:
        known = preference.unsure or preference.outdated or preference.declined
        first = "No preference is known yet." if known else "Nobody has said yet which answer is better."
        return " ".join((first, *_not_counted(preference)))
    a, b = sides
    preferred, other, wins, losses = (
        (a, b, preference.losses, preference.wins)
        if preference.verdict == "first"
        else (b, a, preference.wins, preference.losses)
    )
    cases = f"{wins:,} of {counted(preference.n, 'case')}"
    people = "Provisional: people may still label. So far they" if preference.is_provisional else "People"
    if preference.verdict == "cannot_tell":
        first = f"{people} show no clear preference: the answer of {b} in {cases}, that of {a} in {losses:,}"
    else:
        first = f"{people} prefer {preferred}: its answer in {cases}, that of {other} in {losses:,}"
    tied, share = f", {counted(preference.ties, 'tie')}" if preference.ties else "", preference.share
    ends = ""
    if share.value is not None and share.low is not None and share.high is not None:
        half = "; a tie counts half" if preference.ties else ""
        interval = f"95 % interval {100 * share.low:.0f} to {100 * share.high:.0f} %"
        ends = f" (share of {b} {100 * share.value:.0f} %, {interval}{half})"
    return " ".join((f"{first}{tied}{ends}.", *_not_counted(preference)))


def _not_counted(preference: PeoplePreference) -> Iterator[str]:
    """The cases without a label that counts, and why."""
    more = "more " if preference.n else ""
    if preference.unsure:
        yield f"In {counted(preference.unsure, f'{more}case')} nobody could tell."
    if preference.outdated:
        cases = counted(preference.outdated, f"{more}case")
        yield f"The labels of {cases} are by older guidelines and no longer count."
    if preference.declined:
        yield f"{counted(preference.declined, f'{more}case')} {'was' if preference.declined == 1 else 'were'} declined."
    if preference.same:
        have, them = ("has", "it") if preference.same == 1 else ("have", "them")
        cases = counted(preference.same, f"{more}case")
        yield f"{cases} {have} the same answer in both; nobody was asked about {them}."


def gated_metrics(manifest: Manifest) -> set[str]:
    """The metrics of a run that have their own gate."""
    gates: Mapping[str, object] = manifest.config.get("gate") or {}
    own = {name for name in manifest.metrics if manifest.metric_config(name).get("gate")}
    return own | {name for about in gates if (name := about.split("@")[0]) in {*manifest.metrics, CASES}}


def in_words(rows: Sequence[ComparisonRow]) -> str:
    """How many differences are clear, over several pairs, and how many of these are not corrected by labels."""
    clear = [row for row in rows if row.verdict != "cannot_tell"]
    if not clear:
        return "No clear difference" + (f" in any of {len(rows)} comparisons." if len(rows) > 1 else ".")
    counts = [f"{n} {verdict}" for verdict in _CLEAR if (n := sum(row.verdict == verdict for row in clear))]
    alone = [whose for row in clear if (whose := _by_whom(row, [one for one in rows if one.pair == row.pair]))]
    by = "the judge" if any(whose.startswith(_BY_JUDGE) for whose in alone) else "the metrics"
    all_of_them = "" if len(alone) == len(clear) else f"{len(alone)} of these "
    whose = f", {all_of_them}by {by} alone" if alone else ""
    unclear = len(rows) - len(clear)
    return f"Of {len(rows)}: {', '.join(counts)}{whose}" + (
        f"; {unclear} without a clear difference." if unclear else "."
    )


def verdict_in_words(verdict: Verdict) -> str:
    """A verdict as a word or two."""
    return verdict.replace("_", " ")


def not_worse_in_words(row: ComparisonRow, margin: float) -> tuple[str, str]:
    """Whether B is not worse than A by more than the margin, and how many cases would decide."""
    needed = row.cases_to_decide(margin)
    more = f"about {needed:,} cases would decide at the same difference" if needed else ""
    parts = (f"by more than {margin:g}", more, unseen_in_words(row.unseen_share(margin), row.difference.clusters))
    return _NOT_WORSE[row.not_worse(margin)], "; ".join(part for part in parts if part)


def change_in_words(
    row: ComparisonRow, named: Callable[[str], str] = str, *, than: str = "", alone: bool = False
) -> str:
    """The difference of a row with its interval, such as `8 points more answers pass exact (2 to 14)`.

    With `alone` the judge's uncorrected difference. `than` is appended to the comparative, such as ` than before`.
    """
    difference = row.judged if alone and row.judged is not None else row.difference
    name = _named(row, named)
    if difference.difference is None:
        return f"{name} has no difference to show"
    rate = row.has_pass_rate and (alone or row.judged is None or row.statistic == "pass_rate")
    passing = "cases pass everything" if row.metric == CASES else f"answers pass {named(row.metric)}"
    more, fewer = ("more", "fewer") if rate else ("higher", "lower")
    rises = difference.difference >= 0
    here, there = (more, fewer) if rises else (fewer, more)
    ends = ""
    if difference.low is not None and difference.high is not None:
        low, high = (difference.low, difference.high) if rises else (-difference.high, -difference.low)
        if low < 0:
            ends = f" ({_amount(-low, row, short=True)} {there} to {_amount(high, row, short=True)} {here})"
        else:
            ends = f" ({_amount(low, row, short=True)} to {_amount(high, row, short=True)})"
    if not difference.difference:
        as_many = f"as many {passing}{' as before' if than else ' in both'}"
        return f"{as_many}{ends}" if rate else f"{name} is the same{' as before' if than else ' in both'}{ends}"
    size = _amount(abs(difference.difference), row)
    about = "" if row.higher_is_better else ", lower is better"
    return f"{size} {here} {passing}{than}{ends}" if rate else f"{name} is {size} {here}{than}{ends}{about}"


def _metric(row: ComparisonRow, named: Callable[[str], str]) -> str:
    return "the share of cases that pass everything" if row.metric == CASES else named(row.metric)


def _named(row: ComparisonRow, named: Callable[[str], str]) -> str:
    called = "" if row.metric == CASES else {"pass_rate": "pass rate"}.get(row.called, row.called)
    return f"{called} of {_metric(row, named)}" if called else _metric(row, named)


def _amount(value: float, row: ComparisonRow, *, short: bool = False) -> str:
    """A size in points of a hundred where no difference exceeds 1, else as a number."""
    if not row.bounded:
        return number(value)
    digits = 1 if 0 < value < _DETAIL * 2 else 0
    points = f"{100 * value:.{digits}f}"
    return points if short else f"{points} point{'' if points == '1' else 's'}"
