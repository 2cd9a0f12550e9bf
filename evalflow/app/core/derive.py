"""Results derived from a run's journals: scores, summary, gates, exit code, reports. This makes no calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evalflow.app.core.cases import answers_of
from evalflow.app.core.result_rules import ResultRules
from evalflow.app.core.saved import SavedRun, read_exclusions, started_again
from evalflow.engine.folder import RunFolder
from evalflow.errors import UserError, command
from evalflow.lazy import pl
from evalflow.paths import shown
from evalflow.records import CUT_OFF, FILTERED, RECORDED_FAILURE, Case
from evalflow.records.manifest import AnswerFault, Manifest
from evalflow.report.gate_sentences import AboutGates, GateSentence, of_gate, without_value
from evalflow.report.results_csv import CaseKey
from evalflow.summary.exclusions import with_exclusions
from evalflow.summary.finding import with_labels
from evalflow.summary.gates import Gate, GateResult, GateRow, evaluate_gates
from evalflow.summary.rows import GateOutcome
from evalflow.summary.scan import InputOrder, scan_journal
from evalflow.summary.slices import STATES
from evalflow.summary.summarise import Summary, score_table, summarise, write_scores, write_summary
from evalflow.summary.verdicts import STOPPED_BY_LOOKS, overall, too_many_errors

if TYPE_CHECKING:
    from evalflow.engine.gate_looks import GateLooks
    from evalflow.report.calibration import Calibration

Cases = Callable[[], Iterable[Case]]  # returns the cases of a run in any order; called only if gates have looks
_LASTING = ("data", "prompt", "unsupported", "unusable", "context_length", f"target: {RECORDED_FAILURE}")
"""The types of errors that would occur again if nothing is changed."""
_NAMED = 5  # cases that are named with a fault of their answers


@dataclass(frozen=True, slots=True)
class Derived:
    """The results of a run, derived from its journals."""

    scores: pl.LazyFrame
    summary: Summary
    states: Mapping[str, int]  # the number of scores in each state
    cells: int  # the number of scores that the run made itself, without composites
    error_types: tuple[str, ...]  # causes of errors with their counts, the most frequent first
    error_example: str | None  # the message of one error of the most frequent cause, in one line; None without errors
    calibration: Calibration | None = None  # the comparison of the judges with people; None without labels
    texts_apart: bool = False  # whether results.csv leaves questions and answers to cases.jsonl, as cases are many
    # Rows of `evaluate_run_gates`, and 0, 1 or 3, once `decide` has been called.
    gates: tuple[GateOutcome, ...] = ()
    exit_code: int = 3


def derive(folder: RunFolder, run_id: str, rules: ResultRules) -> Derived:
    """Write scores.parquet from the run's journals, and summarise it; `decide` writes the summary."""
    run = rules.settings.run
    order = InputOrder(datasets=list(run.dataset), metrics=list(rules.metrics))
    composites, journal = rules.composites(), scan_journal(folder.journal, run_id, rules.bounded)
    write_scores(score_table(journal, rules.thresholds(), order, composites), folder.scores)
    scores = pl.scan_parquet(folder.scores)
    summary = summarise(scores, rules.metrics, run.seed, pass_share=run.repeats.pass_share)
    summary = with_exclusions(summary, scores, rules.metrics, read_exclusions(folder), run.seed)
    means = summary.frame.filter((pl.col("statistic") == "mean") & pl.col("tag").is_null())
    states = {state: int(means[f"n_{state}"].sum()) for state in STATES}
    computed = int(means.filter(pl.col("metric").is_in([composite.name for composite in composites]))["n"].sum())
    errors = causes_of_errors(scores) if states["error"] else ((), None)
    return Derived(scores, summary, states, sum(states.values()) - computed, *errors)


