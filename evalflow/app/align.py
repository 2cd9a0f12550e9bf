"""The command `align`: show a judge human-graded answers, and keep the examples only if held-out labels show a gain."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from math import ceil
from pathlib import Path

from rich.console import Console

from evalflow.app.core.inspect import Inspection
from evalflow.app.core.labels import bound_labels, other_runs
from evalflow.app.core.open_run import inspected, opened
from evalflow.app.core.saved import SavedRun, find_scored, open_run
from evalflow.app.core.screen import TerminalScreen
from evalflow.app.core.teaching import NewVersion, Teaching, Written, file_of, texts_of
from evalflow.errors import Problem, UserError
from evalflow.report.alignment import print_alignment
from evalflow.report.wording import cost, counted, cut, print_json, print_lines

_PLANNED = 0.9
"""The share of the calls to plan for; the rest is for re-asks."""
_CODES: Mapping[bool | None, int] = {True: 0, False: 1}
_UNDECIDED = 3
_LONGEST = 100


def align(options: argparse.Namespace, console: Console, err: Console) -> int:
    """Propose examples from one half of the labels, measure them on the other, and write the metric if it is better.

    Returns 0 if it was written (or shown, with `--dry-run`), 1 if the judge got worse, 3 if the labels do not decide.
    UserError, with nothing sent, if the metric cannot be taught, or there are too few labels or calls. Other errors
    as of a run: what was asked is in the cache, so that the same command continues.
    """
    run = find_scored(options.run, "align", options.metric)
    people = bound_labels(run, options.labels, other_runs(run.folder.path))
    about = {"review": options.review, "examples": options.examples, "wording": options.wording, "seed": options.seed}
    plan = Teaching.of(run, options.metric, people, **about)
    file, version = file_of(run, plan.lesson), plan.version()
    order = plan.order(version, options.calls)
    inspection = inspected(order)
    calls = inspection.estimate.requests + plan.questions
    out = err if options.json else console
    print_lines(out, [*_example_lines(plan), *_call_lines(plan, inspection, options.calls)])
    if calls > options.calls:
        hint = f"allow more: --calls {ceil(calls / _PLANNED)}"
        raise UserError(Problem(f"this takes {calls:,} calls, and {options.calls:,} are allowed", "--calls", hint))
    if options.dry_run:
        return 0
    if plan.questions:
        written = plan.ask(inspection)
        print_lines(out, _written_lines(written))
        version = plan.version(written)
        order = plan.order(version, options.calls - plan.questions)
        inspection = inspected(order)
    screen = TerminalScreen(err, err)
    screen.sweeping()
    try:
        with opened(order, inspection, screen) as one:
            one.score()
    except KeyboardInterrupt:
        err.print("interrupted; the same command continues with the replies in the cache")
        return 130
    return _conclude(plan, version, file, open_run(one.folder), console, is_json=options.json)


def _example_lines(plan: Teaching) -> Iterator[str]:
    """Return the examples that the judge would be shown, for people to check."""
    lesson = plan.lesson
    if plan.examples:
        n = counted(len(plan.examples), "example")
        yield f"{n} for the judge of {lesson.metric}, from the half of the labels to learn from:"
    for number, one in enumerate(plan.examples, 1):
        grades = f"people: {lesson.graded(one.human, one.said)}, the judge: {lesson.graded(one.judged)}"
        yield f"{number}. {one.key[0]} ({grades})"
        texts = texts_of(one) | ({"reason": one.reason} if one.reason else {})
        yield from (f"   {name}: {cut(text, _LONGEST)}" for name, text in texts.items())


def _call_lines(plan: Teaching, inspection: Inspection, allowed: int) -> Iterator[str]:
    halves, estimate = plan.halves, inspection.estimate
    yield f"labelled answers: {halves.learning.height} to learn from, {halves.held_out.height} held out to measure with"
    missing = len(plan.unexplained)
    first = f"1 for {counted(missing, 'reason')} that no person gave, " if missing else ""
    if plan.mistakes:
        first += f"1 to reword the criterion by {counted(len(plan.mistakes), 'mistake')}, "
    price = "" if estimate.cost_usd_high is None else f", at most {cost(estimate.cost_usd_high)}"
    score = f"{'and ' if first else ''}{estimate.requests:,} to score the answers held out{price}"
    yield f"calls: {first}{score}; {allowed:,} are allowed"


def _written_lines(written: Written) -> Iterator[str]:
    yield from (f"the judge's reason for {key[0]}: {reason}" for key, reason in written.reasons.items())
    if written.wording:
        yield f"why the judge differs, in its words: {written.wording.cause}"
        yield f"its criterion: {written.wording.criterion}"


def _conclude(
    plan: Teaching, version: NewVersion, file: Path, after: SavedRun, console: Console, *, is_json: bool
) -> int:
    alignment = plan.measured(after)
    inconclusive = after.manifest.exit_code == _UNDECIDED
    is_written = alignment.helps is True and not inconclusive
    files = [version.write(file)] if is_written else []
    if is_json:
        document = alignment.document() | {"written": [str(path) for path in files], "run": str(after.folder.path)}
        print_json(console, document)
    else:
        print_alignment(console, alignment, version.version, files, after.folder.path, inconclusive=inconclusive)
    return _UNDECIDED if inconclusive else _CODES.get(alignment.helps, _UNDECIDED)
