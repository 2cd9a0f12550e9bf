"""summary.md: a run in a few lines of Markdown, for the page of a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.files import replacing
from evalflow.report.findings import preference_findings
from evalflow.report.header import judge_lines, title
from evalflow.report.wording import cost, headline_rows, interval, number, percent, plain_line, series_name, varying

if TYPE_CHECKING:
    from evalflow.report.calibration import CorrectedRow
    from evalflow.report.html import Reported

_OUTCOMES = {True: "passed", False: "**failed**", None: "**undecided**"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#])")


def write_markdown(path: Path, run: Reported) -> None:
    """Write the page: gates, metrics with intervals and counts, and the run's calls, cost and time."""
    with replacing(path) as file:
        for line in _lines(run):
            file.write(f"{line}\n")


def _lines(run: Reported) -> Iterator[str]:
    yield f"## {_text(title(run.manifest))}"
    yield ""
    yield from (f"{_text(line)}  " for line in judge_lines(run.manifest))
    if run.gates:
        yield ""
        yield "| gate | |"
        yield "|---|---|"
        yield from (f"| {_text(gate['message'])} | {_OUTCOMES[gate['passed']]} |" for gate in run.gates)
    rows = headline_rows(run.summary)
    parts = varying(rows)
    yield ""
    yield "| metric | value | 95 % interval | pass | scored | undefined | error | skipped |"
    yield "|---|--:|---|--:|--:|--:|--:|--:|"
    for row in rows:
        yield f"| {' | '.join(_cells(row, series_name(row, parts)))} |"
    for text in preference_findings(run.details):
        yield ""
        yield _text(text)
    if run.calibration:
        yield from _corrected(run.calibration.corrected_means, run.calibration.who)
    yield ""
    yield f"{_text(str(run.manifest['run_id']))}, cost {cost(run.manifest.get('cost_usd'))}"


def _corrected(means: Sequence[CorrectedRow], who: str) -> Iterator[str]:
    """The means as scored and as corrected by human labels, side by side."""
    if means:
        yield ""
        yield f"| compared with human labels | {who} alone | 95 % interval | corrected by labels | 95 % interval |"
        yield "|---|--:|---|--:|---|"
    for one in means:
        cells = (_text(one.name), one.alone, one.alone_interval, f"**{one.corrected}**", one.corrected_interval)
        yield f"| {' | '.join(cells)} |"
    for one in means:
        yield ""
        yield _text(one.sentence)
        yield from (f"**Warning:** {_text(warning)}." for warning in one.warnings)


def _cells(row: Mapping[str, Any], series: str) -> list[str]:
    figure = "" if row["statistic"] == "mean" else row["statistic"]
    return [
        _text(" ".join(part for part in (row["metric"], figure, series) if part)),
        number(row["value"]),
        interval(row["ci_low"], row["ci_high"]),
        percent(row["pass_rate"]),
        *(str(row[f"n_{state}"]) for state in ("scored", "undefined", "error", "skipped")),
    ]


def _text(text: str) -> str:
    """Untrusted text on one line, with markup escaped."""
    return _SPECIAL.sub(r"\\\1", plain_line(text))