def decide(
    run: SavedRun, rules: ResultRules, derived: Derived, cases: Cases, looks: GateLooks | None = None
) -> Derived:
    """Write the run's summary with the numbers that hold, and evaluate its gates and its exit code.

    If it was calibrated, calibration.json is up to date. `looks` are those of a run that just ended; without them the
    gates are looked at again.
    """
    labelled = derived.calibration is not None
    if run.manifest.stopped:
        from evalflow.summary.stopped import with_stop

        looks = looks or looks_again(rules, derived.scores, cases)
        looked = {} if looks is None else looks.results(stopped=run.manifest.stopped == "decided")
        bounded = [name for name, metric in rules.metrics.items() if metric.bounded]
        derived = replace(derived, summary=with_stop(derived.summary, derived.scores, bounded, looked))
    refused = STOPPED_BY_LOOKS if run.manifest.stopped else ""
    if derived.calibration is not None:
        derived = replace(derived, summary=with_labels(derived.summary, derived.calibration.rows, refused))
    write_summary(derived.summary, run.folder.path)
    results, rows = evaluate_run_gates(
        run, rules, derived.summary, derived.scores, cases, labelled=labelled, looks=looks
    )
    code = _exit_code(results, derived.states, rules.settings.run.max_error_rate)
    return replace(derived, gates=tuple(rows), exit_code=code)


def report(
    folder: RunFolder,
    rules: ResultRules,
    derived: Derived,
    cases: Iterable[Case],
    manifest: Manifest,
    kept: Callable[[Collection[CaseKey]], Iterable[Case]] | None = None,
) -> bool:
    """Write the files of `write_reports`, and return what it returns; `manifest` is run.json as it will be."""
    from evalflow.report.html import write_reports  # late: the first request does not wait for it
    from evalflow.report.reported import Reported

    with answers_of(folder, rules.settings.run) as answers:
        return write_reports(
            folder.path,
            Reported(
                scores=derived.scores,
                summary=derived.summary.frame,
                details=derived.summary.details,
                gates=derived.gates,
                manifest=manifest,
                metrics={name: metric.config for name, metric in rules.metrics.items()},
                cases=cases,
                answers=answers,
                kept=kept,
                calibration=derived.calibration,
                max_error_rate=rules.settings.run.max_error_rate,
                categorising=[name for name, one in rules.metrics.items() if one.figures and one.figures.categorises],
            ),
        )


def answer_faults(scores: pl.LazyFrame) -> Mapping[str, AnswerFault]:
    """The answers that were cut off, or withheld, or in which target.extract found nothing, or empty."""
    reason, extracted = pl.col("finish_reason"), pl.col("extracted")
    faults = {"cut_off": reason == CUT_OFF, "filtered": reason == FILTERED, "not_extracted": extracted.eq(other=False)}
    columns = [fault.fill_null(value=False).alias(name) for name, fault in faults.items()]
    key = ("dataset", "case_id", "target", "target_repeat")
    answers = scores.select(*key, *columns).unique(key, keep="first", maintain_order=True).collect(engine="streaming")
    by_name: dict[str, AnswerFault] = {}
    for name in faults:
        cases = answers.filter(name)["case_id"]
        if cases.len():
            named = cases.unique(maintain_order=True).head(_NAMED).to_list()
            by_name[name] = AnswerFault(n=cases.len(), of=answers.height, cases=named)
    return by_name


def _exit_code(results: Iterable[GateResult], scores: Mapping[str, int], max_error_rate: float) -> int:
    if too_many_errors(scores["error"], sum(scores.values()), max_error_rate):
        return 3
    outcomes = [result.passed for result in results]
    return 0 if not outcomes else {True: 0, False: 1, None: 3}[overall(outcomes)]


def causes_of_errors(scores: pl.LazyFrame) -> tuple[tuple[str, ...], str | None]:
    """The causes of errors with their counts, the most frequent first, and the message of one; None without errors."""
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


def asked_again(manifest: Manifest, arguments: Sequence[str], scores: pl.LazyFrame) -> tuple[str, str]:
    """The advice about scores in error, and its command: another run if all would fail again.

    `arguments` name the run.
    """
    failed = (pl.col("status") == "error") & pl.col("member_of").is_null()
    errors = scores.filter(failed).select("error_type", "remedy").collect()
    changes = _remedies(errors)
    if changes:
        return "run it again with", started_again(manifest, changes)
    if errors.height and errors["error_type"].fill_null("").is_in(_LASTING).all():
        return "remove their cause, then run it again", started_again(manifest, [])
    return "ask them again", command("resume", *arguments, "--retry-errors")


