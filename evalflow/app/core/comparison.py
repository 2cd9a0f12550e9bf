"""Comparison of two runs: the rows of the comparison, and what is not compared."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalflow.app.core.cases import BASELINE
from evalflow.app.core.changed import (
    Kind,
    Obstacle,
    not_allowed,
    obstacles,
    of_different_cases,
    unlike_metrics,
    what_changed,
)
from evalflow.app.core.labels import ComparedLabels, Rows, labels_to_compare, unused_labels
from evalflow.app.core.saved import SavedRun, asked_in, find_scored, notes_on_exclusions
from evalflow.config.schema import RunConfig
from evalflow.config.validate import Settings
from evalflow.engine.journal import cell_digest
from evalflow.errors import Problem, UserError, command, did_you_mean
from evalflow.lazy import pl
from evalflow.paths import shown
from evalflow.protocols import Measured
from evalflow.records import Case
from evalflow.records.manifest import Manifest
from evalflow.report.comparison import Comparison
from evalflow.report.page import answer_lines
from evalflow.report.wording import bracketed, counted, is_numbered_id, method, number, signed, who_scored
from evalflow.stats.paired import Adjustment, untold
from evalflow.stats.prediction import MIN_LABELS
from evalflow.summary.adjusted_means import AdjustedMean, adjusted_means
from evalflow.summary.case_changes import CaseChanges, changed_cells
from evalflow.summary.changed import WhatChanged
from evalflow.summary.compare import (
    UNORDERED,
    ComparisonRow,
    Orders,
    adjusted,
    compare_cases,
    compare_samples,
    orders_used,
)
from evalflow.summary.gates import Gate
from evalflow.summary.judge_change import JudgeAgreementChange, judge_changes
from evalflow.summary.pairing import Pairing, Traits, pair_scores
from evalflow.summary.verdicts import STOPPED_BY_LOOKS

log = logging.getLogger("evalflow")
NO_LABELS = ComparedLabels()
JUDGE_ALONE = "by the judge alone, as asked: these labels correct nothing"
SMALLEST_MARGIN, LARGEST_MARGIN = 1e-9, 1e9


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """Options of a comparison; UserError if the margin is out of bounds."""

    allow: Collection[Kind] = ()  # the `KINDS` that may differ, even though the meaning of scores may differ then
    adjust: Adjustment = "holm"  # how p-values are adjusted for the number of comparisons
    # The largest acceptable loss, within `SMALLEST_MARGIN` and `LARGEST_MARGIN`; None for no such test.
    margin: float | None = None
    # Whether each tag, and the figures of each class or label, have their own rows.
    by_tag: bool = False
    by_class: bool = False
    unpaired: bool = False  # whether the runs are samples of different cases, so not compared case by case
    lists_cases: bool = True  # whether the cases that changed are listed
    allow_option: str = "--allow "  # the option that messages suggest for allowing a difference

    @property
    def rows_by(self) -> dict[str, bool]:
        return {"by_tag": self.by_tag, "by_class": self.by_class}

    def __post_init__(self) -> None:
        if self.margin is not None and not SMALLEST_MARGIN <= self.margin <= LARGEST_MARGIN:
            what = f"a margin of {self.margin:g} is not between {SMALLEST_MARGIN:g} and {LARGEST_MARGIN:g}"
            raise UserError(Problem(what, "margin", "say how much worse is acceptable, such as 0.02"))


def compare_labelled(
    pairs: Sequence[tuple[SavedRun, SavedRun]],
    how: ComparisonOptions,
    given: str | Rows | None = None,
    *,
    judge_alone: bool = False,
) -> Comparison:
    """Like `compare_pairs`, corrected by people's labels: `given` as for `read_labels`; without it, those of the runs.

    With `judge_alone` by none, and a note says so if people labelled answers.
    """
    runs = [run for pair in pairs for run in pair]
    if not judge_alone:
        labels = labels_to_compare(runs, given)
        comparison = compare_pairs(pairs, how, labels)
        # Where only judges differ, labels correct no difference, and need not be of both runs.
        if all(one.only_judged for one in comparison.changed):
            return comparison
        return replace(comparison, notes=[*comparison.notes, *labels.notes])
    comparison = compare_pairs(pairs, how)
    shown_here = {(row.dataset, row.metric) for row in comparison.rows}
    named = {run.name: run for run in runs}
    return replace(comparison, notes=[*comparison.notes, *unused_labels(named.values(), shown_here, JUDGE_ALONE)])


def compare_pairs(
    pairs: Sequence[tuple[SavedRun, SavedRun]], how: ComparisonOptions, labels: ComparedLabels = NO_LABELS
) -> Comparison:
    """Compare run B with run A, for each pair (A, B). P-values are adjusted over all pairs together.

    Labels correct the differences of runs that measure the same; if another judge or metric is allowed, they correct
    nothing, with this reason. UserError lists every obstacle, if no pair can be compared.
    """
    rows, adjusted_by_a, listed = list[ComparisonRow](), list[AdjustedMean](), list[CaseChanges]()
    notes, refused, whats = list[str](), list[Problem](), list[WhatChanged]()
    agreed: dict[tuple[str, str], Sequence[JudgeAgreementChange]] = {}
    apart, known = False, [what_changed(a, b) for a, b in pairs]
    # A family is of answers or of judges: where answers can be compared, judges of the same answers are left out.
    of_answers = any(not obstacles(changed) for changed in known)
    for (a, b), changed in zip(pairs, known, strict=True):
        if why_not := _refused((a, b), changed, how, of_answers=of_answers):
            refused += why_not
            continue
        differences = [o for o in obstacles(changed) if not (how.unpaired and o.kind == "cases")]
        if not changed.only_judged or how.unpaired:
            notes += _allowed(f"{a.name} and {b.name}" if len(pairs) > 1 else "A and B", differences)
        other = [o.kind for o in differences if o.kind != "cases"]
        people = labels if not other else labels.unusable_for(f"the runs have another {other[0]}")
        if how.unpaired:
            own, note = _of_samples(a, b, how, people)
            whats.append(replace(changed, answers=None))
            rows, notes = [*rows, *attributed(own, whats[-1])], notes + note
            continue
        own, pairing = compare_two(a, b, how, people)
        rows, whats = [*rows, *attributed(own, changed)], [*whats, changed]
        apart |= bool(pairing.counts["only_a"].sum() and pairing.counts["only_b"].sum())
        notes += notes_of(a, b, pairing, ("A", "B") if len(pairs) == 1 else (a.name, b.name))
        if changed.only_judged and (changes := _agreement_changes(a, b, labels)):
            agreed[a.name, b.name] = changes
        if _is_sample(b, of=a) and not any(o.kind == "cases" for o in differences):
            adjusted_by_a += adjusted_means(pairing, (a.name, b.name), b.traits, seed=b.manifest.config["seed"])
        if how.lists_cases:
            cells = changed_cells(pairing, a.traits | b.traits, by_labels=not changed.only_judged)
            listed.append(CaseChanges((a.name, b.name), cells, b.scores()))
    if not rows:
        raise UserError(refused or [_nothing_in_common(pairs[0], how, apart=apart)])
    runs = {run.name: run for pair in pairs for run in pair}
    notes += _notes_of_rows(rows, several=len(pairs) > 1)
    notes += [_adjusted_note(one, several=len(pairs) > 1) for one in adjusted_by_a]
    notes += [*(f"not compared: {problem.where}: {problem.what}" for problem in refused), *_of_stopped(runs)]
    orders = orders_used(rows, test_orders(runs.values()) if how.adjust == "holm" else UNORDERED)
    return Comparison(
        runs={name: run.manifest for name, run in runs.items()},
        rows=adjusted(rows, how.adjust, orders),
        adjust=how.adjust,
        margin=how.margin,
        notes=notes,
        flips=listed,
        questions=dict(questions_of(runs, listed)),
        paired=not how.unpaired,
        adjusted_means=adjusted_by_a,
        orders=orders,
        changed=whats,
        judge_changes=agreed,
    )


def _allowed(runs: str, differences: Sequence[Obstacle]) -> list[str]:
    return [f"{runs}: {o.what}; compared anyway, as allowed" for o in differences]


def _agreement_changes(a: SavedRun, b: SavedRun, labels: ComparedLabels) -> Sequence[JudgeAgreementChange]:
    if not (frames := [one for one in (labels.of(a), labels.of(b)) if one is not None]):
        return []
    seed = b.manifest.config["seed"]
    return judge_changes(a.scores(), b.scores(), pl.concat(frames).unique(), b.traits, seed=seed)


def _refused(
    runs: tuple[SavedRun, SavedRun], changed: WhatChanged, how: ComparisonOptions, *, of_answers: bool
) -> list[Problem]:
    """Return why two runs are left out; `of_answers`: whether the family compares answers."""
    a, b = runs
    if of_answers and changed.only_judged and obstacles(changed):
        hint = f"compare the judges: {command('compare', shown(a.folder.path), shown(b.folder.path))}"
        return [Problem(o.what, f"{a.name} and {b.name}", hint) for o in obstacles(changed)]
    forbidden = not_allowed(changed, how.allow, unpaired=how.unpaired)
    return list(_refusals(changed, forbidden, how)) if forbidden else []


def _of_samples(
    a: SavedRun, b: SavedRun, how: ComparisonOptions, people: ComparedLabels
) -> tuple[list[ComparisonRow], list[str]]:
    """The differences of two samples of cases, with unadjusted p-values, and a note on cases in both."""
    own, common = compare_samples(
        a.scores(),
        b.scores(),
        (a.name, b.name),
        a.traits | b.traits,
        **how.rows_by,
        seed=b.manifest.config["seed"],
        people=people.people_in(a, b),
        unusable=people.unusable_in(a, b),
    )
    cases = "1 case is" if common == 1 else f"{common:,} cases are"
    note = f"{cases} in both runs; without --unpaired they are compared case by case, which shows more"
    return _of_whole_runs(own, a, b), [note] if common else []


def attributed(rows: Iterable[ComparisonRow], changed: WhatChanged) -> Iterator[ComparisonRow]:
    """Add to each row what its difference can be attributed to."""
    return (replace(row, attribution=changed.attribution(row.metric, row.statistic)) for row in rows)


def _refusals(changed: WhatChanged, forbidden: Sequence[Obstacle], how: ComparisonOptions) -> Iterator[Problem]:
    a, b = changed.pair
    why = "their scores may not mean the same"
    if changed.other_answers:
        others = f"{changed.other_answers:,} of {counted(changed.answers or 0, 'case')} have another answer too"
        why = f"{others}, so that no difference could be attributed to either"
    for one in forbidden:
        yield Problem(one.what, f"{a} and {b}", f"{why}; to compare them anyway: {how.allow_option}{one.kind}")


def test_orders(runs: Iterable[SavedRun]) -> Orders:
    """The declared test orders of the metrics for which all runs that have them declare the same."""
    declared: dict[str, set[tuple[str, ...]]] = {}
    for run in runs:
        for name, traits in run.traits.items():
            declared.setdefault(name, set()).add(tuple(traits.test_order))
    return {name: order for name, orders in declared.items() if len(orders) == 1 for order in orders if order}


def _is_sample(run: SavedRun, *, of: SavedRun) -> bool:
    """Whether the run drew its cases at random from those that the other one selected, as far as both declare."""
    own, other = (one.manifest.config for one in (run, of))

    def selected(config: Mapping[str, Any]) -> dict[str, Any]:
        keys = {"tags": None, "every_tag": False, "ids": None}
        return {name: [data.get(key, unset) for key, unset in keys.items()] for name, data in config["dataset"].items()}

    same = own["limit"] == other["limit"] and selected(own) == selected(other)
    return own["sample"] is not None and other["sample"] is None and same


def _adjusted_note(one: AdjustedMean, *, several: bool) -> str:
    a, b = one.pair if several else ("A", "B")
    corrected, saved = one.corrected, one.corrected.labels_saved
    mean = f"{number(corrected.estimate)}{bracketed(corrected.low, corrected.high)}"
    alone = f"{number(corrected.human_mean)}{bracketed(one.plain.low, one.plain.high)}"
    more = f"; {counted(saved, 'more case')} would make it as narrow" if saved and saved > 0 else ""
    scored = f"{a}'s scores of {counted(corrected.n_unlabelled, 'more case')}"
    return (
        f"{one.dataset}, {one.metric}: the mean of {b}, adjusted by {scored}, is {mean}, {method(corrected.method)}; "
        f"by its {corrected.n:,} cases alone {alone}{more}"
    )


def _of_stopped(runs: Mapping[str, SavedRun]) -> list[str]:
    names = ", ".join(name for name, run in runs.items() if run.manifest.stopped)
    why = "which differences do not allow for: intervals and verdicts are left out"
    return [f"{names}: {STOPPED_BY_LOOKS}, {why}"] if names else []


def _of_ended_early(run: SavedRun, name: str) -> list[str]:
    status = run.manifest.status
    return [] if status == "done" else [f"{name} ended early ({status}); only its finished part is compared"]


def _notes_of_rows(rows: Sequence[ComparisonRow], *, several: bool) -> Iterator[str]:
    """Return notes on tags with equal cases, and on what labels correct, do not correct, or are too few for."""
    for row in rows:
        where = _place(row, several=several)
        if row.also_tags and row.statistic == "mean":
            same = f"the cases of {', '.join(row.also_tags)} are those of {row.tag or 'all'}, and compared once"
            yield f"{row.dataset}, {row.metric}: {same}"
        if row.judged is not None and row.judged.difference is not None:
            alone = bracketed(row.judged.low, row.judged.high, signed)
            clause = f"the {who_scored(row.judge)} alone says {signed(row.judged.difference)}{alone}"
            yield f"{where}: corrected by the labels of {counted(row.labelled, 'case')} in each run; {clause}"
    yield from dict.fromkeys(_uncorrected(row, rows, several=several) for row in rows if _corrects_nothing(row))


def _place(row: ComparisonRow, statistics: Sequence[str] | None = None, *, several: bool) -> str:
    """Return the subject of a note, with `statistics` instead of the row's own."""
    named = (row.statistic,) if statistics is None else statistics
    statistic = "" if tuple(named) in ((), ("mean",)) else f", {' and '.join(named)}"
    pair = f", {row.pair[1]} against {row.pair[0]}" if several else ""
    return f"{row.dataset}, {row.metric}{statistic}{f', {row.tag}' if row.tag else ''}{pair}"


