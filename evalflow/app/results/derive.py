"""All that follows from a run's journals: scores, summary, gates, exit code, reports. Free, as often as wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.app.results.composites import composites_of
from evalflow.app.results.gates import hold_gates
from evalflow.app.results.recipe import Recipe
from evalflow.config.schema import RunConfig
from evalflow.records import Answer, Case, passes
from evalflow.run.answers import AnswerBook
from evalflow.run.folder import RunFolder
from evalflow.summary import (
    GateResult,
    Order,
    Summary,
    Threshold,
    scan_journal,
    score_table,
    summarise,
    write_scores,
    write_summary,
)
from evalflow.targets.recorded import recorded_answer

if TYPE_CHECKING:
    import polars as pl

    from evalflow.report.calibration import Calibration


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
    order = Order(datasets=list(run.dataset), metrics=list(recipe.metrics))
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
    from evalflow.report.write import Reported, write_reports  # only now: the first request does not wait for it

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


def standing_answer(run: RunConfig, case: Case, target: str, repeat: int) -> Answer | None:
    """The answer that the run took from the data, or None where it asked the target for one."""
    field = run.dataset[case.dataset].generates
    if run.generate is True or (run.generate == "missing" and getattr(case, field) is None):
        return None
    return recorded_answer(case, target, repeat, demo=run.generate == "demo")


def thresholds(recipe: Recipe) -> list[Threshold]:
    """The threshold of each metric that has one with its judge.

    A judge's own threshold for a metric comes first. The metric's counts unless the judge is not calibrated: its
    scores rank answers, and where on its scale an answer is good enough nobody knows.
    """
    found: list[Threshold] = []
    for name, metric in recipe.metrics.items():
        judge = recipe.judge_of[name]
        config = recipe.scorers[name]
        value = metric.config.threshold
        if judge is not None:
            value = (config.thresholds or {}).get(name, value if config.calibrated else None)
        if value is not None:
            found.append(Threshold(name, judge, value, metric.config.direction))
    return found


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
