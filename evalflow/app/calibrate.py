"""The command `calibrate`: compare a run's judges with people's labels, or draw answers for people to label."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from evalflow.app.core.calibration import CertificateResult, half_of, rank_judges, save_ranking
from evalflow.app.core.labels import MOST, bound_labels, finished_runs, labels_of_sweep, other_runs, read_rows
from evalflow.app.core.rederive import calibrate_run
from evalflow.app.core.reviewing import answers_to_label, labellable_scores, own_scores
from evalflow.app.core.saved import answered_rows, find_folder, find_scored, jobs_of, open_scored
from evalflow.app.core.sweep import write_sweep
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command, unknown_name
from evalflow.labels.read import answer_hash
from evalflow.labels.sheet import (
    CELL,
    Drawn,
    Key,
    Sheet,
    UnlabelledAnswer,
    draw,
    draw_groups,
    key_of,
    read_sheet,
    score_strata,
    shown_case,
    tag_stratum,
    write_label_sheet,
)
from evalflow.metrics.scale import label_scale, scale_text
from evalflow.paths import shown
from evalflow.report.calibration import Calibration, print_calibration, print_corrected
from evalflow.report.results_csv import as_answered
from evalflow.report.sweep import print_choice
from evalflow.report.wording import literal, print_json, print_lines
from evalflow.stats.prediction import MIN_LABELS

_SHEET = Path("labels.csv")
OTHER_HALF = "the half of the labels that did not choose the judge"


def calibrate(options: argparse.Namespace, console: Console) -> int:
    """Calibrate, issue certificates, rewrite the reports of the run or sweep, and print; or sample answers to label.

    Returns 0, or 2 if there are too few labels for any estimate. UserError if there is no such run or no label, or some
    are invalid.
    """
    if options.sample is not None:
        if options.labels or options.json:
            hint = "draw answers first, and calibrate when they are labelled"
            raise UserError(Problem("--sample goes with neither --labels nor --json", "command line", hint))
        return _write_sample(options, console)
    path = find_folder(options.run)
    jobs = jobs_of(path)
    if jobs is not None:
        return _calibrate_sweep(path, jobs, options, console)
    if options.no_split:
        hint = "leave it out: one run chooses no judge, so all its labels correct"
        raise UserError(Problem("--no-split is for a sweep over judges", "command line", hint))
    folder = RunFolder(path)
    people = bound_labels(open_scored(folder), options.labels, other_runs(path))
    calibrated = calibrate_run(folder, people)
    if calibrated is None:
        raise _nothing_scored(folder.path, people.source)
    calibration, results, gates = calibrated
    if options.json:
        certificates = [str(one.path) for one in results if one.path]
        document = calibration.document() | {
            "gates": gates,
            "page": str(folder.calibration_page),
            "certificates": certificates,
        }
        print_json(console, document)
    else:
        print_calibration(console, calibration)
        console.print()
        print_lines(console, gates, "bold")
        _print_certificates(console, results)
        console.print(literal(f"report       {shown(folder.report)}"), soft_wrap=True)
        console.print(literal(f"page         {shown(folder.calibration_page)}"), soft_wrap=True)
    return 0 if _has_enough([calibration]) else UserError.exit_code


def _calibrate_sweep(folder: Path, jobs: Sequence[Path], options: argparse.Namespace, console: Console) -> int:
    """Calibrate every run of a sweep, rank its judges, and rewrite its reports.

    Half of the labels choose the judge, and the other half corrects its mean. All labels correct it with `no_split`, or
    if no two runs have different judges.
    """
    runs, notes = finished_runs(folder, jobs)
    people = labels_of_sweep(runs, options.labels)
    source = next(iter(people.values())).source
    ranking = rank_judges(runs, {name: one.frame for name, one in people.items()}, split=not options.no_split)
    split = bool(ranking.halves)
    calibrations: dict[str, Calibration] = {}
    results: list[CertificateResult] = []
    for name, run in runs.items():
        own = people[name]
        if split:
            rest = half_of(own.frame, ranking.halves[name], choosing=False)
            own = replace(own, frame=rest, rests_on=OTHER_HALF)
        calibrated = calibrate_run(run.folder, own) if own.frame.height else None
        if calibrated is not None:
            calibrations[name] = calibrated[0]
            results += calibrated[1]
            notes += [f"run {name}: {line}" for line in calibrated[2]]
    if not calibrations:
        raise _nothing_scored(next(iter(runs.values())).folder.path, str(folder))
    if bare := [name for name in people if name not in calibrations]:
        notes.append(f"no label is of an answer that {'run' if len(bare) == 1 else 'runs'} {', '.join(bare)} scored")
    notes += ranking.notes
    labelled = {"source": source, "given": {name: one.frame.to_dicts() for name, one in people.items()}}
    rows = {name: run_calibration.document()["rows"] for name, run_calibration in calibrations.items()}
    boards = save_ranking(folder, ranking, runs, rows, split=split, notes=notes, labels=labelled)
    write_sweep(folder, [run.folder.path for run in runs.values()])
    page = folder / "report.html"
    if options.json:
        listed = [{"run": name, **row} for name, own in rows.items() for row in own]
        document = {
            "choice": [asdict(board) for board in boards],
            "split": split,
            "rows": listed,
            "notes": notes,
            "page": str(page),
        }
        print_json(console, document)
    else:
        for name, run_calibration in calibrations.items():
            console.print(
                literal(f"{name}, by {run_calibration.source} ({run_calibration.rests_on})", style="dim"),
                soft_wrap=True,
            )
            _print_notes(console, run_calibration.notes)
            print_corrected(console, run_calibration)
        print_choice(console, boards, split=split)
        _print_notes(console, notes)
        _print_certificates(console, dict.fromkeys(results))
        console.print(literal(f"report       {shown(page)}"), soft_wrap=True)
    return 0 if boards or _has_enough(calibrations.values()) else UserError.exit_code


def _nothing_scored(run: Path, where: str) -> UserError:
    hint = f"only scored answers can be calibrated; look at them: {command('cases', run)}"
    return UserError(Problem("none of the labelled answers was scored", where, hint))


def _has_enough(calibrations: Iterable[Calibration]) -> bool:
    rows = [row for run_calibration in calibrations for row in run_calibration.rows]
    return any(row.corrected.estimate is not None or (row.unusable and row.corrected.n >= MIN_LABELS) for row in rows)


def _print_notes(console: Console, notes: Sequence[str]) -> None:
    print_lines(console, (f"note: {note}" for note in notes), "yellow")


def _print_certificates(console: Console, results: Iterable[CertificateResult]) -> None:
    results = list(results)
    several = len({one.target for one in results}) > 1
    for one in results:
        of = f" by the answers of {one.target}" if several else ""
        if one.path is None:
            console.print(literal(f"no certificate of {one.judge} for {one.metric}{of}: {one.why}", style="yellow"))
            continue
        note = "later runs with the same judge, metric and prompts show the newest (list certificates)"
        console.print(literal(f"{one.judge}: {one.why}{of}; {note}"))
        console.print(literal(f"certificate  {shown(one.path)}"), soft_wrap=True)


def _write_sample(options: argparse.Namespace, console: Console) -> int:
    """Sample answers of a run and write them into a sheet; an existing sheet is topped up."""
    sample = _Sample(options)
    if problems := list(sample.option_problems()):
        raise UserError(problems)
    sample.write()
    for line in sample.summary():
        console.print(literal(line))
    for name, (taken, size) in sample.selection.strata.items() if options.stratify else ():
        console.print(literal(f"  {name}: {taken} of {size}", style="dim"))
    for name, scale in sample.metrics.items():
        about = sample.run.rules.metrics[name].config.description
        console.print(literal(f"{name}: {about} Write {scale}, or undefined where there is nothing to score."))
    order = "Rows are in random order: if you stop early, delete the rows that nobody has read."
    if options.by_group:
        order = "Groups are in random order: if you stop early, do so at the end of a group, and delete the rest."
    fill = "Fill the columns value and by, without a look at the judge's scores."
    console.print(literal(f"{fill} {order} Other rows without a value count as missing labels.", style="dim"))
    console.print(literal(f"sheet  {shown(sample.path)}"), soft_wrap=True)
    run = [options.run] if options.run else []
    line = command("calibrate", *run, "--labels", shown(sample.path))
    console.print(literal(f"then   {line}"), soft_wrap=True)
    return 0


class _Sample:
    """A sample of a run's answers for people to label; `metrics` maps metric names to their scales in words."""

    selection: Drawn
    candidates: list[UnlabelledAnswer]

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.path = Path(options.out) if options.out else _SHEET
        self.run = find_scored(options.run, "calibrate", "--sample", str(options.sample or 50))
        self.folder = self.run.folder
        known, wanted = self.run.rules.metrics, options.metric
        if wanted is not None and wanted not in known:
            what = f"the run has no metric {wanted!r}"
            raise UserError(unknown_name(what, str(self.folder.path), wanted, known))
        names = [wanted] if wanted else [name for name in known if known[name].judge] or list(known)
        scales = {name: label_scale(known[name].config, bounded=known[name].bounded) for name in names}
        self.metrics = {name: scale_text(scale) for name, scale in scales.items()}
        self._every = own_scores(self.run, names)
        self._scores = labellable_scores(self.run, names)
        self._added = 0

    def option_problems(self) -> Iterator[Problem]:
        options, path = self.options, self.path
        if (self.folder.path / "proof.json").is_file():
            what = "the run is a proof: faults were put into its answers, so their labels say nothing about the bot"
            yield Problem(what, shown(self.folder.path), "name a run of its own answers, one of outputs/runs")
        if options.sample < 1:
            yield Problem(f"--sample is {options.sample}", "command line", "say how many answers to label: --sample 50")
        if path.suffix.lower() not in (".csv", ".jsonl"):
            yield Problem(f"--out {path} is neither .csv nor .jsonl", "command line", f"--out {_SHEET}")
        if not path.parent.is_dir():
            yield Problem(f"there is no folder {path.parent}", "command line", f"--out {_SHEET}")
        if options.stratify and options.by_group:
            yield Problem("--stratify and --by-group are two ways to draw", "command line", "leave one of them out")
        if options.stratify and len(self.metrics) > 1:
            hint = f"name one of them: --metric {next(iter(self.metrics))}"
            yield Problem(f"strata are of one metric, and there are {len(self.metrics)}", "command line", hint)

    def write(self) -> None:
        self.candidates = candidates = answers_to_label(self._scores)
        if not candidates:
            what = f"no answer can be labelled on {', '.join(self.metrics)}"
            hint = f"look at them: {command('cases', self.folder.path)}"
            raise UserError(Problem(what, str(self.folder.path), hint))
        rows, broken = read_rows(self.path) if self.path.exists() else ([], [])
        sheet, problems = read_sheet(rows)
        if broken or problems:
            raise UserError([*broken, *problems][:MOST])
        self._refuse_other_draws(sheet)
        size, seed = self.options.sample, self.options.seed
        if self.options.by_group:
            self.selection = draw_groups(candidates, size, seed, already=sheet.answers)
        else:
            strata = {None: None, "score": score_strata(candidates), "tag": tag_stratum}[self.options.stratify]
            self.selection = draw(candidates, size, seed, stratum=strata, already=sheet.answers)
        added = self._new_rows(sheet)
        self._added = len(added)
        write_label_sheet(self.path, [row | {"weight": self._weight(key_of(row))} for row in sheet.rows] + added)

    def _refuse_other_draws(self, sheet: Sheet) -> None:
        how = "by group" if self.options.by_group else "by strata" if self.options.stratify else "one by one"
        known = {one.key for one in self.candidates}
        others = [key for key in sheet.answers if key not in known]
        if others:
            what = f"{len(others)} of {len(sheet.answers)} answers in it are not of this run, such as {others[0][1]}"
            raise UserError(Problem(what, shown(self.path), "write a new sheet: --out FILE"))
        before = "by group" if sheet.grouped else "by strata" if sheet.weighted else "one by one"
        if sheet.answers and before != how:
            hints = {"by group": "say --by-group", "by strata": "say --stratify as then"}
            hint = hints.get(before, "leave --stratify and --by-group out")
            raise UserError(Problem(f"its answers were drawn {before}", shown(self.path), f"{hint}, or --out FILE"))
        if how == "by group" and len({(one.key[0], one.group) for one in self.candidates}) == len(self.candidates):
            hint = "leave --by-group out, or say what groups answers: dataset.NAME.group=FIELD"
            raise UserError(Problem("every answer is a group of its own", "--by-group", hint))

    def _new_rows(self, sheet: Sheet) -> list[dict[str, Any]]:
        """Return the rows of sampled answers and metrics that are not in the sheet yet, in sampling order."""
        groups = {one.key: one.group for one in self.candidates} if self.options.by_group else {}
        made: dict[Key, list[dict[str, Any]]] = {}
        for row in answered_rows(self.run, self._scores, {key[:2] for key in self.selection.weights}):
            key = (row.case.dataset, row.case.id, row.target, row.target_repeat)
            if key not in self.selection.weights or row.answer is None:
                continue
            digest = answer_hash(row.answer)
            if sheet.answers.get(key, digest) != digest:
                what = f"its answer to case {key[1]} is another than this run's"
                raise UserError(Problem(what, shown(self.path), "write a new sheet: --out FILE"))
            about = dict(zip(CELL, key, strict=True)) | {"answer_hash": digest, "weight": self._weight(key)}
            about |= {"group": groups[key]} if groups else {}
            about |= shown_case(as_answered(row.case, row.answer))
            metrics = dict.fromkeys(score["metric"] for score in row.scores)
            asked = [metric for metric in metrics if (key, metric) not in sheet.asked]
            made[key] = [about | {"metric": metric, "scale": self.metrics[metric]} for metric in asked]
        return [row for key in self.selection.weights for row in made.get(key, ())]

    def _weight(self, key: Key) -> float:
        return round(self.selection.weights[key], 6)

    def summary(self) -> Iterator[str]:
        n, (of, groups), seed = len(self.selection.weights), self.selection.groups, self.options.seed
        able, total = len(self.candidates), self._every.select(CELL).unique().collect().height
        name = "answers" if total == able else "answers that can be labelled"
        answers = f"all {n} {name}" if n == able else f"{n} of {able} {name}"
        how = f", drawn one by one at random with seed {seed}, from {of} of {groups} groups"
        if self.options.by_group:
            how = f": {of} of {groups} groups, whole, drawn at random with seed {seed}"
        elif groups == able or n == able:
            how = f", drawn at random with seed {seed}"
        yield f"{answers}{how}; {self._added} rows added"
        if failed := sum(one.score is None for one in self.candidates):
            yield f"{failed} of these {able} have no score by the judge, and are drawn like the others"
        if total > able:
            yield f"{total - able} of {total} answers are left out: skipped, undefined, or the target gave none"
