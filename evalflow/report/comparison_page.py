"""compare.html: a comparison as one page that opens with its result."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from evalflow.records.manifest import Manifest
from evalflow.report.charts import Picture, draw
from evalflow.report.comparison import Comparison, also_changed, by_labels_in_words, flipped_in_words, judges_of
from evalflow.report.comparison_sentences import (
    CLEAR,
    ONE_RUN,
    SIDES,
    agreement_verdict,
    in_words,
    measure_in_words,
    not_worse_in_words,
    verdict_in_words,
)
from evalflow.report.page import INTERVAL, METHOD, Cell, PageColumn, PageHead, PageTable, of_what, write_page
from evalflow.report.svg import IntervalPoint, interval_chart
from evalflow.report.word_changes import Stretch, shortened, word_changes
from evalflow.report.wording import (
    case_lines,
    cut,
    interval,
    joined,
    method,
    metric_name,
    number,
    p_value,
    plain_line,
    signed,
)
from evalflow.summary.case_changes import CaseChanges
from evalflow.summary.changed import ChangedValue, WhatChanged
from evalflow.summary.compare import ComparisonRow


def write_comparison(path: Path, comparison: Comparison) -> None:
    """Write one self-contained page; replaces the one before."""
    labels = comparison.runs if comparison.several else ("A", "B")
    beside = "" if comparison.several else " ".join(one.beside for one in comparison.sentences.values())
    how = "case by case" if comparison.paired else "two samples of different cases"
    head = PageHead(
        "Comparison",
        _title(comparison),
        how if comparison.several else joined(*_named_sides(comparison), how),
        comparison.judges,
        facts=[(label, _facts(manifest)) for label, manifest in zip(labels, comparison.runs.values(), strict=True)],
        wide=True,
        headlines=[(comparison.sentence, beside)],
    )
    rows = comparison.shown.shown(comparison.rows)
    every = _differences_table(comparison, rows)
    context = {
        "comparison": comparison,
        "ONE_RUN": ONE_RUN,
        "CLEAR": CLEAR,
        "differences": _without(every, _DETAILS),
        "every": every,
        "what": [] if comparison.several else comparison.changes,
        "agreement": _agreement_table(comparison),
        "words": [one for one in changed_values(comparison.changed[0]) if one[1]]
        if comparison.changed and not comparison.several
        else [],
        "changes": [
            (changed, flipped_in_words(changed), _flips_table(changed, comparison)) for changed in comparison.flips
        ],
        "pictures": difference_pictures(rows, paired=comparison.paired),
    }
    write_page(path, "comparison.html.jinja", head, context)


def changed_values(changed: WhatChanged) -> list[tuple[str, str, Sequence[Stretch], Sequence[Stretch]]]:
    """Each part that changed, and its settings, with the changed words in context."""
    values: list[tuple[str, str, Sequence[Stretch], Sequence[Stretch]]] = []
    for part in changed.parts:
        for one in part.values or [ChangedValue("", None, None)]:
            before, after = word_changes(one.before or "", one.after or "")
            values.append((part.what, one.name, shortened(before), shortened(after)))
    return values


_LISTED = 20
"""Maximum changed cases on the page, so that it prints on few sheets; `compare --json` has more."""
_DETAILS = ("p", "Could detect", METHOD.name)
"""Columns that only the appendix has."""


def _without(table: PageTable, names: Collection[str]) -> PageTable:
    kept = [place for place, column in enumerate(table.columns) if column.name not in names]
    rows = [[row[place] for place in kept] for row in table.rows]
    return PageTable([table.columns[place] for place in kept], rows, table.caption)


def _title(comparison: Comparison) -> str:
    """The two runs by their titles, or those of their bots; by their letters if both are the same."""
    if comparison.several:
        return f"All pairs of {len(comparison.runs)} runs"
    a, b = ("run A", "run B") if comparison.sides == SIDES else comparison.sides
    return f"{b[:1].upper()}{b[1:]} against {a}" if comparison.sides == SIDES else f"{b} against {a}"


def _named_sides(comparison: Comparison) -> Iterator[str]:
    for label, (name, manifest) in zip("AB", comparison.runs.items(), strict=True):
        yield f"{label}: {plain_line(comparison.titles.get(name) or of_what(manifest))}, {manifest.started_at[:10]}"


def _differences_table(comparison: Comparison, rows: Sequence[ComparisonRow]) -> PageTable:
    """The table of the rows, which have titles instead of names."""
    columns = [
        PageColumn("Metric"),
        PageColumn("A", "num"),
        PageColumn("B", "num"),
        PageColumn("B minus A", "num value"),
        INTERVAL,
        PageColumn("p", "num"),
        PageColumn(comparison.p_name, "num"),
        PageColumn("Verdict", "strong"),
        PageColumn("Cases", "num"),
        PageColumn("Could detect", "num"),
        METHOD,
    ]
    cells: list[Sequence[Cell]] = []
    for row in rows:
        one, tag = row.difference, f", {row.tag}" if row.tag else ""
        lower = "" if row.higher_is_better else ", lower is better"
        pair = f" · {row.pair[1]} against {row.pair[0]}" if comparison.several else ""
        clusters = f"{one.clusters:,} clusters" if one.clusters != one.n else ""
        verdict = verdict_in_words(row.verdict)
        cells.append(
            (
                (metric_name(row.metric), f"{row.called or 'mean'}{tag}{lower} · {row.dataset}{pair}"),
                number(one.value_a),
                number(one.value_b),
                signed(one.difference),
                interval(one.low, one.high, signed),
                p_value(one.p_value),
                p_value(row.p_adjusted),
                verdict
                if comparison.margin is None
                else (verdict, " ".join(not_worse_in_words(row, comparison.margin))),
                (f"{one.n:,}", clusters),
                number(row.detectable),
                method(one.method),
            )
        )
    return PageTable(columns, cells)


def _agreement_table(comparison: Comparison) -> PageTable:
    """A table of the agreement with labels of both judges of the same answers, before and after."""
    columns = [
        PageColumn("Metric"),
        PageColumn("Measure"),
        PageColumn("Before", "num"),
        PageColumn("Now", "num"),
        PageColumn("Difference", "num value"),
        INTERVAL,
        PageColumn("Verdict", "strong"),
        PageColumn("Labels", "num"),
    ]
    cells: list[Sequence[Cell]] = []
    for pair, changes in comparison.judge_changes.items():
        for one in changes:
            about = joined(
                comparison.shown.dataset(one.dataset),
                judges_of(comparison, pair, one),
                f"{pair[1]} against {pair[0]}" if comparison.several else "",
            )
            for change in one.changes:
                before, after, difference = change.before, change.after, change.difference
                cells.append(
                    (
                        (comparison.named(one.metric), about),
                        measure_in_words(change),
                        (number(before.value, 2), interval(before.low, before.high)),
                        (number(after.value, 2), interval(after.low, after.high)),
                        signed(difference.difference),
                        interval(difference.low, difference.high, signed),
                        agreement_verdict(change),
                        str(one.n_labels),
                    )
                )
    return PageTable(columns, cells)


def _flips_table(changed: CaseChanges, comparison: Comparison) -> PageTable:
    columns = [
        PageColumn("Case"),
        PageColumn("Metric", "strong", "Below it, other metrics that changed"),
        PageColumn("A", "num"),
        PageColumn("B", "num"),
        PageColumn("Change", "num value", "Below 0 is worse"),
        PageColumn("Reason in B"),
    ]
    passes = {True: "pass", False: "fail", None: ""}
    metric = comparison.shown.metric
    cells = [
        (
            case_lines(one.case_id, comparison.questions.get((one.dataset, one.case_id))),
            (f"{metric(one.metric)}{by_labels_in_words(one)}", also_changed(one, metric)),
            (number(one.score_a), passes[one.passed_a]),
            (number(one.score_b), passes[one.passed_b]),
            signed(one.change),
            cut(one.reason or "–", 300),
        )
        for one in changed.cases[:_LISTED]
    ]
    return PageTable(columns, cells)


def difference_pictures(rows: Sequence[ComparisonRow], *, paired: bool = True) -> list[Picture]:
    """Differences as points on their intervals, about 0; one picture for each pair of runs."""
    pictures: list[Picture] = []
    pairs = dict.fromkeys(row.pair for row in rows)
    for pair in pairs:
        own = [row for row in rows if row.pair == pair and row.difference.difference is not None]
        if own:
            title = f"{pair[1]} minus {pair[0]}" if len(pairs) > 1 else "B minus A"
            over = "the cases that both scored" if paired else "the cases of each run"
            sentence = f"Each dot is the difference over {over}, with its 95 % interval. An interval that includes 0 "
            sentence += f"shows no clear difference. {in_words(own)}"
            several = len({row.dataset for row in own}) > 1
            points = [_point(row, with_dataset=several) for row in own]
            pictures.append(draw(title, sentence, interval_chart(points, None, "difference", reference=0)))
    return pictures


def _point(row: ComparisonRow, *, with_dataset: bool) -> IntervalPoint:
    label = joined(row.dataset if with_dataset else "", row.metric, row.called, row.tag)
    label += "" if row.higher_is_better else " (lower is better)"
    return IntervalPoint(label, row.difference.difference, row.difference.low, row.difference.high)


def _facts(manifest: Manifest) -> str:
    return f"{manifest.run_id}; target {manifest.target.name}; {shlex.join(manifest.overrides)}"
