"""The command `prove`: test if a judge agrees with people on a metric, detects faults and ignores harmless changes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from math import ceil
from pathlib import Path
from typing import Any

from rich.console import Console

from evalflow.app.core.assemble import settings_of
from evalflow.app.core.begin import RunOrder, keep_cases, order_of
from evalflow.app.core.cases import RunCases
from evalflow.app.core.certificates import save_proof
from evalflow.app.core.open_run import inspected, opened
from evalflow.app.core.proof_subject import FixtureCase, ProofSubject
from evalflow.app.core.saved import SavedRun, find_scored, open_run
from evalflow.app.core.screen import TerminalScreen
from evalflow.config.validate import Settings
from evalflow.datasets import case_to_row
from evalflow.datasets.perturbations import CHANGES, perturbed
from evalflow.engine.plan import Draw
from evalflow.errors import Problem, UserError, command
from evalflow.paths import shown
from evalflow.records import Case
from evalflow.report.proof import print_proof, write_proof
from evalflow.report.wording import counted, print_json
from evalflow.summary.proof import FIXTURE, FixtureScore, Proof, proof_of

_FEWEST, _MOST = 2, 100
_PLANNED = 0.9
"""The share of the calls that the cases may take; the rest is for re-asks."""
_SAMPLE_DATA = "rag"
_OF_DATA = ("dataset", "limit", "sample")
_PERSON = "person"
"""The variable of a fixture's case with people's score."""


def prove(options: argparse.Namespace, console: Console, err: Console) -> int:
    """Run a metric over its fixture, good answers and changed ones, print what it sees, and write proof.html.

    UserError if there is nothing to change: nothing was sent. Raises as a run does; what was finished is kept, and
    `resume` and then `prove --run FOLDER` finish it.
    """
    if options.run is not None:
        if options.metric or options.overrides:
            raise UserError(
                Problem("--run reads a run that is there", "command line", "leave metric and overrides out")
            )
        run = find_scored(options.run, "prove", "--run")
    else:
        _expect_usable(options)
        order = _order(options)
        screen = TerminalScreen(err, err)
        screen.sweeping()
        try:
            with opened(order, inspected(order), screen) as one:
                one.score()
        except KeyboardInterrupt:
            screen.interrupted(order.folder)
            return 130
        run = open_run(one.folder)
    proof = _proof(run, options.by)
    save_proof(proof, run)
    page, _ = write_proof(run.folder.path, run.manifest, proof)
    if options.json:
        return print_json(console, proof.document() | {"page": str(page)})
    print_proof(console, proof)
    for label, path in (("page", page), ("report", run.folder.report)):
        console.print(f"{label:<7}{shown(path)}", soft_wrap=True, markup=False)
    return 0


def _proof(run: SavedRun, by: float) -> Proof:
    settings = run.rules.settings
    scores, people = run.scores().collect(), _people(run)
    if not (people or scores["tags"].list.first().is_in(CHANGES).any()):
        hint = command("prove", next(iter(settings.run.metric)))
        raise UserError(Problem("this run was not made by prove", str(run.folder.path), hint))
    subject = ProofSubject.find(settings)
    bounded = all(facts.bounded for facts in run.manifest.metrics.values() if facts.declared == subject.name)
    return proof_of(
        subject.scores(scores),
        subject.name,
        faults=subject.faults or (),
        higher_is_better=subject.config.direction == "higher_is_better",
        by=by,
        limits=(0.0, 1.0) if bounded else None,
        people=people,
    )


def _people(run: SavedRun) -> dict[str, FixtureScore]:
    """The scores that people would give the cases of the fixture, as the run keeps them."""
    given: list[tuple[Case, Any]] = [(case, case.vars.get(_PERSON)) for case in run.cases() if case.dataset == FIXTURE]
    return {case.id: FixtureScore(label["score"], label["why"], case.question) for case, label in given if label}


def _expect_usable(options: argparse.Namespace) -> None:
    problems: list[Problem] = []
    if not options.metric:
        problems.append(Problem("prove which metric?", "command line", command("prove", "faithfulness")))
    if not options.by > 0:
        problems.append(Problem(f"a score cannot move by {options.by:g}", "--by", "more than 0, such as --by 0.1"))
    if options.base == "none" and _names_data(options.overrides):
        problems.append(Problem("the fixture alone needs no dataset", "--base none", "leave dataset out"))
    if "generate" in map(_key, options.overrides):
        what = "the answers are those that `prove` changes, so none are generated"
        problems.append(Problem(what, "generate", "leave generate and target out"))
    if problems:
        raise UserError(problems)


def _order(options: argparse.Namespace) -> RunOrder:
    """The run over the fixture, and over good answers and their changes: as many cases as `--calls` allows."""
    overrides, config_dir = options.overrides, options.config_dir
    data = [word for word in overrides if _key(word).partition(".")[0] in _OF_DATA]
    others = [word for word in overrides if word not in data]
    is_named = _names_data(overrides)
    if not any(word.startswith("dataset=") for word in data):
        data.insert(0, f"dataset={_SAMPLE_DATA}")
    order, others = _with_parts(options.metric, others, data, config_dir)
    settings = settings_of(order.composed)
    budget = settings.run.budget.requests
    if budget is None or budget > options.calls:
        others.append(f"budget.requests={options.calls}")
    subject = ProofSubject.find(settings)
    fixture = subject.read_fixture(settings) if subject.config.fixture or options.base == "none" else ()
    if fixture:
        others += _dataset_words(FIXTURE, map(_labelled_row, fixture))
    is_changeable = subject.reads_answer and subject.faults is not None
    if options.base == "none" or (fixture and not is_named and not is_changeable):
        return _within(order_of(others, config_dir), options.calls)
    subject.expect_changeable()
    try:
        bases = _bases(settings, options.base)
        planned = _over_changes(others, bases, config_dir)
    except UserError:
        if is_named or not fixture:
            raise
        # The sample data lack what the metric needs: cases of the fixture have it.
        bases = [one.case for one in fixture if one.is_good and (one.case.answer or "").strip()]
        if len(bases) < _FEWEST:
            return _within(order_of(others, config_dir), options.calls)
        planned = _over_changes(others, bases, config_dir)
    while True:
        order, calls = planned
        if calls <= _PLANNED * options.calls:
            return order
        fewer = min(len(bases) - 1, int(len(bases) * _PLANNED * options.calls / calls))
        if fewer < _FEWEST:
            what = f"{counted(len(bases), 'case')}, their changes"
            raise _too_many(what if not fixture else f"{what} and the fixture", calls, options.calls)
        bases = bases[:fewer]
        planned = _over_changes(others, bases, config_dir)


def _over_changes(others: Sequence[str], bases: Sequence[Case], config_dir: Path | None) -> tuple[RunOrder, int]:
    """The run over good answers and their changes, and its calls; UserError if they lack what the metric needs."""
    order = order_of([*others, *_changed_words(bases)], config_dir)
    return order, inspected(order).estimate.requests


def _with_parts(
    metric: str, others: Sequence[str], data: Sequence[str], config_dir: Path | None
) -> tuple[RunOrder, list[str]]:
    """The run over the data with the metric and, of a composite, its parts; and its overrides without the data."""
    about_parts = [
        word for word in others if _key(word).startswith("metric.") and not _key(word).startswith(f"metric.{metric}.")
    ]
    alone = [f"metric={metric}", *(word for word in others if word not in about_parts)]
    order = order_of([*alone, *data], config_dir)
    parts = ProofSubject.find(settings_of(order.composed)).part_names
    if not parts and not about_parts:
        return order, alone
    whole = [f"metric=[{','.join((metric, *parts))}]", *others]
    return order_of([*whole, *data], config_dir), whole


def _names_data(overrides: Sequence[str]) -> bool:
    return any(_key(word).partition(".")[0] == "dataset" for word in overrides)


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _within(order: RunOrder, allowed: int) -> RunOrder:
    """The order itself; UserError if it takes more calls."""
    calls = inspected(order).estimate.requests
    if calls > _PLANNED * allowed:
        raise _too_many("the cases of the fixture", calls, allowed)
    return order


def _too_many(what: str, calls: int, allowed: int) -> UserError:
    text = (
        f"{what} take about {calls:,} calls, and {allowed:,} are allowed, a tenth of them for replies asked for again"
    )
    return UserError(Problem(text, "--calls", f"allow more: --calls {ceil(calls / _PLANNED)}"))


def _bases(settings: Settings, field: str) -> list[Case]:
    """Cases with a good answer, of all groups in turn: what people wrote as reference, or the recorded answer.

    What the metric needs is not checked yet, since the data need no answers of their own.
    """
    offered, draw = RunCases(settings.run), Draw(settings.run.sample, settings.run.seed)
    for case in offered:
        draw.offer(case)
    texts = (
        (case, next(iter(case.references), None) if field == "reference" else case.answer)
        for case in draw.pick(offered)
    )
    groups: dict[str, list[Case]] = {}
    for case, text in texts:
        if text and text.strip():
            groups.setdefault(case.group or case.id, []).append(replace(case, answer=text, labels=None))
    turns = chain.from_iterable(zip_longest(*groups.values()))
    bases = list(islice((case for case in turns if case is not None), _MOST))
    if len(named := sorted({case.dataset for case in bases})) > 1:
        raise UserError(Problem(f"cases of one dataset, not of {', '.join(named)}", "dataset", f"dataset={named[0]}"))
    if len(bases) < _FEWEST:
        other = "answer" if field == "reference" else "reference"
        what = f"{counted(len(bases), 'case')} with text in `{field}`, and {_FEWEST} are needed"
        mapped = " ".join(f"++dataset.{name}.fields.{field}=COLUMN" for name in settings.run.dataset)
        raise UserError(Problem(what, "dataset", f"other cases, --base {other}, or name the column: {mapped}"))
    return bases


def _changed_words(bases: Sequence[Case]) -> list[str]:
    name = bases[0].dataset
    rows = (case_to_row(one.case) for one in perturbed(bases))
    return _dataset_words("perturbed", rows, f"{FIXTURE}_changed" if name == FIXTURE else name)


def _labelled_row(one: FixtureCase) -> dict[str, Any]:
    """A case as a row without `labels`, so that the run is not calibrated with people's score."""
    person = {_PERSON: {"score": one.score, "why": one.why}}
    return case_to_row(replace(one.case, labels=None, vars={**one.case.vars, **person}))


def _dataset_words(key: str, rows: Iterable[Mapping[str, Any]], name: str | None = None) -> list[str]:
    """Overrides for a dataset with these rows."""
    at = f"+dataset.{key}"
    settings = {"path": keep_cases(rows), "name": name or key, "allow_irregular": "true"}
    return [f"{at}.{word}={value}" for word, value in settings.items()]
