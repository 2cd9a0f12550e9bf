"""Markdown for pull requests and job pages: summary.md of a run, and compare.md of two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalflow.paths import replacing
from evalflow.report.findings import exclusion_findings, preference_findings
from evalflow.report.gate_sentences import OUTCOMES, gates_once
from evalflow.report.numbers import HEAD, own_scale_cells
from evalflow.report.page import judge_lines, sample_lines, title
from evalflow.report.reported import Reported, facts_by_title
from evalflow.report.sentences import label_lines, of_run
from evalflow.report.wording import (
    caveat_lines,
    cost,
    cut,
    headline_rows,
    interval,
    number,
    p_value,
    percent,
    plain_line,
    series_name,
    signed,
    varying,
)
from evalflow.summary.rows import SummaryRow

if TYPE_CHECKING:
    from evalflow.report.calibration import CorrectedRow
    from evalflow.report.comparison import Comparison
    from evalflow.summary.case_changes import CaseChanges

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#])")
_ESCAPED = re.compile(rf"\\{_SPECIAL.pattern}")
_FLIPS = 20  # cases that compare.md lists
_LONGEST = 160  # characters of a text in a cell


def write_markdown(path: Path, run: Reported) -> None:
    """Write the page: gates, metrics with intervals and counts, and the run's calls, cost and time."""
    with replacing(path) as file:
        for line in _lines(run):
            file.write(f"{line}\n")


def _lines(run: Reported) -> Iterator[str]:
    yield f"## {_text(title(run.manifest))}"
    yield ""
    rows = headline_rows(run.summary)
    heads = of_run(rows, {gate["of_metric"] for gate in run.gates})
    for statement in heads:
        yield f"**{_text(statement.first)}**{'. ' if statement.more else ''}{_text(statement.more)}"
        yield ""
    yield from (f"{_text(line)}  " for line in (*judge_lines(run.manifest), *sample_lines(run.manifest)))
    if run.gates:
        yield ""
        yield "| gate | |"
        yield "|---|---|"
        for gate in gates_once(run.gates):
            statement = OUTCOMES[gate["passed"]]
            yield f"| {_text(gate['message'])} | {statement if gate['passed'] else f'**{statement}**'} |"
    parts, labelled = varying(rows), any(row.n_labels is not None for row in rows)
    who = "judge" if any(row.judge for row in rows) else "metric"
    grades = own_scale_cells(rows, facts_by_title(run.manifest))
    graded = bool(grades)
    columns, own = f" {who} alone | labels |" * labelled, f" {HEAD} |" * graded
    yield ""
    yield f"| metric | score |{own} 95 % interval | pass |{columns} scored | undefined | error | skipped |"
    yield f"|---|--:|{'--:|' * graded}---|--:|{'--:|--:|' * labelled}--:|--:|--:|--:|"
    for place, row in enumerate(rows):
        cells = _cells(row, series_name(row, parts), labelled=labelled)
        yield f"| {' | '.join((*cells[:2], *grades[place : place + 1], *cells[2:]))} |"
    for text in [
        *label_lines(rows, heads),
        *caveat_lines(rows),
        *exclusion_findings(run.details),
        *preference_findings(run.details),
    ]:
        yield ""
        yield _text(text)
    if run.calibration:
        yield from _corrected(run.calibration.corrected_means)
    yield ""
    yield f"{_text(str(run.manifest.run_id))}, cost {cost(run.manifest.cost_usd)}"


def write_comparison_markdown(path: Path, comparison: Comparison) -> None:
    """Write a comparison: a row for each difference with its verdict, notes, and the cases that flipped."""
    with replacing(path) as file:
        for line in _compared(comparison):
            file.write(f"{line}\n")


def _compared(comparison: Comparison) -> Iterator[str]:
    from evalflow.report.comparison_sentences import change_lines, verdict_in_words

    for pair, sentence in comparison.sentences.items():
        yield f"### {_text(pair[1])} against {_text(pair[0])}"
        yield ""
        yield f"**{_text(str(sentence))}**"
        yield ""
        if sentence.beside:
            yield f"{_text(sentence.beside)}\n"
        changed = next((one for one in comparison.changed if one.pair == pair), None)
        if lines := change_lines(changed) if changed else []:
            yield from (f"- {_text(line)}" for line in lines)
            yield ""
        yield f"| metric | before | now | difference | 95 % interval | {comparison.p_name} | |"
        yield "|---|--:|--:|--:|---|--:|---|"
        for row in (row for row in comparison.rows if row.pair == pair):
            tag, one = f"@{row.tag}" if row.tag else "", row.difference
            name = _text(" ".join(part for part in (row.metric, row.called, tag) if part))
            numbers = (number(one.value_a), number(one.value_b), signed(one.difference))
            rest = (
                interval(one.low, one.high, signed),
                p_value(row.p_adjusted),
                f"**{verdict_in_words(row.verdict)}**",
            )
            yield f"| {' | '.join((name, *numbers, *rest))} |"
        yield ""
    yield _text(comparison.family)
    yield from (f"\n{_text(note)}" for note in comparison.notes)
    for changed in comparison.flips:
        yield from _flipped(changed, comparison)


def _flipped(changed: CaseChanges, comparison: Comparison) -> Iterator[str]:
    from evalflow.report.comparison import also_changed, became, by_labels_in_words, flipped_in_words

    listed = changed.cases[:_FLIPS]
    left = changed.listed - len(listed)
    yield f"\n<details><summary>{flipped_in_words(changed)}</summary>\n"
    if listed:
        yield "| | case | metric | also changed | question | before | now | reason |"
        yield "|---|---|---|---|---|--:|--:|---|"
    for one in listed:
        asked = cut(comparison.questions.get((one.dataset, one.case_id)), _LONGEST)
        metric = f"{one.metric}{by_labels_in_words(one)}"
        texts = (became(one), one.case_id, metric, also_changed(one), asked)
        scores = (number(one.score_a, 2), number(one.score_b, 2))
        yield f"| {' | '.join((*map(_text, texts), *scores, _text(cut(one.reason, _LONGEST))))} |"
    if left > 0:
        yield f"\n{left} more in compare.html"
    yield "\n</details>"


def _corrected(means: Sequence[CorrectedRow]) -> Iterator[str]:
    for one in means:
        yield ""
        if one.adds:
            yield _text(one.sentence)
        yield from (f"**Warning:** {_text(warning)}." for warning in one.warnings)


def _cells(row: SummaryRow, series: str, *, labelled: bool) -> list[str]:
    beside = (number(row.raw_value), "–" if row.n_labels is None else f"{row.n_labels:,}")
    figure = "" if row.statistic == "mean" else row.statistic
    return [
        _text(" ".join(part for part in (row.metric, figure, series) if part)),
        number(row.value),
        interval(row.ci_low, row.ci_high),
        percent(row.pass_rate),
        *(beside if labelled else ()),
        *map(str, row.states.values()),
    ]


def _text(text: str) -> str:
    """Untrusted text on one line, with markup escaped."""
    return _SPECIAL.sub(r"\\\1", plain_line(text))


def unescaped(text: str) -> str:
    r"""Return Markdown as it is read in a terminal, without the backslashes.

    Example:
        >>> unescaped(r"exact\_match")
        'exact_match'
    """
    return _ESCAPED.sub(r"\1", text)
