"""report.html: one offline page with the summary, the pictures and the case explorer."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

from evalflow.lazy import pl
from evalflow.paths import replacing
from evalflow.records.manifest import Manifest
from evalflow.report.cases import BLOCK, ExplorerWriter, most_informative, script_json
from evalflow.report.charts import bins_of, charts, matrix_of
from evalflow.report.ci import write_junit
from evalflow.report.console import WorstCase, worst_cases
from evalflow.report.findings import (
    cases_in,
    exclusion_findings,
    noise_findings,
    panel_findings,
    preference_findings,
)
from evalflow.report.gate_sentences import OUTCOMES, gates_once, of_gates
from evalflow.report.markdown import write_markdown
from evalflow.report.numbers import numbers_table, tag_tables
from evalflow.report.page import (
    PageColumn,
    PageHead,
    PageTable,
    content_policy,
    facts,
    judge_lines,
    of_what,
    sample_lines,
    subtitle,
    write_page,
)
from evalflow.report.reported import Reported, facts_by_title, with_title, with_titles
from evalflow.report.results_csv import (
    AnsweredCase,
    CaseKey,
    CasesWriter,
    MiscategorisedWriter,
    ResultsWriter,
    json_or_text,
    of_cases,
    rows,
)
from evalflow.report.sentences import of_run, reasons_once
from evalflow.report.wording import (
    PARTS,
    case_name,
    cut,
    has_made_id,
    joined,
    number,
    series_name,
    varying,
    without_means_of_figures,
)
from evalflow.summary.rows import Detail, DetailSeries, rows_of

_NAMES = ("metric", "statistic", "tag", *PARTS)
_STYLES = ("page.css", "tables.css", "explorer.css", "print.css")
_SCRIPTS = ("print.js", "data.js", "filter.js", "list.js", "steps.js", "detail.js", "main.js")

_WORST = [PageColumn("Case"), PageColumn("Metric"), PageColumn("Score", "num"), PageColumn("Reason")]
_PRINTED, _LONGEST = 20, 200
"""Maximum cases to print, and characters of a reason."""


def report_policy() -> str:
    """The content security policy of report.html, as in its header."""
    return content_policy(_STYLES, _SCRIPTS)


def write_html(
    path: Path,
    run: Reported,
    explorer: ExplorerWriter,
    cases: int,
    worst: Sequence[WorstCase],
    questions: Mapping[tuple[str, str], str],
) -> None:
    """Write the page of a run with titles and so many `cases`; `questions` are of named ones without own ids."""
    rows = without_means_of_figures(rows_of(run.summary))
    manifest = run.manifest
    lower = {name: config.direction for name, config in run.metrics.items()}
    gated = {gate["of_metric"] for gate in run.gates}
    heads = of_run(rows, gated)
    head = PageHead(
        "Evaluation run",
        of_what(manifest),
        subtitle(manifest),
        judge_lines(manifest),
        sample_lines(manifest),
        facts(manifest),
        headlines=[*((one.first, one.more) for one in heads), *((of_gates(run.gates), "") for _ in run.gates[:1])],
    )
    context = {
        "manifest": manifest.text,
        "proofs": _proofs(manifest),
        "gates": [*gates_once(run.gates)],
        "OUTCOMES": OUTCOMES,
        "numbers": numbers_table([row for row in rows if row.tag is None], lower, facts_by_title(manifest)),
        "worst": PageTable(_WORST, [_worst_cells(row, questions) for row in worst]),
        "rows": [*reasons_once((row for row in rows if row.tag is None), heads)],
        "by_tag": tag_tables([row for row in rows if row.tag is not None]),
        "parts": varying(rows),
        "metrics": run.metrics,
        "corrected": run.calibration.corrected_means if run.calibration else [],
        "who": run.calibration.who if run.calibration else None,
        "pictures": charts(run.scores, run.summary, run.details, run.metrics),
        "preferences": preference_findings(run.details),
        "excluded": exclusion_findings(run.details),
        "noise": noise_findings(run.details, questions),
        "panels": panel_findings(run.details, manifest, questions),
        "details": _notes([detail for detail in run.details if not {"noise", "panel", "excluded"} & detail.keys()]),
        "cases": cases,
        "shown": explorer.shown,
        "wanted": cases if explorer.wanted is None else len(explorer.wanted),
    }
    write_page(path, "report.html.jinja", head, context | _data(run, explorer), styles=_STYLES, scripts=_SCRIPTS)


def _proofs(manifest: Manifest) -> list[tuple[str, PageTable]]:
    """A title and a table for each metric whose judge was proved; only few runs have one."""
    if not any(about.proof for about in manifest.metrics.values()):
        return []
    from evalflow.report.proof import proof_tables

    return proof_tables(manifest)


def _worst(run: Reported) -> list[WorstCase]:
    directions = {name: config.direction for name, config in run.metrics.items()}
    return worst_cases(run.scores, directions, _people(run), _PRINTED)


def _people(run: Reported) -> pl.DataFrame | None:
    return run.calibration.people if run.calibration else None


def _without_ids(worst: Sequence[WorstCase], details: Sequence[Detail]) -> set[tuple[str, str]]:
    """The listed cases without ids of their own, by dataset and id; their questions are shown."""
    listed = [*((case.dataset, case.case_id) for case in worst), *cases_in(details)]
    return {(dataset, case_id) for dataset, case_id in listed if has_made_id(case_id)}


def _worst_cells(case: WorstCase, questions: Mapping[tuple[str, str], str]) -> list[str]:
    name = case_name(case.case_id, questions.get((case.dataset, case.case_id)))
    return [name, case.metric, f"{number(case.score, 2)}{case.by_labels}", cut(case.reason, _LONGEST)]


def _data(run: Reported, explorer: ExplorerWriter) -> dict[str, Any]:
    """Data for script elements, inserted unescaped. It all comes from `script_json`, so it cannot end an element."""
    metrics = {name: {"description": m.description, "direction": m.direction} for name, m in run.metrics.items()}
    legend = explorer.legend()
    legend["series"] = [with_title(series, run.manifest.titles) for series in legend["series"]]
    return {
        "legend": script_json(legend | {"metrics": metrics}),
        "index": _listed(explorer.index),
        "blocks": _blocks(explorer.details),
    }


def _notes(details: Sequence[Detail]) -> list[tuple[str, str]]:
    """Label and text of the details over all tags that have no picture."""
    notes: list[tuple[str, str]] = []
    parts = varying(map(DetailSeries.of, details))
    for detail in details:
        if detail.get("tag") is None and matrix_of(detail) is None and not bins_of(detail):
            label = joined(detail["metric"], detail["statistic"], series_name(DetailSeries.of(detail), parts))
            rest = {name: value for name, value in detail.items() if name not in _NAMES and value is not None}
            notes.append((label, ", ".join(f"{name}: {json_or_text(rest[name])}" for name in rest)))
    return notes


def _listed(file: TextIO) -> Iterator[str]:
    """The lines joined by commas, in chunks: the template makes about ten calls for each chunk."""
    file.seek(0)
    comma = ""
    while lines := ",".join(islice(file, BLOCK)):
        yield comma + lines
        comma = ","


def _blocks(file: TextIO) -> Iterator[str]:
    """The lines, `BLOCK` at a time, compressed: details of cases repeat each other, and people read few of them."""
    file.seek(0)
    while lines := "".join(islice(file, BLOCK)):
        yield b64encode(zlib.compress(lines.encode())).decode()


def write_reports(folder: Path, run: Reported) -> bool:
    """Write results.csv, report.html, junit.xml and summary.md into the run's folder, and cases.jsonl if none is kept.

    With a metric that classifies cases, also miscategorised.csv. Cases that were not asked because all gates were
    decided are only in cases.jsonl. Each file is replaced once the new one is complete. UserError if the cases are not
    those that were scored; files are then unchanged.

    Returns whether the run's cases are few enough to list. If they are not, report.html and junit.xml have the
    `most_informative` ones, and results.csv has no questions and answers.
    """
    wanted = most_informative(run.scores, run.metrics, people=_people(run))
    shown = with_titles(run)
    worst, questions = _worst(shown), dict[tuple[str, str], str]()
    unnamed = _without_ids(worst, run.details)
    with ExitStack() as stack:
        table = stack.enter_context(replacing(folder / "results.csv", newline=""))
        index, details = (
            stack.enter_context(TemporaryFile("w+", encoding="utf-8", errors="replace")) for _ in range(2)
        )
        explorer = ExplorerWriter(index, details, wanted)
        writers = [explorer.write]
        if wanted is None:
            writers.append(ResultsWriter(table, run.scores).write)
        else:
            from evalflow.report.large_results import write_large_results  # late: few runs are large

            write_large_results(table, run.scores)
        if run.categorising:
            file = stack.enter_context(replacing(folder / "miscategorised.csv", newline=""))
            writers.append(MiscategorisedWriter(file, run.categorising).write)
        write_case = None
        if run.kept is None:
            write_case = CasesWriter(stack.enter_context(replacing(folder / "cases.jsonl"))).write
        for row in _rows(run, wanted, unnamed):
            if write_case:
                write_case(row)
            if (key := (row.case.dataset, row.case.id)) in unnamed:
                questions[key] = row.case.question or ""
            for write in writers if row.scores or not run.manifest.stopped else ():
                write(row)
        explorer.finish()
        cases = explorer.cases if wanted is None else _count_cases(run.scores)
        write_html(folder / "report.html", shown, explorer, cases, worst, questions)
    write_junit(folder / "junit.xml", run, wanted)
    write_markdown(folder / "summary.md", shown)
    return wanted is None


def _rows(run: Reported, wanted: Collection[CaseKey] | None, unnamed: Collection[CaseKey]) -> Iterator[AnsweredCase]:
    """The answered cases that the reports need: all, or if cases.jsonl is kept those that are listed or named."""
    if run.kept is None or wanted is None or run.categorising:
        return rows(run.cases, run.answers, run.scores)
    needed = {*wanted, *unnamed}
    return rows(run.kept(needed), run.answers, of_cases(run.scores, needed))


def _count_cases(scores: pl.LazyFrame) -> int:
    """The number of cases that have scores."""
    return scores.select("dataset", "case_id").unique().select(pl.len()).collect(engine="streaming").item()
