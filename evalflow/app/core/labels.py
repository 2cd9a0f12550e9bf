"""The labels of a run's or a sweep's answers, from a file or from the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from evalflow import datasets, paths
from evalflow.app.core.kept_labels import (
    LabelSources,
    RunLabels,
    case_hashes,
    follow,
    kept_followed,
    newest_labels,
    read_kept,
    without_followed,
)
from evalflow.app.core.saved import SavedRun, answered_rows, scored_runs
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.labels.read import HERE, Elsewhere, LabelledAnswer, LeftOut, Parsed, answer_hash, bind, parse, parse_case
from evalflow.labels.sheet import advised_size
from evalflow.lazy import pl
from evalflow.metrics.case_fields import is_recorded
from evalflow.metrics.scale import label_scale, read_judgement
from evalflow.paths import shown
from evalflow.records import Label
from evalflow.report.wording import counted
from evalflow.summary.agreement import (
    OF_MEANS,
    label_frame,
    labelled_scores,
    nothing_to_score,
    partly_labelled,
    people_of,
    truths,
)
from evalflow.summary.pairing import lower_is_better

OF_DATA = "the data's own labels"
OF_ROWS = "the labels"
_NAMED = 3  # runs to name in a note
MOST = 50
"""Maximum number of label problems reported at once."""


Rows = Sequence[Mapping[str, Any]]  # labels with the columns of `evalflow.labels.columns`


def bound_labels(run: SavedRun, given: str | Rows | None, elsewhere: Elsewhere = HERE) -> RunLabels:
    """Like `read_labels`, but UserError if none of the labels gives a score to an answer of the run."""
    labels = read_labels(run, given, elsewhere)
    if not labels.frame["human"].count():
        n = sum(labels.left_out.values()) - labels.left_out["blank"]
        what = f"none of {n} labels {'gives a score' if labels.frame.height else 'is of an answer of this run'}"
        raise UserError(Problem(what, labels.source, "; ".join(labels.notes)))
    return labels


def read_labels(run: SavedRun, given: str | Rows | None, elsewhere: Elsewhere = HERE) -> RunLabels:
    """Read labels from a file or from rows, and match them with the run's answers.

    Without either, use those in the data, those stored with the run, and other runs' labels of equal answers.
    UserError if there are no labels, or some are invalid; it lists every problem.
    """
    path = paths.resolve(given) if isinstance(given, str) else None
    source = shown(path) if path else OF_DATA if given is None else OF_ROWS
    if given is None:
        if kept := _collected(run):
            return kept
        parsed_labels = _of_data(run)
    else:
        rows, broken = _placed_rows(given)
        parsed_labels = parse(rows, source)
        parsed_labels.problems[:0] = broken
    if not parsed_labels.given and not parsed_labels.problems:
        what = "there are no human labels"
        folder = shown(run.folder.path)
        draw = command("calibrate", folder, "--sample", advised_size(run.manifest.answered))
        hint = f"draw answers to label, and give the labels with --labels: {draw}"
        if parsed_labels.blank:
            what = f"nobody has filled in a value yet, in {counted(len(parsed_labels.blank), 'row')}"
            hint = "fill the columns value and by, then calibrate again"
        raise UserError(Problem(what, source, hint))
    known: set[str] = set()
    if given is not None:  # there may be labels on metrics that exist, but that the run did not score
        files = [folder / "metric" for folder in run.rules.settings.composed.conf_folders]
        named = {one.metric for one in parsed_labels.given}
        known = {name for name in named if any((file / f"{name}.yaml").is_file() for file in files)}
        known.update(elsewhere.metrics)
    return _bound(run, parsed_labels, source, replace(elsewhere, metrics=known))


def _collected(run: SavedRun) -> RunLabels | None:
    """Return the valid labels in a run's data; on other datasets and metrics its stored labels, else other runs'."""
    data = _of_data(run)
    if data.problems:
        return None
    kept, own = read_kept(run.folder), _bound(run, data, OF_DATA, HERE)
    if kept is not None and (given := without_followed(kept, own.series)):
        own = own.with_followed(given) if own.frame.height else given
    own = own.with_followed(follow(run, own.series, LabelSources()))
    if kept is not None:
        own = own.with_followed(kept_followed(kept, own.series))
    return own if own.frame.height else None


def _placed_rows(given: str | Rows) -> tuple[list[tuple[str, Any]], list[Problem]]:
    """Return labels, each with its place, and the unreadable ones."""
    if isinstance(given, str):
        return read_rows(paths.resolve(given))
    return [(f"label {number}", row) for number, row in enumerate(given, 1)], []


def labels_of_run(run: SavedRun, sources: LabelSources | None = None) -> RunLabels | None:
    """The labels of a run's answers, or None.

    On each dataset and metric the labels that the run keeps, which it was calibrated with, or else those in its data;
    without any, those of other runs that gave equal answers (`follow`).
    """
    own = read_kept(run.folder)
    if own is None and any(facts.labelled for facts in run.manifest.datasets.values()):
        own = _bound(run, _of_data(run), OF_DATA, HERE)
        own = own if own.frame.height else None
    followed = follow(run, own.series if own else (), sources or LabelSources())
    return own.with_followed(followed) if own else followed


def _bound(run: SavedRun, parsed_labels: Parsed, source: str, elsewhere: Elsewhere) -> RunLabels:
    scales = {
        name: partial(read_judgement, label_scale(metric.config, bounded=metric.bounded))
        for name, metric in run.rules.metrics.items()
    }
    config = run.rules.settings.run
    partly = config.limit is not None or config.sample is not None
    asked = parsed_labels.asked
    bound, left, problems = bind(asked, _answered(run, asked), scales, replace(elsewhere, partial=partly))
    if problems := [*parsed_labels.problems, *problems]:
        more = len(problems) - MOST
        shortened = [Problem(f"and {more} more like these", source)] if more > 0 else []
        raise UserError([*problems[:MOST], *shortened])
    left_out = {"stale": left.stale, "without_hash": left.unbound, "not_in_run": left.absent}
    left_out |= {"other_metrics": sum(left.other_metrics.values()), "blank": len(parsed_labels.blank)}
    left_out |= {"older_rubric": left.older_rubric, "unblinded": left.unblinded, "by_hand": left.by_hand}
    left_out |= {"missing": left.missing.total() - left.missing["blank"]}
    notes = [
        *_notes(left),
        *_notes_on_blank_rows(parsed_labels, left.missing.pop("blank", 0)),
        *_notes_on_reviews(left, [one.label for one in bound]),
    ]
    return RunLabels(label_frame(one.row for one in bound), source, left_out, notes)


def _notes(left: LeftOut) -> Iterator[str]:
    if left.stale:
        yield (
            f"{_labels(left.stale)} of other answers than the ones scored here, and left out (the first: "
            f"{left.first_stale}); label these answers: {command('calibrate', '--sample')}"
        )
    if left.unbound:
        yield (
            f"{_labels(left.unbound)} without answer_hash, so nobody knows of which of the generated answers; copy it "
            "from the sheet that calibrate --sample writes, or in Python from run.cases"
        )
    if left.absent:
        how = "its limit, its sample or the sweep left them out"
        yield f"{_labels(left.absent)} of cases that this run does not have: {how}"
    for metric, n in left.other_metrics.items():
        yield f"{_labels(n)} of {metric}, which this run did not score"


def _notes_on_blank_rows(parsed_labels: Parsed, missing: int) -> Iterator[str]:
    named = parsed_labels.named
    if missing:
        yield f"{'1 row has' if missing == 1 else f'{missing:,} rows have'} no value: {_labels(missing)} missing"
    if missing and (n := sum(one.metric in named for one in parsed_labels.last)):
        last = "the last row is" if n == 1 else f"the last {n:,} rows are"
        yield (
            f"{last} empty: if nobody has read these answers yet, and the rows are in the order in which they were "
            "drawn, delete these rows; those above are a random sample too"
        )
    others = Counter(one.metric for one in parsed_labels.blank if one.metric not in named)
    for metric, n in others.items():
        yield f"{metric}: none of {counted(n, 'row')} has a value, so people were not asked about it"


_WHY_MISSING = {"cannot_tell": "could not tell", "declined": "declined", "unfinished": "not finished"}


def _notes_on_reviews(left: LeftOut, bound: Sequence[Label]) -> Iterator[str]:
    if left.older_rubric:
        yield f"{_labels(left.older_rubric)} by guidelines that were revised since; left out"
    if left.unblinded:
        yield f"{_labels(left.unblinded)} by people who saw the judge's score: shown apart, and in no mean"
    if left.by_hand:
        yield f"{_labels(left.by_hand)} of answers picked by hand: shown apart, and in no mean"
    if left.missing:
        why = ", ".join(f"{n:,} {_WHY_MISSING[reason]}" for reason, n in sorted(left.missing.items()))
        yield f"{_labels(left.missing.total())} missing ({why})"
    if resolved := sum(one.use == "resolution" for one in bound):
        them = "1 disagreement was resolved" if resolved == 1 else f"{resolved:,} disagreements were resolved"
        yield f"{them}: the resolution corrects the mean, and does not count as agreement among people"
    if seen := sum(one.seen_before and one.use == "label" for one in bound):
        yield f"{_labels(seen)} by people who had opened the run's results before, and may have seen scores"


def _labels(n: int) -> str:
    return "1 label is" if n == 1 else f"{n:,} labels are"


def read_rows(path: Path) -> tuple[list[tuple[str, Any]], list[Problem]]:
    """Read the rows of a file, each with its place, and the unreadable ones."""
    rows = list(datasets.plain_rows(path))
    broken = [row for row in rows if isinstance(row, Problem)]
    return [(row.where, row.data) for row in rows if not isinstance(row, Problem)], broken


def _of_data(run: SavedRun) -> Parsed:
    parsed = [parse_case(case) for case in run.cases() if case.labels]
    # The data may contain labels for metrics that are not part of this run.
    given = [one for part in parsed for one in part.given if one.metric in run.rules.metrics]
    return Parsed(given, problems=[problem for part in parsed for problem in part.problems])


def _answered(run: SavedRun, given: Sequence[Label]) -> Iterator[LabelledAnswer]:
    ids, metrics = {one.case_id for one in given}, {one.metric for one in given} & set(run.rules.metrics)
    keys = run.scores().select("dataset", "case_id").filter(pl.col("case_id").is_in(ids)).unique().collect()
    for row in answered_rows(run, run.scores(), set(keys.iter_rows())):
        if row.answer is not None:
            case, digest, recorded = row.case, answer_hash(row.answer), is_recorded(row.case, row.answer)
            seen = case_hashes(run, row, metrics)
            yield LabelledAnswer(case.dataset, case.id, row.target, row.target_repeat, digest, recorded, seen)


def finished_runs(folder: Path, jobs: Sequence[Path]) -> tuple[dict[str, SavedRun], list[str]]:
    """The runs of a sweep that have scores, by name, and a note for each other one; UserError if none has scores."""
    runs = {run.name: run for run in scored_runs(jobs)}
    if not runs:
        hint = "finish each of them: " + "; ".join(command("resume", job) for job in jobs)
        raise UserError(Problem("no run of this sweep has scores yet", str(folder), hint))
    notes = [f"run {job.name} has no scores yet, and is left out" for job in jobs if job.name not in runs]
    notes += [
        f"run {name} is not complete ({run.manifest.status}): only the answers that it scored count"
        for name, run in runs.items()
        if run.manifest.status != "done"
    ]
    sweep = RunFolder(folder).read_sweep()
    failed: Mapping[str, str] = sweep.failed if sweep else {}
    notes += [f"run {name} failed, and is left out: {why}" for name, why in failed.items() if name not in runs]
    return runs, notes


def labels_of_sweep(runs: Mapping[str, SavedRun], given: str | Rows | None) -> dict[str, RunLabels]:
    """The labels of each run, possibly none for some; `given` as for `read_labels`. UserError if none has any."""
    named = None if given is None else parse(_placed_rows(given)[0], "labels").asked
    elsewhere = _everything(runs.values(), None if named is None else {one.case_id for one in named})
    run_labels = {name: read_labels(run, given, elsewhere) for name, run in runs.items()}
    if not any(one.frame.height for one in run_labels.values()):
        why = "; ".join(dict.fromkeys(note for one in run_labels.values() for note in one.notes))
        source = next(iter(run_labels.values())).source
        raise UserError(Problem("none of the labels is of an answer of any run of this sweep", source, why))
    return run_labels


@dataclass(frozen=True, slots=True)
class ComparedLabels:
    """People's labels of the answers of runs.

    Attributes:
        frames: As of `label_frame`, by the path of the run's folder.
        people: By the same, what people said of each case, from `people_of`.
        unusable: By the same, why the labels of a dataset and metric may correct nothing.
        notes: What is left out.
    """

    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict[str, Any])
    people: Mapping[str, pl.DataFrame] = field(default_factory=dict[str, Any])
    unusable: Mapping[str, Mapping[tuple[str, str], str]] = field(
        default_factory=dict[str, Mapping[tuple[str, str], str]]
    )
    notes: Sequence[str] = ()

    def of(self, run: SavedRun) -> pl.DataFrame | None:
        return self.frames.get(str(run.folder.path))

    def named(self, runs: Mapping[str, SavedRun]) -> dict[str, pl.DataFrame]:
        """The labels of those of the runs that have some, by the same names."""
        return {name: frame for name, run in runs.items() if (frame := self.of(run)) is not None}

    def people_in(self, a: SavedRun, b: SavedRun) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """Return people's labels of each case of two runs; None for a run without labels."""
        return self.people.get(str(a.folder.path)), self.people.get(str(b.folder.path))

    def people_of(self, runs: Mapping[str, SavedRun]) -> dict[str, pl.DataFrame]:
        """What people said of each case of those of the runs that have labels, by the same names."""
        return {name: self.people[path] for name, run in runs.items() if (path := str(run.folder.path)) in self.people}

    def unusable_for(self, why: str) -> ComparedLabels:
        """Return the same labels, marked so that none may correct anything."""
        every = {
            folder: dict.fromkeys(frame.select("dataset", "metric").unique().iter_rows(), why)
            for folder, frame in self.frames.items()
        }
        return replace(self, unusable=every)

    def unusable_in(self, *runs: SavedRun) -> dict[tuple[str, str], str]:
        """The datasets and metrics whose labels in one of the runs may correct nothing, and why."""
        reasons: dict[tuple[str, str], str] = {}
        for run in runs:
            reasons |= self.unusable.get(str(run.folder.path), {})
        return reasons


