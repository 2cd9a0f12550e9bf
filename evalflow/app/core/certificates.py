"""Certificates: how well a judge agreed with people on a metric, saved in the working directory for later runs.

A certificate is for one judge (its model and all that decides its replies) and one meaning of a metric (version,
configuration, prompts, and generated steps). When any of that changes it is stale, and reports call the judge
uncalibrated again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evalflow.app.core.saved import SavedRun, declared_meaning, prepared_steps
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.paths import private_folder, write_atomically
from evalflow.records.manifest import Manifest, MetricFacts
from evalflow.report.wording import literal, print_json
from evalflow.values.jsonvalues import as_map

if TYPE_CHECKING:
    from evalflow.summary.proof import Proof

log = logging.getLogger("evalflow")

CERTIFICATES = Path(".evalflow/certificates")  # relative to the working directory
PROOFS = Path(".evalflow/proofs")  # likewise
_SCHEMA = 2
_PARTS = {"judge": "the judge's settings", "metric": "the metric", "prompts": "its prompts", "prepared": "its steps"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How well a judge agreed with people on a metric, by the labels of one run's answers by one target."""

    judge: str
    metric: str
    dataset: str
    target: str
    key: Mapping[str, str | None]  # a digest of each part that it is valid for; see `key_of`
    run_id: str
    issued_at: str
    n_labels: int
    n_people: int
    # Of the labelled answers, on the scale of scores; bias is {value, ci_low, ci_high}.
    judge_mean: float | None
    human_mean: float | None
    bias: Mapping[str, float | None]
    # Each measure as {value, ci_low, ci_high}; a value of None has its reason under `method`.
    agreement: Mapping[str, Mapping[str, Any]]
    # Whether the judge may replace a person: passes, winning_rate, agrees (with people beyond chance), advantage,
    # behind, method, epsilon; None without a test, e.g. with fewer than three people.
    alt_test: Mapping[str, Any] | None
    # Over repeats of the judge: repeats, same (the share of pairs of judgements of one answer that are equal), sd (of
    # judgements of one answer); None if nothing was judged twice.
    consistency: Mapping[str, Any] | None
    replies: Mapping[str, Any]  # judged (the number of judged answers), unparsable and reasked (shares of them)

    def stale(self, key: Mapping[str, str | None]) -> list[str]:
        """Describe the changes between the certificate and scores with this key."""
        return [description for part, description in _PARTS.items() if self.key.get(part) != key.get(part)]

    def has_labels_of(self, other: Certificate) -> bool:
        """Whether another certificate says as much: of the same judge and meaning, by as many labels of equal mean."""

        def evidence(one: Certificate) -> tuple[object, ...]:
            return one.judge, one.metric, one.dataset, one.target, dict(one.key), one.n_labels, one.human_mean

        return evidence(self) == evidence(other)


def key_of(manifest: Manifest, metric: str, folder: RunFolder) -> dict[str, str | None]:
    """Digests of the parts that decide what a judge's scores on a metric mean: judge, metric, prompts, prepared."""
    facts = manifest.metrics[metric]
    steps = prepared_steps(folder, metric)
    meaning = [facts.version, facts.files_sha256, declared_meaning(manifest, metric)]
    config = manifest.metric_config(metric)
    if config["kind"] == "composite":
        meaning += [key_of(manifest, part, folder) for part in config["of"]]
    return {
        "judge": _digest(manifest.judges[facts.judge].identity) if facts.judge else None,
        "metric": _digest(meaning),
        "prompts": facts.prompt_sha256,
        "prepared": _digest(steps) if steps else None,
    }


def save_certificate(certificate: Certificate, folder: Path = CERTIFICATES) -> Path:
    """Write a certificate; it replaces one of the same run and target, for the same judge, metric, dataset and key."""
    return _save(asdict(certificate), folder, (*_PLACE, "target", "run_id"))


def save_proof(proof: Proof, run: SavedRun) -> None:
    """Save which faults a judge detects with a metric, for the reports of later runs.

    Nothing is kept for a metric without a judge, nor for the checks of cases: later runs have other cases.
    """
    if proof.judge is not None and proof.metric in run.manifest.metrics:
        key = key_of(run.manifest, proof.metric, run.folder)
        about = {"judge": proof.judge, "metric": proof.metric, "dataset": proof.dataset, "key": key}
        people, rows = proof.people and asdict(proof.people.same), [asdict(row) for row in proof.rows]
        content: dict[str, Any] = {"findings": proof.findings(), "people": people, "rows": rows}
        _save({**about, "run_id": run.manifest.run_id, **content}, PROOFS, _PLACE)


