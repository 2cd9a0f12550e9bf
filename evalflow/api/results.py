"""What the functions of evalflow return: runs, comparisons and calibrations, as Polars frames and pages."""

from __future__ import annotations

import html
import webbrowser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.app.core.cases import answers_of
from evalflow.app.core.derive import causes_of_errors
from evalflow.app.core.rederive import facts_of_run
from evalflow.app.core.saved import SavedRun, expect_scores, find_run
from evalflow.engine.folder import RunFolder
from evalflow.errors import EvalflowError
from evalflow.labels.read import answer_hash
from evalflow.lazy import pl
from evalflow.report.gate_sentences import of_exit, of_gates, of_outcome
from evalflow.report.markdown import unescaped
from evalflow.report.results_csv import AnsweredCase, by_column, columns_of_scores, json_or_text, rows, score_cells
from evalflow.summary.rows import GateOutcome as GateOutcome
from evalflow.summary.verdicts import Verdict, too_many_errors
from evalflow.values.jsonvalues import is_list, is_mapping, objects_at

if TYPE_CHECKING:
    import polars

    from evalflow.report.calibration import Calibration
    from evalflow.report.comparison import Comparison

_SHOWN = (
    *("dataset", "metric", "target", "judge", "n_labels", "judge_mean", "human_mean"),
    *("corrected_estimate", "corrected_ci_low", "corrected_ci_high"),
)  # columns of a calibration in a notebook
_HEIGHT = 720  # of a page in a notebook, in pixels


@dataclass(frozen=True)
class Report:
    """A page of results, which notebooks show."""

    path: Path

    def open(self) -> bool:
        """Show it in the browser; returns whether one was found."""
        return webbrowser.open(self.path.as_uri())

    def _repr_html_(self) -> str:
        page = html.escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" title="{self.path.name}" width="100%" height="{_HEIGHT}"></iframe>'


