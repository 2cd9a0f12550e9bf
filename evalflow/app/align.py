"""The command `align`: show a judge answers that people graded, and keep that only if other labels say it helps."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from math import ceil

from rich.console import Console

from evalflow.app.core.alignment import (
    LabelHalves,
    Lesson,
    Rescoring,
    choose_examples,
    labelled_answers,
    rescoring,
)
from evalflow.app.core.inspect import Inspection
from evalflow.app.core.labels import bound_labels, other_runs
from evalflow.app.core.open_run import inspected, opened
from evalflow.app.core.saved import SavedRun, find_scored, open_run
from evalflow.app.core.screen import TerminalScreen
from evalflow.app.core.taught import NewVersion, new_version, texts_of, unexplained, write_reasons
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.lazy import pl
from evalflow.paths import shown
from evalflow.report.alignment import print_alignment
from evalflow.report.wording import cost, counted, cut, print_json, print_lines
from evalflow.summary.alignment import alignment_of

_PLANNED = 0.9
"""The share of the calls to plan for; the rest is for replies that are asked for again."""
_CODES: Mapping[bool | None, int] = {True: 0, False: 1}
_UNDECIDED = 3
_LONGEST = 100


def align(options: argparse.Namespace, console: Console, err: Console) -> int:
    """Propose examples from one half of the labels, measure them on the other, and write the metric if it is better.

    Returns 0 if it was written (or shown, with `--dry-run`), 1 if the judge got worse, 3 if the labels do not decide.
    UserError, with nothing sent, if the metric cannot be taught so, or there are too few labels or calls. Other errors
    as of a run: what was asked is in the cache, so that the same command continues.
    """
    plan = _Teaching(options)
    run, lesson, examples = plan.run, plan.lesson, plan.examples
    missing = unexplained(lesson, examples)
    draft = new_version(run, lesson, examples, {})
    trial, found = _inspected(plan, draft, options.calls)
    calls = found.estimate.requests + bool(missing)
    out = err if options.json else console
    print_lines(out, [*_example_lines(plan), *_call_lines(plan, found, len(missing))])
    if calls > options.calls:
        hint = f"allow more: --calls {ceil(calls / _PLANNED)}"
        raise UserError(Problem(f"this takes {calls:,} calls, and {options.calls:,} are allowed", "--calls", hint))
    if options.dry_run:
        return 0
    version = draft
    if missing:
        written = write_reasons(found, lesson, missing)
        print_lines(out, (f"the judge's reason for {one.key[0]}: {written[one.key]}" for one in missing))
        version = new_version(run, lesson, examples, written)
    trial, found = _inspected(plan, version, options.calls - bool(missing))
    screen = TerminalScreen(err, err)
    screen.sweeping()
    try:
        with opened(trial.order, found, screen) as one:
            one.score()
    except KeyboardInterrupt:
        err.print("interrupted; the same command continues with the replies in the cache")
        return 130
    return _conclude(plan, version, trial, open_run(one.folder), console)


class _Teaching:
    """What is taught, and with which labels; UserError, with nothing sent, if that cannot be."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        run = self.run = find_scored(options.run, "align", options.metric)
        if options.metric not in run.rules.metrics:
            what = f"the run has no metric {options.metric!r}"
            raise UserError(Problem(what, shown(run.folder.path), did_you_mean(options.metric, run.rules.metrics)))
        if not 0 < options.examples <= 20:
            what = f"{options.examples} examples"
            raise UserError(Problem(what, "--examples", "from 1 to 20, such as --examples 4"))
        self.lesson = Lesson.of(run, options.metric)
        people = bound_labels(run, options.labels, other_runs(run.folder.path))
        answers = labelled_answers(run, options.metric, people, options.review)
        self.halves = LabelHalves.of(answers, self.lesson, options.seed)
        of_metric = pl.col("metric") == options.metric
        self.labels = people.frame.filter(of_metric)
        self.examples = choose_examples(run, self.lesson, self.halves.learning, self.labels, options.examples)


def _example_lines(plan: _Teaching) -> Iterator[str]:
    """What the judge would be shown, for people to read before it is used."""
    lesson = plan.lesson
    n = counted(len(plan.examples), "example")
    yield f"{n} for the judge of {lesson.metric}, from the half of the labels to learn from:"
    for number, one in enumerate(plan.examples, 1):
        grades = f"people: {lesson.graded(one.human, one.said)}, the judge: {lesson.graded(one.judged)}"
        yield f"{number}. {one.key[0]} ({grades})"
        texts = texts_of(one) | ({"reason": one.reason} if one.reason else {})
        yield from (f"   {name}: {cut(text, _LONGEST)}" for name, text in texts.items())


def _call_lines(plan: _Teaching, found: Inspection, unexplained: int) -> Iterator[str]:
    halves, estimate = plan.halves, found.estimate
    yield f"labelled answers: {halves.learning.height} to learn from, {halves.held_out.height} held out to measure with"
    first = f"1 for {counted(unexplained, 'reason')} that no person gave, and " if unexplained else ""
    price = "" if estimate.cost_usd_high is None else f", at most {cost(estimate.cost_usd_high)}"
    score = f"{estimate.requests:,} to score the answers held out{price}"
    yield f"calls: {first}{score}; {plan.options.calls:,} are allowed"


def _inspected(plan: _Teaching, version: NewVersion, requests: int) -> tuple[Rescoring, Inspection]:
    trial = rescoring(plan.run, plan.lesson, plan.halves.held_out, version.config, version.trial, requests)
    return trial, inspected(trial.order)


def _conclude(plan: _Teaching, version: NewVersion, trial: Rescoring, after: SavedRun, console: Console) -> int:
    run, halves, options = plan.run, plan.halves, plan.options
    keys = ["case_id", "target_repeat"]
    held = plan.labels.join(halves.held_out.select(keys), on=keys, how="semi")
    before = run.scores().filter(pl.col("target") == halves.held_out["target"][0])
    own = before.filter((pl.col("metric") == options.metric) & pl.col("member_of").is_null())
    found = alignment_of(
        own,
        trial.scores(after),
        held,
        run.traits[options.metric],
        learned=halves.learning.height,
        answers=own.filter(pl.col("status") == "scored").select(keys).unique().collect().height,
        seed=options.seed,
    )
    inconclusive = after.manifest.exit_code == _UNDECIDED
    is_written = found.helps is True and not inconclusive
    files = version.write() if is_written else []
    if options.json:
        document = found.document() | {"written": [str(path) for path in files], "run": str(after.folder.path)}
        print_json(console, document)
    else:
        print_alignment(console, found, version.version, files, after.folder.path, inconclusive=inconclusive)
    return _UNDECIDED if inconclusive else _CODES.get(found.helps, _UNDECIDED)
