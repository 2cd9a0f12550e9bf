"""The baseline of a run: its answers, for metrics and people, and its scores, for gates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from evalflow.app.core.cases import BASELINE
from evalflow.app.core.comparison import unlike_metrics
from evalflow.app.core.saved import SavedRun, find_run, open_scored
from evalflow.config.schema import RunConfig
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError, command, did_you_mean
from evalflow.lazy import pl
from evalflow.protocols import Measured
from evalflow.records import Case
from evalflow.summary.compare import ComparisonRow, Traits, compare_cases, pair_scores
from evalflow.summary.gates import Gate


def open_baseline(run: RunConfig) -> SavedRun:
    """The baseline of a run that has one.

    Raises:
        UserError: It is not a run, another version wrote it, or it has no scores.
    """
    assert run.baseline is not None  # a run without a baseline is refused earlier if it compares
    try:
        return open_scored(find_run(run.baseline), "baseline")
    except UserError as error:
        where = f"baseline={run.baseline}"
        raise UserError(
            [Problem(f"the baseline cannot be read: {p.what}", where, p.hint) for p in error.problems]
        ) from None


class BaselineAnswers:
    """The first answers of a run, by case; only the offsets of its cases.jsonl are in memory."""

    def __init__(self, run: SavedRun) -> None:
        self._file = run.folder.cases
        sizes = {name: facts["cases"] for name, facts in run.manifest["datasets"].items()}
        self._places = dict(self._found(sizes))

    @classmethod
    def of(cls, settings: Settings) -> BaselineAnswers:
        """The answers of a run's baseline.

        Raises:
            UserError: The baseline is not a run, another version wrote it, or it has no scores.
        """
        run = settings.run
        try:
            return cls(open_baseline(run))
        except UserError as error:
            problems = _target_problems(str(run.baseline), settings.composed.conf_folders)
            raise UserError(problems or error.problems) from None

    def beside(self, case: Case) -> Case:
        """The case with the baseline's answer among its `vars`, unless the baseline had a different question."""
        known = self._row(case) or {}
        asked = [message.content for message in case.messages if message.role != "assistant"]
        before = [one["content"] for one in known.get("messages", ()) if one["role"] != "assistant"]
        if known.get("answer") is None or before != asked:
            return replace(case, vars={name: value for name, value in case.vars.items() if name != BASELINE})
        return replace(case, vars={**case.vars, BASELINE: known["answer"]})

    def _row(self, case: Case) -> dict[str, Any] | None:
        place = self._places.get(_digest(case.dataset, case.id))
        if place is None:
            return None
        with self._file.open("rb") as lines:
            lines.seek(place)
            return json.loads(lines.readline())

    def _found(self, sizes: dict[str, int]) -> Iterator[tuple[int, int]]:
        if not self._file.is_file():
            return
        with self._file.open("rb") as lines:
            for dataset, cases in sizes.items():
                for _ in range(cases):
                    place = lines.tell()
                    line = lines.readline()
                    if line:
                        yield _digest(dataset, json.loads(line)["id"]), place


def _digest(dataset: str, case_id: str) -> int:
    text = f"{dataset}\0{case_id}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def baseline_problems(gates: Sequence[Gate], run: RunConfig, facts: Mapping[str, Any]) -> list[Problem]:
    """Why gates cannot use the baseline: it is not a run, or it measured something else."""
    try:
        baseline = open_baseline(run)
    except UserError as error:
        folders = [Path(folder) for folder in facts["search_folders"]["conf"]]
        return _target_problems(str(run.baseline), folders) or list(error.problems)
    where, known = f"baseline={run.baseline}", baseline.manifest["metrics"]
    # In the form of run.json: JSON turns the anchors of a scale into texts.
    now: dict[str, Any] = json.loads(json.dumps(facts))
    problems: list[Problem] = []
    wanted = (gate.metric for gate in gates if gate.baseline and gate.metric in now["metrics"])
    for name in dict.fromkeys(str(metric) for metric in wanted):
        if name not in known:
            problems.append(Problem(f"the baseline has no metric {name!r}", where, did_you_mean(name, known)))
            continue
        hint = "run the baseline again as this run is, and name that"
        problems += [Problem(o.what, where, hint) for o in unlike_metrics(name, baseline.manifest, now)]
    return problems


def _target_problems(name: str, conf_folders: Iterable[Path]) -> list[Problem]:
    """The problem if the baseline is the name of a target."""
    if not any((folder / "target" / f"{name}.yaml").is_file() for folder in conf_folders):
        return []
    hint = f"let it answer in a run of its own, target={name} generate=true, and name that run's folder"
    return [Problem(f"{name} is a target, and a baseline is a run", f"baseline={name}", hint)]


def baseline_summary(run: RunConfig) -> pl.DataFrame:
    """The summary of the run's baseline.

    Raises:
        UserError: The baseline can no longer be read.
    """
    path = open_baseline(run).folder.path
    try:
        return pl.read_parquet(path / "summary.parquet")
    except OSError:
        hint = f"write it: {command('report', path)}"
        raise UserError(Problem("the baseline has no summary", f"baseline={run.baseline}", hint)) from None


def differences(
    gates: Sequence[Gate], run: RunConfig, scores: pl.LazyFrame, metrics: Mapping[str, Measured]
) -> list[ComparisonRow]:
    """The differences of this run from its baseline: overall and by tag, and by class if a gate needs it.

    Raises:
        UserError: The baseline can no longer be read.
    """
    pairing = pair_scores(open_baseline(run).scores(), scores)
    traits = {
        name: Traits(metric.config.direction == "higher_is_better", metric.bounded, metric.figures)
        for name, metric in metrics.items()
    }
    by_class = any(gate.baseline and "[" in gate.statistic for gate in gates)
    return compare_cases(pairing, ("baseline", "this run"), traits, by_tag=True, by_class=by_class, seed=run.seed)