def people_of_run(run: SavedRun, thresholds: Mapping[str, float] | None = None) -> pl.DataFrame | None:
    """People's labels of each labelled answer of a run, of `answers_of_people`; None without labels.

    `thresholds` by metric replace the run's.
    """
    from evalflow.summary.labelled_cells import answers_of_people  # late: few runs have labels

    labels = labels_of_run(run)
    if labels is None:
        return None
    scores = run.scores()
    if thresholds:
        tried = pl.col("metric").replace_strict(thresholds, default=pl.col("threshold"), return_dtype=pl.Float64)
        scores = scores.with_columns(threshold=tried)
    answers = labelled_scores(scores, labels.frame, lower=lower_is_better(run.traits), columns=OF_MEANS)
    return answers_of_people(answers, nothing_to_score(labels.frame))


def labels_to_compare(runs: Sequence[SavedRun], given: str | Rows | None) -> ComparedLabels:
    """The labels of the runs that have some.

    `given` as for `read_labels`; without it, those of `labels_of_run`. Labels drawn with unequal probabilities are left
    out: the chance that a case is labelled in two runs is not known from them. UserError if some are invalid.
    """
    from evalflow.summary.calibration import unusable_labels  # late: few comparisons have labels

    by_folder = {str(run.folder.path): run for run in runs}
    sources = LabelSources(run.folder.path for run in by_folder.values())
    if given is not None:
        run_labels: dict[str, RunLabels | None] = dict(labels_of_sweep(by_folder, given))
    else:
        run_labels = {name: labels_of_run(run, sources) for name, run in by_folder.items()}
    frames = {name: one.frame for name, one in run_labels.items() if one is not None and truths(one.frame).height}
    notes: list[str] = []
    for folder, run in by_folder.items() if frames else ():
        own = run_labels[folder]
        if folder not in frames:
            why = "".join(f" ({note})" for note in (own.notes if own else ()))
            size = advised_size(run.manifest.answered)
            again = f"label the same cases there: {command('calibrate', folder, '--sample', size)}"
            notes.append(
                f"{run.name}: no label is of its answers{why}, so labels correct no difference with it; {again}"
            )
        elif truths(frames[folder])["weight"].n_unique() > 1:
            del frames[folder]
            notes.append(f"{run.name}: its labels carry weights, and do not correct differences")
    if len(frames) > 1:
        at = {folder: one.at for folder in frames if (one := run_labels[folder])}
        frames = _of_equal_answers(frames, sorted(frames, key=lambda folder: at[folder], reverse=True))
    people: dict[str, pl.DataFrame] = {}
    unusable: dict[str, Mapping[tuple[str, str], str]] = {}
    for folder, frame in frames.items():
        run = by_folder[folder]
        answers = labelled_scores(run.scores(), frame, lower=lower_is_better(run.traits), columns=OF_MEANS)
        people[folder] = people_of(answers, nothing_to_score(frame))
        if n := partly_labelled(answers):
            have = "has" if n == 1 else "have"
            notes.append(
                f"{run.name}: {counted(n, 'labelled case')} {have} several answers, not all of them labelled; the "
                "mean of the labelled ones counts for the case"
            )
        why_not = unusable_labels(answers, frame)
        unusable[folder] = {key: f"{why} in {run.name}" for key, why in why_not.items()}
    bound = [one for one in run_labels.values() if one]
    # A label with a hash is of one run, and stale in the other.
    if len(bound) == 2 and (n := bound[0].left_out["stale"] - bound[1].frame.height) > 0:
        notes.append(f"at least {counted(n, 'label')} of other answers than those of either run, and left out")
    return ComparedLabels(frames, people, unusable, notes)