def _remedies(errors: pl.DataFrame) -> list[str]:
    """One remedy for each key; none if an error has no remedy, or if errors of two types name the same key.

    Of numbers it is the largest, which is enough for all errors; of other values the most frequent.
    """
    if errors["remedy"].null_count():
        return []
    by_key: dict[str, Counter[str]] = {}
    types: dict[str, set[str | None]] = {}
    for error_type, remedy, n in errors.group_by("error_type", "remedy").len().iter_rows():
        key = remedy.partition("=")[0].lstrip("+~")
        by_key.setdefault(key, Counter())[remedy] += n
        types.setdefault(key, set()).add(error_type)
    if any(len(named) > 1 for named in types.values()):
        return []
    return [_of_one_key(by_key[key]) for key in sorted(by_key)]


def _of_one_key(counts: Counter[str]) -> str:
    numbers = {remedy: remedy.partition("=")[2] for remedy in counts}
    if all(number.isdecimal() for number in numbers.values()):
        return max(counts, key=lambda remedy: int(numbers[remedy]))
    return min(counts, key=lambda remedy: (-counts[remedy], remedy))


def looks_again(rules: ResultRules, scores: pl.LazyFrame, cases: Cases) -> GateLooks | None:
    """The looks at finished scores, in the order in which the cases were drawn; None for gates without looks."""
    looks = rules.looks()
    if looks is not None:
        looks.note_all(scores)
        looks.look_again(cases(), rules.settings.run.seed)
    return looks


def evaluate_run_gates(
    run: SavedRun,
    rules: ResultRules,
    summary: Summary,
    scores: pl.LazyFrame,
    cases: Cases,
    *,
    labelled: bool,
    looks: GateLooks | None = None,
) -> tuple[list[GateResult], list[GateOutcome]]:
    """Evaluate a run's gates on the summary's rows, and gates against a baseline on the scores.

    Excluded results count, and are named. If people `labelled` answers, calibration.json corrects means and pass
    rates, and the labels of both runs the differences from a baseline. Returns the outcomes, and a row for each gate,
    dataset, target and judge.
    """
    config, why, notes = rules.settings.run, "", list[str]()
    compared: dict[str, Any] = {}
    followed: list[dict[str, str]] = []
    if labelled:
        calibration = json.loads(run.folder.calibration.read_bytes())
        compared["calibration"], followed = calibration["rows"], calibration["followed"]
    if any(gate.baseline for gate in rules.gates):
        from evalflow.app.core.comparison import baseline_summary, differences

        try:
            rows, notes = differences(rules.gates, run, config, scores, rules.metrics, labelled=labelled)
            compared |= {"differences": rows, "baseline": baseline_summary(config)}
        except UserError as error:
            why = error.problems[0].what
    if (looks := looks or looks_again(rules, scores, cases)) is not None:
        compared["looked"] = looks.results(stopped=run.manifest.stopped == "decided")
    results = evaluate_gates(rules.gates, summary.frame, **compared)
    excluded = [detail for detail in summary.details if "excluded" in detail]
    what, line = asked_again(run.manifest, [shown(run.folder.path)], scores)
    beside = AboutGates(excluded, notes, f"{what}: {line}", followed)
    return results, [row for result in results for row in _gate_rows(result, why, beside)]


def _gate_rows(result: GateResult, why: str, beside: AboutGates) -> Iterator[GateOutcome]:
    if not result.rows:
        yield _gate_row(result.gate, None, without_value(result.gate, why))
    for row in result.rows:
        yield _gate_row(result.gate, row, of_gate(result.gate, row, beside))


def _gate_row(gate: Gate, row: GateRow | None, sentence: GateSentence) -> GateOutcome:
    judged = row and row.judged
    return {
        "metric": gate.about,
        "statistic": gate.statistic,
        "condition": str(gate.condition),
        "limit": gate.condition.limit,
        "name": str(gate),
        "looks": gate.looks,
        "value": row and row.value,
        "ci_low": row and row.low,
        "ci_high": row and row.high,
        "dataset": row and row.dataset,
        "passed": row and row.passed,
        "cases_needed": row and row.cases_needed,
        "method": row and (row.method or None),
        "n_labels": row and row.labelled,
        "judged": judged
        and {"value": judged.value, "ci_low": judged.low, "ci_high": judged.high, "passed": judged.passed},
        "of_metric": row.metric if row else gate.metric,
        "basis": sentence.basis,
        "of": sentence.of,
        "note": sentence.note,
        "message": sentence.message,
        "in_spite": sentence.in_spite,
    }