def _corrects_nothing(row: ComparisonRow) -> bool:
    """Return whether people labelled the differing answers but the labels correct nothing."""
    return bool(row.judged is None and row.labelled and row.uncorrected and row.difference.difference and not row.tag)


def _uncorrected(row: ComparisonRow, rows: Sequence[ComparisonRow], *, several: bool) -> str:
    """Why labels correct nothing: a note for all statistics of a metric that have this reason."""
    own = [
        one
        for one in rows
        if not one.tag and (one.pair, one.dataset, one.metric) == (row.pair, row.dataset, row.metric)
    ]
    same = [one.statistic for one in own if _corrects_nothing(one) and one.uncorrected == row.uncorrected]
    where = _place(row, () if len(same) == len(own) else same, several=several)
    more = f"; {MIN_LABELS} would do" if row.uncorrected.startswith("fewer") else ""
    return f"{where}: labels of {counted(row.labelled, 'case')} in each run correct nothing: {row.uncorrected}{more}"


def _nothing_in_common(pair: tuple[SavedRun, SavedRun], how: ComparisonOptions, *, apart: bool) -> Problem:
    """Return the problem of runs without common rows; `apart`: whether each has cases that the other lacks."""
    what, failed = "the runs have no scored case in common", command("cases", pair[0].folder.path, "--failed")
    hint = of_different_cases(pair) if apart else f"why cases have no score: {failed}"
    if how.unpaired:
        what, hint = "the runs have no metric in common that both have scored, on datasets of one name", ""
    metrics = [run.manifest.metrics for run in pair]
    if all(metrics) and metrics[0].keys().isdisjoint(metrics[1]):
        named = " and ".join(f"{run.name} has {', '.join(own)}" for run, own in zip(pair, metrics, strict=True))
        what, hint = f"the runs have no metric in common: {named}", "score both by the same metric"
    return Problem(what, " and ".join(run.name for run in pair), hint)


