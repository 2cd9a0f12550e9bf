"""All reports of one run: three of them in one pass over the cases."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

from evalflow.files import replacing
from evalflow.report.explorer import ExplorerWriter
from evalflow.report.html import write_html
from evalflow.report.inputs import Reported
from evalflow.report.join import Row, rows
from evalflow.report.junit import write_junit
from evalflow.report.markdown import write_markdown
from evalflow.report.miscategorised import MiscategorisedWriter
from evalflow.report.results import CasesWriter, ResultsWriter
from evalflow.report.telling import most_telling

__all__ = ["Reported", "write_reports"]


class RowSink(Protocol):
    """A report that takes in the run row by row."""

    def write(self, row: Row) -> None:
        """Take in one row."""
        ...


def write_reports(folder: Path, run: Reported) -> None:
    """Write results.csv, cases.jsonl, report.html, junit.xml and summary.md into the run's folder.

    And miscategorised.csv, where a metric puts cases into one of several classes.

    Each replaces the one before when it is complete; `run.cases` may come from the folder's own cases.jsonl.

    Raises:
        UserError: The cases are not those that were scored; the files are as they were.
    """
    with ExitStack() as stack:
        table = stack.enter_context(replacing(folder / "results.csv", newline=""))
        cases = stack.enter_context(replacing(folder / "cases.jsonl"))
        index, details = (
            stack.enter_context(TemporaryFile("w+", encoding="utf-8", errors="replace")) for _ in range(2)
        )
        explorer = ExplorerWriter(index, details, most_telling(run.scores, run.metrics))
        sinks: list[RowSink] = [ResultsWriter(table, run.scores), CasesWriter(cases), explorer]
        if run.categorising:
            file = stack.enter_context(replacing(folder / "miscategorised.csv", newline=""))
            sinks.append(MiscategorisedWriter(file, run.categorising))
        for row in rows(run.cases, run.answers, run.scores):
            for sink in sinks:
                sink.write(row)
        explorer.finish()
        write_html(folder / "report.html", run, explorer)
    write_junit(
        folder / "junit.xml",
        manifest=run.manifest,
        gates=run.gates,
        scores=run.scores,
        max_error_rate=run.max_error_rate,
    )
    write_markdown(folder / "summary.md", run)
