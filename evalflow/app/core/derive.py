"""All that follows from a run's journals: scores, summary, gates, exit code, reports. Free, as often as wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.app.core.baseline import baseline_summary, differences
from evalflow.app.core.composites import Recipe, composites_of, thresholds
from evalflow.app.core.reading import standing_answer
from evalflow.app.core.saved import Saved
from evalflow.errors import UserError
from evalflow.records import Answer, Case, passes
from evalflow.report.results_csv import AnsweredCase, rows
from evalflow.run.folder import RunFolder
from evalflow.run.journal import AnswerBook
from evalflow.summary.gates import Gate, GateResult, GateRow, evaluate_gates
from evalflow.summary.scan import InputOrder, scan_journal
from evalflow.summary.summarise import Summary, score_table, summarise, write_scores, write_summary

if TYPE_CHECKING:
    import polars as pl

    from evalflow.report.calibration import Calibration


def hold_gates(
    recipe: Recipe, summary: pl.DataFrame, scores: pl.LazyFrame
) -> tuple[list[GateResult], list[dict[str, Any]]]:
    """Hold a run's gates against its summary, and against its baseline where they ask for it.

    Args:
        recipe: The gates, and what they are about.
        summary: Columns of summary.parquet.
        scores: Columns of scores.parquet.

    Returns:
        The outcomes, and as reports show them: one row per dataset, target and judge that a gate was held against.
    """
    results, why = _outcomes(recipe, summary, scores)
    return results, [row for result in results for row in _gate_rows(result, why)]


def _outcomes(recipe: Recipe, summary: pl.DataFrame, scores: pl.LazyFrame) -> tuple[list[GateResult], str]:
    """The gates' outcomes, and why the baseline cannot be read; empty where it can."""
    if not any(gate.baseline for gate in recipe.gates):
        return evaluate_gates(recipe.gates, summary), ""
    run = recipe.settings.run
    try:
        found = differences(recipe.gates, run, scores, recipe.metrics)
        baseline = baseline_summary(run)
    except UserError as error:
        return evaluate_gates(recipe.gates, summary), error.problems[0].what
    return evaluate_gates(recipe.gates, summary, found, baseline), ""


def _gate_rows(result: GateResult, why: str) -> Iterator[dict[str, Any]]:
    gate = result.gate
    common = {
        "metric": gate.about,
        "statistic": gate.statistic,
        "condition": str(gate.condition),
        "limit": gate.condition.limit,
        "name": str(gate),
    }
    nothing: dict[str, Any] = {
        "dataset": None,
        "value": None,
        "ci_low": None,
        "ci_high": None,
        "passed": None,
        "cases_needed": None,
        "basis": "",
        "of_metric": gate.metric,
    }
    if not result.rows:
        note = _missing(gate, why)
        yield {**common, **nothing, "of": "", "note": note, "message": f"{gate}: {note}"}
    for row in result.rows:
        # A gate on a tag is about several metrics.
        parts = (row.metric if gate.metric is None else "", row.dataset, row.target, row.judge)
        of = " · ".join(part for part in parts if part)
        ends = {"value": row.value, "ci_low": row.low, "ci_high": row.high}
        basis, note = _basis(row), _undecided(gate, row)
        known = {"dataset": row.dataset, "passed": row.passed, "cases_needed": row.cases_needed, "basis": basis}
        known["of_metric"] = row.metric
        message = "; ".join(text for text in (f"{gate}: {_found(row)} ({of})", basis, note) if text)
        yield {**common, **ends, **known, "of": of, "note": note, "message": message}


def _missing(gate: Gate, why: str) -> str:
    """Why a gate was held against nothing."""
    if gate.baseline and why:
        return why
    where = " in common with the baseline" if gate.baseline else ""
    of_class = " of this class or label" if "[" in gate.statistic else ""
    tagged = f" with the tag {gate.tag!r}" if gate.tag else ""
    return f"no scored case{of_class}{tagged}{where}"


def _found(row: GateRow) -> str:
    if row.value is None:
        return "no value"
    return f"{row.value:.4g}" + (f" [{row.low:.4g}, {row.high:.4g}]" if row.low is not None else "")


