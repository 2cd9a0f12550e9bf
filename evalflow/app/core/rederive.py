"""Change the thresholds and gates of a finished run, and derive its results again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import yaml

from evalflow.app.core.calibration import (
    CertificateResult,
    calibration_of,
    certify,
    save_calibration,
    saved_calibration,
)
from evalflow.app.core.certificates import with_certificates
from evalflow.app.core.derive import Derived, decide, derive, evaluate_run_gates, report
from evalflow.app.core.kept_labels import RunLabels
from evalflow.app.core.saved import SavedRun, open_run, open_scored, write_exclusions
from evalflow.app.core.selection import taken_cases
from evalflow.config.schema import RunConfig
from evalflow.config.yaml_text import safe_yaml
from evalflow.engine.folder import RunFolder, refuse_links, telling_full_disks
from evalflow.engine.plan import PreparedFile
from evalflow.errors import Problem, UserError, command, unknown_name
from evalflow.lazy import pl
from evalflow.records import Direction
from evalflow.records.manifest import Manifest
from evalflow.report.calibration import Calibration, write_calibration
from evalflow.report.gate_sentences import of_outcome
from evalflow.report.page import judge_lines, sample_lines
from evalflow.report.wording import provider_savings
from evalflow.summary.exclusions import ExcludedResult
from evalflow.summary.gates import Looks
from evalflow.summary.journal import json_line
from evalflow.summary.summarise import Summary
from evalflow.summary.verdicts import too_many_errors
from evalflow.values.jsonvalues import is_object, text_at

Calibrated = tuple[Calibration, list[CertificateResult], list[str]]


def rewrite(
    folder: RunFolder, overrides: Sequence[str] = (), calibration: Calibration | None = None
) -> tuple[Manifest, Derived]:
    """Derive tables, calibration, gates and reports of a run again; a `calibration` that is given was saved just now.

    Returns its new run.json, which keeps the overrides, and its results. UserError if an override would need new
    scores, or the run's data or prompts are gone.
    """
    refuse_links(folder)
    run = open_run(folder)
    if overrides:
        changed = replace(run, manifest=overridden(run.manifest, overrides))
        if _looks(changed) != _looks(run):
            what = "looks cannot be changed after a run's first case"
            raise UserError(Problem(what, "gate", "keep the looks of each gate; for others start a new run"))
        run = changed
    with telling_full_disks(folder):
        derived = derive(folder, run.manifest.run_id, run.rules)
        derived = replace(derived, calibration=calibration or saved_calibration(run))
        derived = decide(run, run.rules, derived, run.cases)
        if derived.calibration is not None and folder.calibration_page.is_file():
            write_calibration(folder.calibration_page, derived.calibration)
        updates: dict[str, Any] = {"scores": derived.states}
        if run.manifest.status == "done":
            updates["exit_code"] = derived.exit_code
        manifest = with_certificates(run.manifest, folder).model_copy(update=updates)
        report(folder, run.rules, derived, run.cases(), manifest, run.cases if run.has_kept_cases else None)
        folder.write_manifest(manifest)
        return manifest, derived


def calibrate_run(folder: RunFolder, people: RunLabels) -> Calibrated | None:
    """Compare a run's judges with labels, and rewrite its gates and reports; None if no labelled answer has a score.

    Returns the calibration, its certificates, and in words what it changed of the run's gates and exit code.
    """
    run = open_scored(folder)
    calibration = calibration_of(run, people)
    if calibration is None:
        return None
    save_calibration(run, calibration, people)
    results = certify(calibration, run.scores(), folder)
    manifest, derived = rewrite(folder, calibration=calibration)
    calibration = replace(calibration, manifest=manifest)
    write_calibration(folder.calibration_page, calibration)
    return calibration, results, list(_gates_changed(run, derived))


def _gates_changed(run: SavedRun, derived: Derived) -> Iterator[str]:
    """The gates that people's labels decide otherwise than the judge alone, and the exit code if it changed."""
    changed = [gate for gate in derived.gates if gate["judged"] and gate["judged"]["passed"] != gate["passed"]]
    for gate in changed:
        yield of_outcome(gate)
    before = run.manifest.exit_code
    if before is not None and derived.exit_code != before:
        yield f"exit code of the run: {before} → {derived.exit_code}"
    if changed:
        gates: dict[str, dict[str, Any]] = deepcopy(run.manifest.config["gate"] or {})
        for gate in changed:
            gates.setdefault(gate["metric"], {})["judge_alone"] = True
        again = command("report", run.folder.path, f"gate={json.dumps(gates, ensure_ascii=False)}")
        yield f"to let the judge alone decide: {again}"