def compare_two(
    a: SavedRun, b: SavedRun, how: ComparisonOptions, labels: ComparedLabels = NO_LABELS
) -> tuple[list[ComparisonRow], Pairing]:
    """The differences of two runs case by case, with unadjusted p-values, and the cases that they share."""
    names, traits, unusable = (a.name, b.name), a.traits | b.traits, labels.unusable_in(a, b)
    pairing = pair_scores(a.scores(), b.scores(), traits, labels.people_in(a, b))
    seed = b.manifest.config["seed"]
    rows = compare_cases(pairing, names, traits, **how.rows_by, seed=seed, unusable=unusable)
    return _of_whole_runs(rows, a, b), pairing


def _of_whole_runs(rows: list[ComparisonRow], *runs: SavedRun) -> list[ComparisonRow]:
    """The rows; without intervals and tests if looks stopped a run, as both hold for runs of a fixed size only."""
    if not any(run.manifest.stopped for run in runs):
        return rows
    return [replace(row, difference=untold(row.difference, STOPPED_BY_LOOKS), judged=None) for row in rows]


def notes_of(a: SavedRun, b: SavedRun, pairing: Pairing, names: tuple[str, str]) -> Iterator[str]:
    """Return what is not compared of two runs, and what limits their comparison."""
    for row in pairing.counts.iter_rows(named=True):
        where = f"{row['dataset']}, {row['metric']}"
        if not row["common"] + row["unscored"]:
            yield f"{where}: only {names[0] if row['only_a'] else names[1]} has it"
            continue
        alone = zip(("only_a", "only_b"), names, strict=True)
        left = [f"{row[key]} only in {name}" for key, name in alone if row[key]]
        left += [f"{row['unscored']} not scored in both"] if row["unscored"] else []
        if left:
            common = f"{counted(row['common'], 'case')} compared"
            yield f"{where}: {common}; left out: {', '.join(left)}"
    yield from _asking_the_same(a, b, pairing)
    for run, name in zip((a, b), names, strict=True):
        yield from (f"{name}: {note}; the comparison counts them" for note in notes_on_exclusions(run.folder))
        yield from (f"{name}: {line}" for line in answer_lines(run.manifest, shown(run.folder.path)))
        yield from _of_ended_early(run, name)