def _basis(row: GateRow) -> str:
    """How many scores the value rests on, of how many; empty for what leaves none out."""
    if not row.n:
        return ""
    states = {"undefined": row.n_undefined, "skipped": row.n_skipped}
    states["in error"] = row.n - row.n_scored - row.n_undefined - row.n_skipped
    left = ", ".join(f"{count:,} {state}" for state, count in states.items() if count)
    scores = f"{row.n_scored:,} of {row.n:,} scores" + (f" ({left})" if left else "")
    if row.compared is None:
        return f"rests on {scores}"
    return f"rests on {row.compared:,} case{'' if row.compared == 1 else 's'} of both runs; this run has {scores}"


def _undecided(gate: Gate, row: GateRow) -> str:
    """What it would take to decide."""
    if row.undefined_in:
        most = f"max_undefined_rate: {gate.max_undefined_rate:g}"
        return f"more scores of {row.undefined_in} are undefined than {most} allows, and so it decides nothing"
    if row.passed is not None or row.value is None:
        return ""
    if row.low is None:
        return "it has no interval, and so decides nothing: more cases, or point: true"
    if row.cases_needed is None:
        return "it lies on the limit, which no number of cases decides"
    return f"about {row.cases_needed:,} cases would decide, if it stayed as it is"


@dataclass(frozen=True, slots=True)
class Derived:
    """What was derived.

    Attributes:
        scores: The columns of scores.parquet.
        summary: The summary with its details.
        states: How many scores are in each state.
        cells: How many of them were made in the run; the others are made of these.
        gates: What became of each gate.
        error_types: Causes of errors with their counts, the most frequent first.
        error_example: The message of one error of the most frequent cause, in one line; None without errors.
        exit_code: 0, 1 or 3.
        calibration: The judges held against people; None where there are no labels.
    """

    scores: pl.LazyFrame
    summary: Summary
    states: Mapping[str, int]
    cells: int
    gates: tuple[Mapping[str, Any], ...]
    error_types: tuple[str, ...]
    error_example: str | None
    exit_code: int
    calibration: Calibration | None = None

    @property
    def any_failed(self) -> bool:
        """Whether a score missed its threshold."""
        return bool((self.summary.frame["pass_rate"] < 1).any())


def derive(folder: RunFolder, recipe: Recipe) -> Derived:
    """Write scores.parquet and the summaries from the run's journal, and hold the gates against them.

    Args:
        folder: The run's folder, with its journals.
        recipe: How.
    """
    import polars as pl

    run = recipe.settings.run
    order = InputOrder(datasets=list(run.dataset), metrics=list(recipe.metrics))
    limits = thresholds(recipe)
    composites = composites_of(recipe, limits)
    table = score_table(scan_journal(folder.journal, recipe.bounded), limits, order, composites)
    write_scores(table, folder.scores)
    scores = pl.scan_parquet(folder.scores)
    summary = summarise(scores, recipe.metrics, run.seed)
    write_summary(summary, folder.path)
    results, rows = hold_gates(recipe, summary.frame, scores)
    states = _states(scores)
    error_types, error_example = _errors(scores)
    return Derived(
        scores=scores,
        summary=summary,
        states=states,
        cells=sum(states.values()) - _rows(scores, [composite.name for composite in composites]),
        gates=tuple(rows),
        error_types=error_types,
        error_example=error_example,
        exit_code=_exit_code(results, states, run.max_error_rate),
    )


def report(
    folder: RunFolder, recipe: Recipe, derived: Derived, cases: Iterable[Case], manifest: Mapping[str, Any]
) -> None:
    """Write results.csv, cases.jsonl, report.html, junit.xml and summary.md; see `write_reports`.

    Args:
        folder: The run's folder.
        recipe: How.
        derived: What `derive` gave.
        cases: The cases that were evaluated, in input order.
        manifest: run.json, as it will be in the end.
    """
    from evalflow.report.html import Reported, write_reports  # only now: the first request does not wait for it

    run = recipe.settings.run
    with AnswerBook() as book:
        book.add(folder.answers, run.dataset)

        def answer_of(case: Case, target: str, repeat: int) -> Answer | None:
            known = book.get(case.dataset, case.id, target, repeat)
            return known or standing_answer(run, case, target, repeat)

        write_reports(
            folder.path,
            Reported(
                scores=derived.scores,
                summary=derived.summary.frame,
                details=derived.summary.details,
                gates=derived.gates,
                manifest=manifest,
                metrics={name: metric.config for name, metric in recipe.metrics.items()},
                cases=cases,
                answers=answer_of,
                calibration=derived.calibration,
                max_error_rate=run.max_error_rate,
                categorising=[name for name, one in recipe.metrics.items() if one.figures and one.figures.categorises],
            ),
        )


