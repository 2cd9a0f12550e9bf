"""Results derived from a run's journals: scores, summary, gates, exit code, reports. This makes no calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evalflow.app.core.cases import answers_of
from evalflow.app.core.result_rules import ResultRules
from evalflow.app.core.saved import SavedRun, read_exclusions
from evalflow.engine.folder import RunFolder
from evalflow.errors import UserError
from evalflow.lazy import pl
from evalflow.records import CASES, CUT_OFF, FILTERED, Case, passes
from evalflow.records.manifest import AnswerFault, Manifest
from evalflow.report.findings import excluded_by, excluded_words
from evalflow.report.wording import caveat, counted, method
from evalflow.summary.exclusions import with_exclusions
from evalflow.summary.finding import with_labels
from evalflow.summary.gates import BOUNDS, COLUMNS, SHARES, Gate, GateResult, GateRow, evaluate_gates
from evalflow.summary.scan import InputOrder, scan_journal
from evalflow.summary.summarise import Summary, score_table, summarise, write_scores, write_summary

if TYPE_CHECKING:
    from evalflow.engine.gate_looks import GateLooks
    from evalflow.report.calibration import Calibration

Cases = Callable[[], Iterable[Case]]  # reads the cases of a run in any order; called only if gates have looks
_NAMED = 5  # cases that are named with a fault of their answers
OUTCOMES = {True: "passes", False: "fails", None: "is undecided"}


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
    # Rows of `evaluate_run_gates`, and 0, 1 or 3, once `decide` has been called.
    gates: tuple[Mapping[str, Any], ...] = ()
    exit_code: int = 3


def derive(folder: RunFolder, rules: ResultRules) -> Derived:
    """Write scores.parquet from the run's journals, and summarise it; `decide` writes the summary."""
    run = rules.settings.run
    order = InputOrder(datasets=list(run.dataset), metrics=list(rules.metrics))
    composites, journal = rules.composites(), scan_journal(folder.journal, rules.bounded)
    write_scores(score_table(journal, rules.thresholds(), order, composites), folder.scores)
    scores = pl.scan_parquet(folder.scores)
    summary = summarise(scores, rules.metrics, run.seed)
    summary = with_exclusions(summary, scores, rules.metrics, read_exclusions(folder), run.seed)
    own = scores.filter(pl.col("member_of").is_null()).select("status").collect(engine="streaming")["status"]
    counted = dict(own.value_counts().iter_rows())
    states = {state: counted.get(state, 0) for state in ("scored", "undefined", "error", "skipped")}
    of_composites = scores.filter(pl.col("metric").is_in([composite.name for composite in composites]))
    computed = of_composites.select(pl.len()).collect(engine="streaming").item() if composites else 0
    return Derived(scores, summary, states, sum(states.values()) - computed, *_errors(scores))


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
    refused = "stopped by looks" if run.manifest.stopped else ""
    if derived.calibration is not None:
        derived = replace(derived, summary=with_labels(derived.summary, derived.calibration.rows, refused))
    write_summary(derived.summary, run.folder.path)
    results, rows = evaluate_run_gates(
        run, rules, derived.summary, derived.scores, cases, labelled=labelled, looks=looks
    )
    code = _exit_code(results, derived.states, rules.settings.run.max_error_rate)
    return replace(derived, gates=tuple(rows), exit_code=code)


def report(folder: RunFolder, rules: ResultRules, derived: Derived, cases: Iterable[Case], manifest: Manifest) -> None:
    """Write results.csv, cases.jsonl, report.html, junit.xml and summary.md; `manifest` is run.json as it will be."""
    from evalflow.report.html import write_reports  # late: the first request does not wait for it
    from evalflow.report.reported import Reported

    with answers_of(folder, rules.settings.run) as answers:
        write_reports(
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
                calibration=derived.calibration,
                max_error_rate=rules.settings.run.max_error_rate,
                categorising=[name for name, one in rules.metrics.items() if one.figures and one.figures.categorises],
            ),
        )


