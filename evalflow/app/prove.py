"""The command `prove`: whether a metric sees faults in answers that were good, and minds no harmless change."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from pathlib import Path

from rich.console import Console

from evalflow.app.core.assemble import settings_of, with_default_judge
from evalflow.app.core.begin import RunOrder, keep_cases
from evalflow.app.core.certificates import save_proof
from evalflow.app.core.inspect import Inspection
from evalflow.app.core.open_run import inspected, opened
from evalflow.app.core.saved import SavedRun, find_scored, open_run
from evalflow.app.core.screen import TerminalScreen, shown
from evalflow.config.load import compose
from evalflow.config.schema import FAULTS, MetricConfig
from evalflow.datasets import case_to_row
from evalflow.datasets.perturbations import CHANGES, perturbed
from evalflow.errors import Problem, UserError, command
from evalflow.metrics.kinds.composite import CompositeMetricConfig
from evalflow.paths import new_run_id
from evalflow.records import Case
from evalflow.report.proof import print_proof, write_proof
from evalflow.report.wording import counted, print_json
from evalflow.summary.proof import Proof, proof_of

_FEWEST, _MOST = 2, 100
_SAMPLE_DATA = "rag"
_OF_DATA = ("dataset=", "dataset.", "limit=", "sample=")


def prove(
    words: Sequence[str], options: argparse.Namespace, config_dir: Path | None, console: Console, err: Console
) -> int:
    """Run a metric over good answers and changed ones, print what it sees, and write proof.html into the run's folder.

    UserError if there is nothing to change: nothing was sent. Raises as a run does; what was finished is kept, and
    `resume` and then `prove --run FOLDER` finish it.
    """
    if options.run is not None:
        if options.metric or words:
            raise UserError(
                Problem("--run reads a run that is there", "command line", "leave metric and overrides out")
            )
        run = find_scored(options.run, "prove", "--run")
    else:
        _expect_usable(words, options)
        order = _order(words, options, config_dir)
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
    metrics = list(run.manifest.metrics)
    scores = run.scores().collect()
    if len(metrics) != 1 or not scores["tags"].list.first().is_in(CHANGES).any():
        hint = command("prove", metrics[0] if metrics else "faithfulness")
        raise UserError(Problem("this run was not made by prove", str(run.folder.path), hint))
    traits = run.rules.metrics[metrics[0]]
    return proof_of(
        scores, metrics[0],
        faults=traits.config.faults or (), higher_is_better=traits.config.direction == "higher_is_better", by=by,
        limits=(0.0, 1.0) if traits.bounded else None,
    )  # fmt: skip


def _expect_usable(words: Sequence[str], options: argparse.Namespace) -> None:
    problems: list[Problem] = []
    if not options.metric:
        problems.append(Problem("prove which metric?", "command line", command("prove", "faithfulness")))
    if not options.by > 0:
        problems.append(Problem(f"a score cannot move by {options.by:g}", "--by", "more than 0, such as --by 0.1"))
    if any(word.startswith("generate=") for word in words):
        what = "the answers are those that `prove` changes, so none are generated"
        problems.append(Problem(what, "generate", "leave generate and target out"))
    if problems:
        raise UserError(problems)


def _order(words: Sequence[str], options: argparse.Namespace, config_dir: Path | None) -> RunOrder:
    """The run over good answers and their changes, of as many cases as `--calls` allows."""
    data = [word for word in words if word.lstrip("+~").startswith(_OF_DATA)]
    others = [f"metric={options.metric}", *(word for word in words if word not in data)]
    if not any(word.startswith("dataset=") for word in data):
        data.insert(0, f"dataset={_SAMPLE_DATA}")
    order = _composed([*others, *data], config_dir)
    _expect_provable(settings_of(order.composed).run.metric)
    bases = _bases(inspected(order), options.base)
    while True:
        order = _composed([*others, *_case_words(bases)], config_dir)
        calls = inspected(order).estimate.requests
        if calls <= options.calls:
            return order
        fewer = min(len(bases) - 1, int(len(bases) * options.calls / calls))
        if fewer < _FEWEST:
            what = f"{len(bases)} cases and their changes take about {calls:,} calls, and {options.calls:,} are allowed"
            raise UserError(Problem(what, "--calls", f"allow more: --calls {calls}"))
        bases = bases[:fewer]


def _composed(words: Sequence[str], config_dir: Path | None) -> RunOrder:
    words = with_default_judge(words, config_dir)
    run_id = new_run_id(words)
    path = Path("outputs", "runs", run_id).absolute()
    return RunOrder(compose(words, config_dir, run_id, check=settings_of), path, run_id, path)


def _expect_provable(metrics: Mapping[str, MetricConfig]) -> None:
    """UserError unless it is one metric that reads the answer, and says which faults must worsen its score."""
    (name, metric), *more = metrics.items()
    if more:
        what = f"one metric is proved at a time, and these are {', '.join(metrics)}"
        raise UserError(Problem(what, "command line", command("prove", name)))
    if isinstance(metric, CompositeMetricConfig):
        what, part = f"{name} is computed from other metrics", next(iter(metric.of))
        raise UserError(Problem(what, "command line", f"prove one of these: {command('prove', part)}"))
    if "answer" not in metric.needs:
        what = f"{name} does not read the answer, so no change of it can be seen"
        raise UserError(Problem(what, f"metric.{name}.needs", "prove a metric that needs the answer"))
    if metric.faults is None:
        what = f"{name} does not say which faults must worsen its score"
        hint = command("prove", name, f"++metric.{name}.faults=[{','.join(FAULTS)}]")
        raise UserError(Problem(what, f"metric.{name}.faults", f"say so in its YAML, or here, such as {hint}"))


def _bases(found: Inspection, field: str) -> list[Case]:
    """Cases with a good answer, of all groups in turn: what people wrote as reference, or the recorded answer."""
    texts = ((case, case.reference if field == "reference" else case.answer) for case in found.selected())
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
        raise UserError(Problem(what, "dataset", f"other cases, or --base {other}"))
    return bases


def _case_words(bases: Sequence[Case]) -> list[str]:
    file = keep_cases(case_to_row(one.case) for one in perturbed(bases))
    at = "+dataset.perturbed"
    return [f"{at}.path={file}", f"{at}.group=group", f"{at}.name={bases[0].dataset}", f"{at}.allow_irregular=true"]