def _asking_the_same(a: SavedRun, b: SavedRun, pairing: Pairing) -> Iterator[str]:
    """Say where the first of several cases without an id may be another one in the other run's file."""
    for (dataset,), cases in pairing.cases.group_by("dataset", maintain_order=True):
        facts = [run.manifest.datasets.get(str(dataset)) for run in (a, b)]
        n = sum(is_numbered_id(case_id) for case_id in cases["case_id"].unique())
        if n and len({one and one.sha256 for one in facts}) > 1:
            ask = "without an id asks the same as another" if n == 1 else "without an id ask the same as others"
            first = "the first of each may be another case in the other file; a column `id` makes it certain"
            yield f"{dataset}: {counted(n, 'case')} {ask}: {first}"


def questions_of(runs: dict[str, SavedRun], listed: Sequence[CaseChanges]) -> Iterator[tuple[tuple[str, str], str]]:
    """The questions of the cases that are listed, by dataset and id."""
    for changes in listed:
        wanted = {(one.dataset, one.case_id) for one in changes.cases}
        for case in runs[changes.pair[1]].cases(wanted) if wanted else ():
            yield (case.dataset, case.id), case.question or ""


def open_baseline(run: RunConfig) -> SavedRun:
    """The baseline of a run that has one; UserError if it is not a run, of another version, or without scores."""
    assert run.baseline is not None  # a run without a baseline is refused earlier if it compares
    try:
        return replace(find_scored(run.baseline), name="baseline")
    except UserError as error:
        where, what = f"baseline={run.baseline}", "the baseline cannot be read: "
        raise UserError([Problem(what + p.what, where, p.hint, BASELINE) for p in error.problems]) from None