def exclude_results(folder: RunFolder, excluded: Sequence[ExcludedResult]) -> tuple[Manifest, Derived]:
    """Replace the list of results that people took out of a finished run, and derive its results again; see `rewrite`.

    No figure and no gate changes: the figures without these results are added beside them.
    """
    write_exclusions(folder, excluded)
    return rewrite(folder)


def _looks(run: SavedRun) -> set[tuple[str, str, Looks]]:
    return {(gate.about, gate.statistic, gate.looks) for gate in run.rules.gates if gate.looks is not None}


_METRIC_KEYS = ("threshold", "gate", "of", "op", "may_lack")
_RUN_KEYS = ("gate", "judge.thresholds", "max_error_rate", "baseline")
_CHANGEABLE = re.compile(rf"\+?(metric\.\w+\.({'|'.join(_METRIC_KEYS)}|of\.\w+)|{'|'.join(map(re.escape, _RUN_KEYS))})")
"""Keys that can be changed in a finished run."""


def overridden(manifest: Manifest, overrides: Sequence[str]) -> Manifest:
    """The manifest with other thresholds, gates or rules of composites; UserError if that takes new scores."""
    config = deepcopy(manifest.config)
    problems: list[Problem] = []
    for override in overrides:
        key, _, text = override.partition("=")
        *parents, last = key.lstrip("+").split(".")
        here: Any = config
        for parent in parents:
            here = here.get(parent) if is_object(here) else None
        if not _CHANGEABLE.fullmatch(key) or not is_object(here):
            problems.append(_unchangeable(key, config))
            continue
        here[last] = yaml.safe_load(text)
    if problems:
        raise UserError(problems)
    return manifest.model_copy(update={"config": config, "overrides": [*manifest.overrides, *overrides]})


def _unchangeable(key: str, config: dict[str, Any]) -> Problem:
    group, _, below = key.lstrip("+").partition(".")
    metrics: dict[str, Any] = config["metric"]
    name, _, last = below.partition(".")
    if group == "metric" and name not in metrics:
        return unknown_name(f"the run has no metric {name!r}", "command line", name, metrics, before="metric.")
    if group == "metric" and last:
        known = [part for part in _METRIC_KEYS if part in metrics[name]]
        if last not in metrics[name] and not last.startswith("of."):
            what = f"the metric {name} has no key {last!r}"
            return unknown_name(what, "command line", last, known, before=f"metric.{name}.")
    elif group not in config:
        return unknown_name(f"there is no key {group!r}", "command line", group, _RUN_KEYS)
    keys = ", ".join((*_RUN_KEYS, *(f"metric.NAME.{part}" for part in _METRIC_KEYS)))
    what = f"{key} cannot be changed after the run"
    return Problem(what, "command line", f"these can: {keys}; for all else start a new run")


def current_thresholds(run: SavedRun) -> dict[str, float]:
    """The current threshold of each metric that has one."""
    return {limit.metric: limit.value for limit in run.rules.thresholds()}


def original_thresholds(run: SavedRun) -> dict[str, float]:
    """The original threshold of each metric that had one; the current ones if the original configuration is gone."""
    path = run.folder.path / ".hydra" / "config.yaml"  # `report` changes run.json, but never this file
    if not path.is_file():
        return current_thresholds(run)
    made: Mapping[str, Any] = safe_yaml(path.read_text(encoding="utf-8"))
    config = deepcopy(run.manifest.config)
    for name, metric in config["metric"].items():
        metric["threshold"] = made["metric"][name].get("threshold")
    config["judge"]["thresholds"] = made["judge"].get("thresholds")
    if config == run.manifest.config:
        return current_thresholds(run)
    return current_thresholds(replace(run, manifest=run.manifest.model_copy(update={"config": config})))


def override_of(run: SavedRun, metric: str, value: float | None) -> str:
    """The override of `report` that gives the metric this threshold, or none.

    A judge's own threshold for a metric takes precedence over the metric's, which has no effect if the judge is not
    calibrated. UserError if no override can do this, e.g. for a strict metric.
    """
    scorer, run_metric = run.rules.scorer(metric), run.rules.metrics[metric]
    own = dict(scorer.thresholds or {})
    if run_metric.judge is not None and (metric in own or not scorer.calibrated):
        own = {name: limit for name, limit in {**own, metric: value}.items() if limit is not None}
        limits = ", ".join(f"{name}: {limit!r}" for name, limit in own.items())
        override = f"judge.thresholds={{{limits}}}" if own else "judge.thresholds=null"
    else:
        override = f"metric.{run_metric.declared}.threshold={'null' if value is None else repr(value)}"
    changed = replace(run, manifest=overridden(run.manifest, [override]))
    if current_thresholds(changed).get(metric) != value:
        what = f"the threshold of {metric} is fixed by its definition"
        raise UserError(Problem(what, "threshold", "a strict metric passes only perfect answers"))
    return override