def _of_equal_answers(frames: Mapping[str, pl.DataFrame], newest: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Complete each run's labels with other runs' labels of the same answers, since equal answers have one truth.

    No answer is added, so that each run's labelled answers remain the original sample.
    """
    key, own = ["dataset", "case_id", "metric", "answer_hash"], ["target", "target_repeat", "unusable"]
    everything = pl.concat([frames[folder] for folder in newest]).drop(own)
    completed: dict[str, pl.DataFrame] = {}
    for folder, frame in frames.items():
        answers = frame.select(*key, *own, seen="case_hash").unique([*key, "target", "target_repeat"])
        rows = everything.join(answers, on=key, how="inner", maintain_order="left")
        same = pl.col("case_hash") == pl.col("seen")
        completed[folder] = newest_labels(rows.filter(same.fill_null(value=True)).select(frame.columns))
    return completed


def labelled_cases(runs: Iterable[SavedRun]) -> dict[tuple[str, str], dict[str, int]]:
    """Count the labelled cases by dataset, metric and run."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    sources = LabelSources()
    for run in runs:
        with suppress(UserError):  # invalid labels are reported where they are used
            own = labels_of_run(run, sources)
            rows = truths(own.frame).group_by("dataset", "metric").agg(pl.col("case_id").n_unique()) if own else None
            for dataset, metric, n in rows.iter_rows() if rows is not None else ():
                counts.setdefault((dataset, metric), {})[run.name] = n
    return counts


def unused_labels(runs: Iterable[SavedRun], shown: Collection[tuple[str, str]], what: str) -> list[str]:
    """A note on people's labels for what uses none: of the datasets and metrics shown, and `what` to know."""
    notes: list[str] = []
    for (dataset, metric), cases in labelled_cases(runs).items():
        if (dataset, metric) in shown:
            named = [f"{name} ({counted(n)})" for name, n in cases.items()]
            more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            notes.append(f"{dataset}, {metric}: people labelled answers of {', '.join(named[:_NAMED])}{more}; {what}")
    return notes


def other_runs(folder: Path) -> Elsewhere:
    """The metrics and cases of the other runs in a run's sweep; empty if it is not part of a sweep."""
    above = RunFolder(folder.parent)
    sweep = above.read_sweep() if above.manifest.is_file() else None
    if sweep is None or folder.name not in sweep.jobs:
        return HERE
    return _everything(scored_runs(folder.parent / name for name in sweep.jobs if name != folder.name))


def _everything(runs: Iterable[SavedRun], ids: Collection[str] | None = None) -> Elsewhere:
    """The metrics and cases of all runs; of the cases only those with such an id, if `ids` are given."""
    known = pl.lit(value=True) if ids is None else pl.col("case_id").is_in(list(ids))
    metrics: set[str] = set()
    cases: dict[str, set[str]] = {}
    for run in runs:
        metrics.update(run.manifest.metrics)
        for dataset, case_id in run.scores().filter(known).select("dataset", "case_id").unique().collect().iter_rows():
            cases.setdefault(case_id, set()).add(dataset)
    return Elsewhere(metrics, cases)