class BaselineAnswers:
    """The first answers of a run's baseline, by case; only the offsets of its cases.jsonl are in memory."""

    def __init__(self, settings: Settings) -> None:
        run = settings.run
        try:
            baseline = open_baseline(run)
        except UserError as error:
            problems = _target_problems(str(run.baseline), settings.composed.conf_folders)
            raise UserError(problems or error.problems) from None
        self._file = baseline.folder.cases
        self._places: dict[int, int] = {}
        if not self._file.is_file():
            return
        with self._file.open("rb") as lines:
            for dataset, facts in baseline.manifest.datasets.items():
                for _ in range(facts.cases):
                    place = lines.tell()
                    if line := lines.readline():
                        self._places[cell_digest(dataset, json.loads(line)["id"])] = place

    def beside(self, case: Case) -> Case:
        """Return the case with the baseline's answer in its `vars`, unless the baseline had a different question."""
        known: dict[str, Any] = {}
        place = self._places.get(cell_digest(case.dataset, case.id))
        if place is not None:
            with self._file.open("rb") as lines:
                lines.seek(place)
                known = json.loads(lines.readline())
        before = asked_in(known)
        asked = [message.content for message in case.messages if message.role != "assistant"]
        others = {name: value for name, value in case.vars.items() if name != BASELINE}
        if known.get("answer") is None or before != asked:
            return replace(case, vars=others)
        return replace(case, vars={**others, BASELINE: known["answer"]})