def facts_of_run(folder: RunFolder) -> dict[str, Any]:
    """The meaning of a finished run's scores, for the database; see `Run.facts`."""
    at = changed_at(folder)  # taken before reading the rest: if it changes meanwhile, the run is read again
    run = open_run(folder)
    before, now = original_thresholds(run), current_thresholds(run)
    changed = [name for name in run.rules.metrics if before.get(name) != now.get(name)]
    summary = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))
    table, labelled = pl.read_parquet(folder.path / "summary.parquet"), folder.calibration.is_file()
    followed: list[Any] = json.loads(folder.calibration.read_text(encoding="utf-8"))["followed"] if labelled else []
    run_summary = Summary(table, summary["details"])
    states, allowed = run.manifest.scores, run.rules.settings.run.max_error_rate
    _, gates = evaluate_run_gates(run, run.rules, run_summary, run.scores(), run.cases, labelled=labelled)
    return {
        "metrics": facts_of_metrics(run),
        "summary": [row for row in summary["rows"] if row["tag"] is None],
        "excluded": [one for one in summary["details"] if "excluded" in one and one["tag"] is None],
        "gates": json.loads(json_line(gates)),
        "too_many_errors": too_many_errors(states["error"], sum(states.values()), allowed),
        "followed": followed,
        "datasets": {name: facts.cases for name, facts in run.manifest.datasets.items()},
        "asked": run.manifest.asked,
        "taken": asdict(taken_cases(run.manifest)),
        "sampling": sample_lines(run.manifest),
        "target": run.manifest.target.name,
        "judges": {name: judge.model_dump(exclude_unset=True) for name, judge in run.manifest.judges.items()},
        "kept": list(dict.fromkeys(override_of(run, name, now.get(name)) for name in changed)),
        "seed": run.rules.settings.run.seed,
        "provider_savings": provider_savings(run.manifest),
        "searched": searched_text(run.rules.settings.run),
        "wrote_steps": sorted(
            {text_at(entry, "metric") for entry in PreparedFile(folder).entries() if entry.get("steps")}
        ),
        "changed_at": at,
    }


def changed_at(folder: RunFolder) -> int:
    """When a run's results last changed, in nanoseconds: run.json is written after the tables."""
    return folder.manifest.stat().st_mtime_ns


def searched_text(run: RunConfig) -> str:
    """Return the text in which a search of runs looks, besides title and id: bot, datasets, metrics and models."""
    judges = [metric.judge or {} for metric in run.metric.values()]
    models = [getattr(one, "model", None) for one in (run.target, run.judge)] + [one.get("model") for one in judges]
    names = [run.target.name, *(one.name or name for name, one in run.dataset.items()), *run.metric]
    names += [one.title for one in (run.target, *run.dataset.values(), *run.metric.values(), run.judge)]
    return "\n".join(dict.fromkeys(str(name) for name in (*names, *models) if name))


@dataclass(frozen=True, slots=True)
class MetricInRun:
    """A metric of a run as it is shown.

    Attributes:
        threshold: That counts now; `declared`: that it was made with.
        judged: The judge in words, and its agreement with people's labels.
    """

    name: str
    title: str
    judge: str | None
    threshold: float | None
    declared: float | None
    direction: Direction
    bounded: bool
    description: str | None
    judged: str

    @property
    def higher_is_better(self) -> bool:
        return self.direction == "higher_is_better"


def metrics_in(facts: Mapping[str, Any]) -> dict[str, MetricInRun]:
    """The metrics in what `facts_of_run` gives, by name."""
    return {metric["name"]: MetricInRun(**metric) for metric in facts.get("metrics", ())}


def facts_of_metrics(run: SavedRun) -> list[dict[str, Any]]:
    """The fields of `MetricInRun` for each metric of a run, which may still be active."""
    limits, original = current_thresholds(run), original_thresholds(run)
    return [
        {
            "name": name,
            "title": run.manifest.titles.get(name, name),
            "judge": metric.judge,
            "threshold": limits.get(name),
            "declared": original.get(name),
            "direction": metric.config.direction,
            "bounded": metric.bounded,
            "description": metric.config.description,
            "judged": judge_lines(run.manifest, [name])[0],
        }
        for name, metric in run.rules.metrics.items()
    ]