def answer_faults(scores: pl.LazyFrame) -> Mapping[str, AnswerFault]:
    """The answers that were cut off, or withheld, or in which target.extract found nothing; empty if there are none."""
    reason, extracted = pl.col("finish_reason"), pl.col("extracted")
    faults = {"cut_off": reason == CUT_OFF, "filtered": reason == FILTERED, "not_extracted": extracted.eq(other=False)}
    columns = [fault.fill_null(value=False).alias(name) for name, fault in faults.items()]
    key = ("dataset", "case_id", "target", "target_repeat")
    answers = scores.select(*key, *columns).unique(key, keep="first", maintain_order=True).collect(engine="streaming")
    found: dict[str, AnswerFault] = {}
    for name in faults:
        cases = answers.filter(name)["case_id"]
        if cases.len():
            named = cases.unique(maintain_order=True).head(_NAMED).to_list()
            found[name] = AnswerFault(n=cases.len(), of=answers.height, cases=named)
    return found


def _exit_code(results: Iterable[GateResult], scores: Mapping[str, int], max_error_rate: float) -> int:
    total = sum(scores.values())
    if total and not passes(scores["error"] / total, max_error_rate, higher_is_better=False):
        return 3
    outcomes = [result.passed for result in results]
    if False in outcomes:
        return 1
    return 3 if None in outcomes else 0


def _errors(scores: pl.LazyFrame) -> tuple[tuple[str, ...], str | None]:
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
) -> tuple[list[GateResult], list[dict[str, Any]]]:
    """Evaluate a run's gates on the summary's rows, and gates against a baseline on the scores.

    Excluded results count, and are named. If people `labelled` answers, calibration.json corrects means and pass
    rates, and the labels of both runs the differences from a baseline. Returns the outcomes, and a row for each gate,
    dataset, target and judge.
    """
    config, why = rules.settings.run, ""
    compared: dict[str, Any] = {}
    if labelled:
        compared["calibration"] = json.loads(run.folder.calibration.read_bytes())["rows"]
    if any(gate.baseline for gate in rules.gates):
        from evalflow.app.core.comparison import baseline_summary, differences

        try:
            rows = differences(rules.gates, config, scores, rules.metrics, run if labelled else None)
            compared |= {"differences": rows, "baseline": baseline_summary(config)}
        except UserError as error:
            why = error.problems[0].what
    if (looks := looks or looks_again(rules, scores, cases)) is not None:
        compared["looked"] = looks.results(stopped=run.manifest.stopped == "decided")
    results = evaluate_gates(rules.gates, summary.frame, **compared)
    excluded = [detail for detail in summary.details if "excluded" in detail]
    return results, [row for result in results for row in _gate_rows(result, why, excluded)]