def baseline_problems(gates: Sequence[Gate], run: RunConfig, manifest: Manifest) -> list[Problem]:
    """Return why gates cannot use the baseline: it is not a run, or it measured something else."""
    try:
        baseline = open_baseline(run)
    except UserError as error:
        folders = [Path(folder) for folder in manifest.search_folders["conf"]]
        return _target_problems(str(run.baseline), folders) or list(error.problems)
    where, known = f"baseline={run.baseline}", baseline.manifest.metrics
    problems: list[Problem] = []
    wanted = (gate.metric for gate in gates if gate.baseline and gate.metric in manifest.metrics)
    for name in dict.fromkeys(str(metric) for metric in wanted):
        if name not in known:
            what = f"the baseline has no metric {name!r}"
            problems.append(Problem(what, where, did_you_mean(name, known), BASELINE))
            continue
        hint = "run the baseline again with this run's settings, and name that run"
        problems += [
            Problem(part.what, where, hint, BASELINE) for part in unlike_metrics(name, baseline.manifest, manifest)
        ]
    return problems


def _target_problems(name: str, conf_folders: Iterable[Path]) -> list[Problem]:
    if not any((folder / "target" / f"{name}.yaml").is_file() for folder in conf_folders):
        return []
    hint = f"let it answer in a separate run, target={name} generate=true, and name that run's folder"
    return [Problem(f"{name} is a target, but a baseline is a run", f"baseline={name}", hint, BASELINE)]


def baseline_summary(run: RunConfig) -> pl.DataFrame:
    """The summary of the run's baseline; UserError if it can no longer be read."""
    path = open_baseline(run).folder.path
    try:
        return pl.read_parquet(path / "summary.parquet")
    except OSError:
        hint = f"write it: {command('report', path)}"
        raise UserError(Problem("the baseline has no summary", f"baseline={run.baseline}", hint)) from None


def differences(
    gates: Sequence[Gate],
    run: SavedRun,
    config: RunConfig,
    scores: pl.LazyFrame,
    metrics: Mapping[str, Measured],
    *,
    labelled: bool = False,
) -> tuple[list[ComparisonRow], list[str]]:
    """The differences of a run from its baseline: overall and by tag, and by class if a gate needs it; and a note.

    If people `labelled` this run, their labels of it and of the baseline correct the differences. As in `compare`,
    they have no interval if looks stopped one of the runs, and a note says that the baseline ended early.
    """
    baseline, this = open_baseline(config), replace(run, name="this run")
    labels = labels_to_compare([baseline, this], None) if labelled else NO_LABELS
    for note in labels.notes:
        log.warning("%s", note)
    traits = {
        name: Traits(metric.config.direction == "higher_is_better", metric.bounded, metric.figures)
        for name, metric in metrics.items()
    }
    pairing = pair_scores(baseline.scores(), scores, traits, labels.people_in(baseline, this))
    unusable = labels.unusable_in(baseline, this)
    by_class = any(gate.baseline and "[" in gate.statistic for gate in gates)
    how = {"by_tag": True, "by_class": by_class}
    rows = compare_cases(pairing, ("baseline", "this run"), traits, **how, seed=config.seed, unusable=unusable)
    return _of_whole_runs(rows, baseline, this), _of_ended_early(baseline, "the baseline")