_PLACE = ("judge", "metric", "dataset", "key")


def _save(content: Mapping[str, Any], folder: Path, parts: Sequence[str]) -> Path:
    """Write content; it replaces content with equal `parts`."""
    digest = _digest([content[part] for part in parts])
    names = (re.sub(r"[^A-Za-z0-9.]+", "-", content[part]).strip("-")[:40] for part in ("metric", "judge"))
    path = folder / f"{'_'.join((*names, digest))}.json"
    try:
        private_folder(folder)
        write_atomically(path, json.dumps({"schema": _SCHEMA, **content}, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UserError(Problem(f"the certificate cannot be kept: {error.strerror}", str(path))) from None
    return path


def saved_certificates(folder: Path = CERTIFICATES) -> list[Certificate]:
    """All certificates, by metric, judge and time; unreadable ones are logged and skipped."""
    certificates: list[Certificate] = []
    for path in sorted(folder.glob("*.json")):
        try:
            certificates.append(_read(path))
        except UserError as error:
            log.warning("%s", error)
    return sorted(certificates, key=lambda one: (one.metric, one.judge, one.issued_at))


def print_certificates(console: Console, *, as_json: bool) -> int:
    """Print the certificates of the working directory: a line for each, or one JSON document."""
    certificates = saved_certificates()
    if as_json:
        print_json(console, [asdict(one) for one in certificates])
    elif certificates:
        from evalflow.report.page import certificate_table

        console.print(certificate_table([asdict(one) for one in certificates]))
        for one in certificates:
            text = f"{one.metric}, {one.judge}, {one.issued_at[:10]}: labels of {one.target} in run {one.run_id}"
            console.print(literal(text, style="dim"), soft_wrap=True)
    else:
        text = f"no judge has been compared with people here; to begin: {command('calibrate')}"
        console.print(text, soft_wrap=True)
    return 0


def with_certificates(manifest: Manifest, folder: RunFolder) -> Manifest:
    """The manifest with `certificate` and `proof` of each metric's judge, or None.

    A proof is of the same judge, metric and prompts. A certificate has its fields except the key, and `stale`: a list
    of changes since. If there are several, valid ones are preferred, then those on a dataset of the run, then the
    run's own, and the newest; of several targets of a run the one with most labels.
    """
    known = saved_certificates()
    metrics: dict[str, MetricFacts] = {}
    for name, facts in manifest.metrics.items():
        own = [one for one in known if (one.metric, one.judge) == (name, facts.judge)]
        key = key_of(manifest, name, folder) if own else {}
        best = max(own, key=lambda one: _preference(one, key, manifest), default=None)
        certificate = {**asdict(best), "stale": best.stale(key)} if best else None
        if certificate:
            del certificate["key"]
        metrics[name] = facts.model_copy(
            update={"certificate": certificate, "proof": _proof_of(manifest, name, folder)}
        )
    return manifest.model_copy(update={"metrics": metrics})


def _preference(one: Certificate, key: Mapping[str, str | None], manifest: Manifest) -> tuple[bool | int | str, ...]:
    is_own = one.run_id == manifest.run_id
    newest = "" if is_own else one.issued_at
    return not one.stale(key), one.dataset in manifest.datasets, is_own, newest, one.n_labels


def _proof_of(manifest: Manifest, metric: str, folder: RunFolder) -> Mapping[str, Any] | None:
    """What `prove` found for the judge and the metric as they are now: dataset, run_id, findings, people and rows."""
    for path in sorted(PROOFS.glob(f"{metric}_*.json"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            about = as_map(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            log.warning("%s is not a proof: remove it, and prove %s again", path, metric)
            continue
        is_own = (about.get("schema"), about.get("judge")) == (_SCHEMA, manifest.metrics[metric].judge)
        if is_own and about.get("key") == key_of(manifest, metric, folder):
            return {part: about.get(part) for part in ("dataset", "run_id", "findings", "people", "rows")}
    return None


def _read(path: Path) -> Certificate:
    hint = "remove it, and calibrate again"
    try:
        values: dict[str, Any] = {**as_map(json.loads(path.read_text(encoding="utf-8")))}
        version = values.pop("schema")
        if version != _SCHEMA:
            raise UserError(Problem(f"a certificate of another version (schema {version})", str(path), hint))
        return Certificate(**values)
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(Problem("this is not a certificate", str(path), hint)) from None


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