def _gate_rows(result: GateResult, why: str, excluded: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    gate = result.gate
    about = {"metric": gate.about, "statistic": gate.statistic, "condition": str(gate.condition)}
    about |= {"limit": gate.condition.limit, "name": str(gate), "looks": gate.looks}
    if not result.rows:
        note = _missing(gate, why)
        nothing = dict.fromkeys(
            ("value", "ci_low", "ci_high", "dataset", "passed", "cases_needed", "n_labels", "judged", "method")
        )
        texts = {"of": "", "note": note, "message": f"{gate}: {note}"}
        yield {**about, **nothing, "basis": "", "of_metric": gate.metric, **texts}
    for row in result.rows:
        # A gate on a tag is about several metrics.
        names = (row.metric if gate.metric is None else "", row.dataset, row.target, row.judge)
        of = " · ".join(name for name in names if name)
        rough = caveat(row.method) if row.low is not None and row.judged is None else ""
        looked = f"{row.looked}, by {method(row.method)}" if row.looked and row.method else row.looked
        parts = (looked, _labelled(row), _basis(row), _excluded(gate, row, excluded), rough)
        basis = "; ".join(part for part in parts if part)
        note, value, judged = _undecided(gate, row), _value(row), row.judged
        yield {
            **about,
            "value": row.value,
            "ci_low": row.low,
            "ci_high": row.high,
            "dataset": row.dataset,
            "passed": row.passed,
            "cases_needed": row.cases_needed,
            "method": row.method or None,
            "n_labels": row.labelled,
            "judged": judged
            and {"value": judged.value, "ci_low": judged.low, "ci_high": judged.high, "passed": judged.passed},
            "basis": basis,
            "of_metric": row.metric,
            "of": of,
            "note": note,
            "message": "; ".join(text for text in (f"{gate}: {value} ({of})", basis, note) if text),
        }


def _value(row: GateRow) -> str:
    interval = "" if row.value is None or row.low is None else f" [{row.low:.4g}, {row.high:.4g}]"
    return "no value" if row.value is None else f"{row.value:.4g}{interval}"


def _labelled(row: GateRow) -> str:
    if row.labelled is None:
        return ""
    from evalflow.stats.prediction import MIN_LABELS
    from evalflow.summary.agreement import NOT_AT_RANDOM
    from evalflow.summary.compare import NOT_OF_FIGURES

    who, named = "judge" if row.judge else "metric", "answer" if row.compared is None else "case"
    labels = f"people's labels of {counted(row.labelled, named)}{'' if row.compared is None else ' in each run'}"
    if row.judged is None:
        is_settled = row.uncorrected.startswith((NOT_AT_RANDOM, NOT_OF_FIGURES))
        few = f"; {MIN_LABELS} would do to correct it" if row.labelled < MIN_LABELS and not is_settled else ""
        why = f" ({row.uncorrected})" if row.uncorrected and not few else ""
        return f"the {who} alone decides, in spite of {labels}{why}{few}"
    return f"corrected by {labels}; by the {who} alone it {OUTCOMES[row.judged.passed]}: {_value(row.judged)}"


def _missing(gate: Gate, why: str) -> str:
    if gate.baseline and why:
        return why
    where = " in common with the baseline" if gate.baseline else ""
    of_class = " of this class or label" if "[" in gate.statistic else ""
    tagged = f" with the tag {gate.tag!r}" if gate.tag else ""
    return f"no scored case{of_class}{tagged}{where}"


def _basis(row: GateRow) -> str:
    """The number of scores that the value is based on, and of all; empty if no score is omitted."""
    if not row.n:
        return ""
    states = {"undefined": row.n_undefined, "skipped": row.n_skipped}
    states["in error"] = row.n - row.n_scored - row.n_undefined - row.n_skipped
    left = ", ".join(f"{count:,} {state}" for state, count in states.items() if count)
    counted_are = "cases" if row.metric == CASES else "scores"
    scores = f"{row.n_scored:,} of {row.n:,} {counted_are}" + (f" ({left})" if left else "")
    if row.compared is None:
        return f"rests on {scores}"
    return f"rests on {counted(row.compared, 'case')} of both runs; this run has {scores}"


def _excluded(gate: Gate, row: GateRow, details: Sequence[Mapping[str, Any]]) -> str:
    """The excluded results that a gate's value counts, and the value without them."""
    statistic = "mean" if gate.statistic in COLUMNS else gate.statistic
    key = {"dataset": row.dataset, "metric": row.metric, "judge": row.judge, "tag": gate.tag, "statistic": statistic}
    own = [one for one in details if all(one[name] == value for name, value in key.items())]
    parts = [one["excluded"] for one in own if row.compared is not None or one["target"] == row.target]
    if row.compared is None and row.judged is None and gate.statistic in (*BOUNDS, *SHARES, *BOUNDS["mean"], statistic):
        return "; ".join(excluded_words(one, passing=gate.statistic in SHARES) for one in parts)
    return "; ".join(f"{excluded_by(one)}, and counted here" for one in parts)


def _undecided(gate: Gate, row: GateRow) -> str:
    if row.undefined_in:
        most = f"max_undefined_rate: {gate.max_undefined_rate:g}"
        return f"more scores of {row.undefined_in} are undefined than {most} allows, and so it decides nothing"
    if row.passed is not None or row.value is None:
        return ""
    if row.in_error:
        errors = f"{counted(row.in_error)} in error could turn it"
        return f"{errors}: ask again with resume RUN --retry-errors, or ask more cases"
    if row.looked:
        return "more cases may decide it"
    more = "cases" if row.judged is None else "labels"
    if row.low is None:
        return f"it has no interval, and so decides nothing: more {more}, or point: true"
    if row.judged is not None and row.compared is None:
        if row.cases_needed is None:
            return "labels of all these answers would not decide, if it stayed as it is: more answers, and labels"
        return f"about {row.cases_needed:,} labels of these answers would decide, if it stayed as it is"
    if row.cases_needed is None:
        return "it lies on the limit, which no number of cases decides"
    return f"about {row.cases_needed:,} cases would decide, if it stayed as it is"
