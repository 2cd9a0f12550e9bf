"""The run that gates compare with: found before anything is asked, and held against once there are scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.app.core.comparison import ScoredRun, open_scored, unlike_metrics
from evalflow.app.core.locate import find_run
from evalflow.config.schema import RunConfig
from evalflow.errors import Problem, UserError, command, did_you_mean
from evalflow.protocols import Measured
from evalflow.summary.compare import ComparisonRow, Traits, compare_cases, pair_scores
from evalflow.summary.gates import Gate

if TYPE_CHECKING:
    import polars as pl


def open_baseline(run: RunConfig) -> ScoredRun:
    """The baseline of a run that has gates against it, or compares its answers.

    Raises:
        UserError: It is no run, was written by another version, or has no scores.
    """
    assert run.baseline is not None  # what compares is refused without one
    try:
        return open_scored(find_run(run.baseline), "baseline")
    except UserError as error:
        raise UserError(
            [
                Problem(f"the baseline cannot be read: {p.what}", f"baseline={run.baseline}", p.hint)
                for p in error.problems
            ]
        ) from None


def baseline_problems(gates: Sequence[Gate], run: RunConfig, facts: Mapping[str, Any]) -> list[Problem]:
    """Why gates cannot be held against the baseline: it is no run, or measured something else.

    Args:
        gates: The run's.
        run: Its configuration.
        facts: What run.json will say of the parts of the run.
    """
    if run.baseline is None:
        return []
    wanted = [gate for gate in gates if gate.baseline]
    try:
        baseline = open_baseline(run)
    except UserError as error:
        folders = [Path(folder) for folder in facts["search_folders"]["conf"]]
        return list(target_problems(run.baseline, folders) or error.problems)
    where, known = f"baseline={run.baseline}", baseline.manifest["metrics"]
    # As a manifest gives them out again: the anchors of a scale under text.
    now: dict[str, Any] = json.loads(json.dumps(facts))
    problems: list[Problem] = []
    for name in dict.fromkeys(gate.metric for gate in wanted if gate.metric in now["metrics"]):
        if name not in known:
            problems.append(Problem(f"the baseline has no metric {name!r}", where, did_you_mean(str(name), known)))
            continue
        hint = "run the baseline again as this run is, and name that"
        problems += [Problem(o.what, where, hint) for o in unlike_metrics(str(name), baseline.manifest, now)]
    return problems


def target_problems(name: str, conf_folders: Iterable[Path]) -> list[Problem]:
    """What to say to somebody who names a target: a run has one, so the other one's answers are another run."""
    if not any((folder / "target" / f"{name}.yaml").is_file() for folder in conf_folders):
        return []
    hint = f"let it answer in a run of its own, target={name} generate=true, and name that run's folder"
    return [Problem(f"{name} is a target, and a baseline is a run", f"baseline={name}", hint)]


def baseline_summary(run: RunConfig) -> pl.DataFrame:
    """The summary of the run's baseline.

    Raises:
        UserError: The baseline cannot be read any more.
    """
    import polars as pl

    path = open_baseline(run).folder.path
    try:
        return pl.read_parquet(path / "summary.parquet")
    except OSError:
        hint = f"write it: {command('report', path)}"
        raise UserError(Problem("the baseline has no summary", f"baseline={run.baseline}", hint)) from None


def differences(
    gates: Sequence[Gate], run: RunConfig, scores: pl.LazyFrame, metrics: Mapping[str, Measured]
) -> list[ComparisonRow]:
    """This run against its baseline, over all cases and by tag; by class where a gate asks for one.

    Raises:
        UserError: The baseline cannot be read any more.
    """
    pairing = pair_scores(open_baseline(run).scores(), scores)
    traits = {
        name: Traits(metric.config.direction == "higher_is_better", metric.bounded, metric.figures)
        for name, metric in metrics.items()
    }
    by_class = any(gate.baseline and "[" in gate.statistic for gate in gates)
    return compare_cases(
        pairing, ("baseline", "this run"), traits, by_tag=True, by_class=by_class, seed=run.seed
    )  # fmt: skip