def _exit_code(results: Iterable[GateResult], scores: Mapping[str, int], max_error_rate: float) -> int:
    total = sum(scores.values())
    if total and not passes(scores["error"] / total, max_error_rate, higher_is_better=False):
        return 3
    outcomes = [result.passed for result in results]
    if False in outcomes:
        return 1
    return 3 if None in outcomes else 0


def _states(scores: pl.LazyFrame) -> dict[str, int]:
    import polars as pl

    own = scores.filter(pl.col("member_of").is_null())
    counted = dict(own.select("status").collect(engine="streaming")["status"].value_counts().iter_rows())
    return {state: counted.get(state, 0) for state in ("scored", "undefined", "error", "skipped")}


def _rows(scores: pl.LazyFrame, metrics: Sequence[str]) -> int:
    import polars as pl

    if not metrics:
        return 0
    return scores.filter(pl.col("metric").is_in(metrics)).select(pl.len()).collect(engine="streaming").item()


def _errors(scores: pl.LazyFrame) -> tuple[tuple[str, ...], str | None]:
    """The causes of errors, the most frequent first, and a message of the first."""
    import polars as pl

    causes = (
        scores.filter((pl.col("status") == "error") & pl.col("member_of").is_null())
        .group_by("error_type")
        .agg(n=pl.len(), example=pl.col("error").min())
        .sort("n", "error_type", descending=[True, False])
        .collect()
    )
    types = tuple(f"{n} {cause or 'unknown'}" for cause, n, _ in causes.iter_rows())
    example = causes["example"][0] if causes.height else None
    return types, " ".join(example.split()) if example else None


_CELL = ("dataset", "case_id", "target", "target_repeat")


def without_unanswered(saved: Saved, scores: pl.LazyFrame) -> pl.LazyFrame:
    """The scores without those in error because the target gave no answer, of which nobody can say anything.

    Args:
        saved: The run.
        scores: Rows of its scores.parquet.
    """
    import polars as pl

    failed = scores.filter(pl.col("status") == "error")
    cases = failed.select("dataset", "case_id").unique().collect()
    found = [
        (row.case.dataset, row.case.id, row.target, row.target_repeat)
        for row in (answered_rows(saved, failed, set(cases.iter_rows())) if cases.height else ())
        if row.answer is None or row.answer.status == "error"
    ]
    schema = {name: scores.collect_schema()[name] for name in _CELL}
    return scores.join(pl.LazyFrame(found, schema=schema, orient="row"), on=_CELL, how="anti", maintain_order="left")


def answered_rows(saved: Saved, scores: pl.LazyFrame, wanted: Collection[tuple[str, str]]) -> Iterator[AnsweredCase]:
    """Each wanted case as every target answered it, with its scores, in input order.

    Args:
        saved: The run.
        scores: Rows of its scores.parquet; those of other cases are passed over.
        wanted: dataset and id of the cases.
    """
    import polars as pl

    keys = pl.DataFrame(list(wanted), schema={"dataset": pl.String, "case_id": pl.String}, orient="row")
    chosen = scores.join(keys.lazy(), on=["dataset", "case_id"], how="semi", maintain_order="left")
    run = saved.recipe.settings.run
    cases = (case for case in saved.cases() if (case.dataset, case.id) in wanted)
    with AnswerBook() as book:
        book.add(saved.folder.answers, run.dataset)

        def answer_of(case: Case, target: str, repeat: int) -> Answer | None:
            known = book.get(case.dataset, case.id, target, repeat)
            return known or standing_answer(run, case, target, repeat)

        yield from (row for row in rows(cases, answer_of, chosen) if row.scores)