@dataclass(frozen=True)
class RunResult:
    """A run, read from its folder. `print` and notebooks show its table of metrics.

    Attributes:
        folder: The folder with its files.
        notes: The warnings that it began with, such as that its judge has no certificate; empty if it was loaded.
    """

    folder: Path
    notes: Sequence[str] = ()

    @property
    def summary(self) -> polars.DataFrame:
        """A row for each dataset, target, metric, statistic, judge and tag (null: all cases), as in summary.parquet."""
        return pl.read_parquet(self.folder / "summary.parquet")

    @property
    def scores(self) -> polars.DataFrame:
        """A row for each score, as in scores.parquet."""
        return pl.read_parquet(scored_run(self).folder.scores)

    @property
    def cases(self) -> polars.DataFrame:
        """A row for each answer: its case, and for each metric METRIC, METRIC_passed and METRIC_reason.

        A label of a generated answer names its `answer_hash`. METRIC is the score; null unless there is one, and then
        the reason begins with the state. Metrics with several judges or repeats have columns for each, as in
        results.csv.
        """
        saved = scored_run(self)
        columns = columns_of_scores(saved.scores())
        schema: dict[str, Any] = {
            "dataset": pl.String,
            "case_id": pl.String,
            "target": pl.String,
            "target_repeat": pl.Int64,
            "tags": pl.List(pl.String),
            "question": pl.String,
            "answer": pl.String,
            "answer_hash": pl.String,
            "reference": pl.String,
            "contexts": pl.List(pl.String),
        }
        for score, passed, reason in columns.values():
            schema |= {score: pl.Float64, passed: pl.Boolean, reason: pl.String}
        with answers_of(saved.folder, saved.rules.settings.run) as answers:
            answered = rows(saved.cases(), answers, saved.scores())
            records = [
                [*_cells(row), *(cell for key in columns for cell in score_cells(scores.get(key)))]
                for row in answered
                for scores in [by_column(row)]
            ]
        return pl.DataFrame(records, schema=schema, orient="row")

    @property
    def report(self) -> Report:
        """The page with all its results."""
        return Report(self.folder / "report.html")

    @property
    def gates(self) -> list[GateOutcome]:
        """What the gates say: `name`, `passed` (None: undecided), `value`, `ci_low`, `ci_high`, `message` and more.

        A gate on several datasets, targets or judges has a row for each.
        """
        return facts_of_run(scored_run(self).folder)["gates"]

    @property
    def sentence(self) -> str:
        """What the gates say together: which fail, which are undecided, and why; or that too many scores are errors."""
        gates, manifest = self.gates, RunFolder(self.folder).read_manifest()
        allowed = scored_run(self).rules.settings.run.max_error_rate
        if manifest.exit_code == 3 and too_many_errors(
            manifest.scores["error"], sum(manifest.scores.values()), allowed
        ):
            causes, example = causes_of_errors(pl.scan_parquet(scored_run(self).folder.scores))
            why = of_exit(3, manifest.scores, gates, allowed)
            return f"{why}: {'; '.join(causes)}, such as: {example}"
        open_ones = [of_outcome(gate) for outcome in (False, None) for gate in gates if gate["passed"] is outcome]
        return "\n".join(open_ones) or of_gates(gates) or "The run has no gate."

    @property
    def exit_code(self) -> int:
        """As on the command line: 0, 1 a gate failed, 3 inconclusive; 4, 5, 6 or 130 if it was cut short."""
        code = RunFolder(self.folder).read_manifest().exit_code
        return EvalflowError.exit_code if code is None else code

    @property
    def passed(self) -> bool | None:
        """Whether every gate passed; False if one failed, None if the scores cannot decide or the run has no gates."""
        if self.exit_code == 0 and not find_run(str(self.folder)).rules.gates:
            return None
        return {0: True, 1: False}.get(self.exit_code)

    @property
    def cost_usd(self) -> float | None:
        """What was paid, in US dollars; None if a price is unknown."""
        return RunFolder(self.folder).read_manifest().cost_usd

    def __repr__(self) -> str:
        return f"RunResult({str(self.folder)!r})"

    def __str__(self) -> str:
        return unescaped(self._repr_markdown_())

    def _repr_markdown_(self) -> str:
        return (self.folder / "summary.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class RunComparison:
    """Two runs compared; `report` is the page."""

    comparison: Comparison
    report: Report

    @property
    def rows(self) -> polars.DataFrame:
        """A row for each difference, B minus A: its interval, adjusted p-value and verdict, as in `compare --json`."""
        return _frame(objects_at(self.comparison.document(), "rows"))

    @property
    def flips(self) -> polars.DataFrame:
        """The cases that flipped between pass and fail, or changed in a metric without pass or fail, the worst first.

        Each once, by its worst drop, else its largest rise; `others` are its other metrics that changed.
        """
        records = [one.document() for flips in self.comparison.flips for one in flips.first(flips.listed)]
        return pl.DataFrame(records, infer_schema_length=None)

    @property
    def sentence(self) -> str:
        """What the comparison says, such as `B is better: 8 points more answers pass exact (2 to 14).`."""
        return self.comparison.sentence

    @property
    def changed(self) -> Sequence[str]:
        """What differs between the runs: bot, prompts, judges, metrics, data; a line for each."""
        return self.comparison.changes

    @property
    def notes(self) -> Sequence[str]:
        """What to know before the differences are relied on."""
        return self.comparison.notes

    def verdict(self, metric: str) -> Verdict:
        """Whether B is better, worse, or cannot_tell, by the metric's mean over all cases; KeyError if it has none.

        It is higher or lower, instead of better or worse, if not only the answers may differ.
        """
        for row in self.comparison.rows:
            if row.metric == metric and row.tag is None and row.statistic == "mean":
                return row.verdict
        raise KeyError(metric)

    def _repr_markdown_(self) -> str:
        return self.report.path.with_suffix(".md").read_text(encoding="utf-8")

    def __repr__(self) -> str:
        verdicts = (f"{row.metric} {row.statistic}: {row.verdict}" for row in self.comparison.rows if row.tag is None)
        return f"RunComparison({self.sentence!r}, {', '.join(verdicts)})"


@dataclass(frozen=True)
class RunCalibration:
    """A run's judges compared with people; `report` is the page.

    Attributes:
        certificates: The files of the certificates that were issued.
        gates: What the labels changed of the run's gates, in words.
    """

    calibration: Calibration
    certificates: Sequence[Path]
    gates: Sequence[str]
    report: Report

    @property
    def rows(self) -> polars.DataFrame:
        """A row for each dataset, metric, target and judge: agreement and corrected mean, as in `calibrate --json`."""
        return _frame(objects_at(self.calibration.document(), "rows"))

    @property
    def notes(self) -> Sequence[str]:
        """Labels that were left out, and why."""
        return self.calibration.notes

    def __repr__(self) -> str:
        return f"RunCalibration({'; '.join(one.sentence for one in self.calibration.corrected_means)})"

    def __str__(self) -> str:
        return unescaped(self._repr_markdown_())

    def _repr_markdown_(self) -> str:
        rows = self.rows
        shown = rows.select(name for name in _SHOWN if name in rows.columns)
        lines = [shown.columns, ["---"] * shown.width, *(map(_in_table, row) for row in shown.iter_rows())]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def scored_run(run: RunResult | str | Path) -> SavedRun:
    """The saved run; UserError if there is none, or it has no scores."""
    return expect_scores(find_run(str(run.folder if isinstance(run, RunResult) else run)))


def _cells(row: AnsweredCase) -> list[Any]:
    case, answer = row.case, row.answer
    output = answer and (answer.answer if answer.answer is not None else answer.actual)
    contexts = answer.contexts if answer and answer.contexts is not None else case.contexts
    return [
        case.dataset,
        case.id,
        row.target,
        row.target_repeat,
        list(case.tags),
        case.question,
        None if output is None else json_or_text(output),
        answer_hash(answer) if answer else None,
        case.reference_text,
        None if contexts is None else [one.text for one in contexts],
    ]


def _in_table(value: object) -> str:
    """A value in a cell of Markdown."""
    text = "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    return text.replace("|", r"\|")


def _frame(documents: Iterable[Mapping[str, Any]]) -> polars.DataFrame:
    """A frame of JSON objects; what lies in an inner object gets a column of its own, as `outer_inner`."""
    return pl.DataFrame([dict(_flat(one)) for one in documents], infer_schema_length=None)


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if is_mapping(value):
            yield from _flat(value, f"{prefix}{key}_")
        elif not (is_list(value) and any(isinstance(one, Mapping) for one in value)):
            yield f"{prefix}{key}", value
