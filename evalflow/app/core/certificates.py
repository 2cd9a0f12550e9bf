"""Certificates: how a judge did against people on a metric, kept in the working directory and found by later runs.

A certificate holds for one judge (its model and all that decides its replies), one meaning of a metric (version,
configuration, prompts, and the steps that were written for it). When anything of that changes it is stale: it says
nothing of the scores that are made now, and reports call the judge uncalibrated again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from evalflow.app.core.saved import declared_meaning, prepared_steps
from evalflow.errors import Problem, UserError
from evalflow.files import write_atomically
from evalflow.lazy import pl
from evalflow.paths import private_folder
from evalflow.report.header import certificate_table, verdict_of
from evalflow.run.folder import RunFolder
from evalflow.run.manifest import now

if TYPE_CHECKING:
    from evalflow.report.calibration import Calibration
    from evalflow.summary.calibration import CalibrationRow


log = logging.getLogger("evalflow")

CERTIFICATES = Path(".evalflow/certificates")
"""In the working directory."""
_SCHEMA = 1
_PARTS = {"judge": "the judge's settings", "metric": "the metric", "prompts": "its prompts", "prepared": "its steps"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How a judge did against people on a metric.

    Attributes:
        judge, metric, dataset: Their names; the dataset is the one whose answers people labelled.
        key: A digest of each part that it holds for; see `key_of`.
        run_id, issued_at: Of the run whose scores were held against labels, and when.
        n_labels, n_people: Labelled answers, and people who labelled.
        judge_mean, human_mean, bias: Of the labelled answers, on the scale of scores; bias is {value, ci_low, ci_high}.
        agreement: Each measure as {value, ci_low, ci_high}; a value of None has its reason under `method`.
        alt_test: Whether the judge may take a person's place: passes, winning_rate, advantage, method; None where there
            is no test, as for fewer than three people.
        consistency: Over repeats of the judge: repeats, same (the share of pairs of judgements of one answer that are
            equal), sd (of judgements of one answer); None where nothing was judged twice.
        replies: judged (answers that it was asked about), unparsable and reasked (shares of them).
    """

    judge: str
    metric: str
    dataset: str
    key: Mapping[str, str | None]
    run_id: str
    issued_at: str
    n_labels: int
    n_people: int
    judge_mean: float | None
    human_mean: float | None
    bias: Mapping[str, float | None]
    agreement: Mapping[str, Mapping[str, Any]]
    alt_test: Mapping[str, Any] | None
    consistency: Mapping[str, Any] | None
    replies: Mapping[str, Any]

    @property
    def file_name(self) -> str:
        """Of one judge, metric and dataset there is one certificate at a time for a key."""
        digest = _digest([self.judge, self.metric, self.dataset, dict(self.key)])
        return f"{_slug(self.metric)}_{_slug(self.judge)}_{digest}.json"

    def stale(self, key: Mapping[str, str | None]) -> list[str]:
        """What has changed since, in words; empty where it still holds.

        Args:
            key: Of the scores in question.
        """
        return [words for part, words in _PARTS.items() if self.key.get(part) != key.get(part)]


def key_of(manifest: Mapping[str, Any], metric: str, folder: RunFolder) -> dict[str, str | None]:
    """A digest of each part that decides what a judge's scores on a metric mean: judge, metric, prompts, prepared.

    Args:
        manifest: run.json.
        metric: A metric that asks a judge.
        folder: The run's, whose prepared.json has the steps that were written for the metric.
    """
    facts = manifest["metrics"][metric]
    steps = prepared_steps(folder, metric)
    return {
        "judge": _digest(manifest["judges"][facts["judge"]]["identity"]),
        "metric": _digest([facts["version"], declared_meaning(manifest, metric)]),
        "prompts": facts["prompt_sha256"],
        "prepared": _digest(steps) if steps else None,
    }


def keep(certificate: Certificate, folder: Path = CERTIFICATES) -> Path:
    """Write a certificate; it takes the place of an earlier one for the same judge, metric, dataset and key.

    Raises:
        UserError: The folder cannot be written.
    """
    path = folder / certificate.file_name
    try:
        private_folder(folder)
        text = json.dumps({"schema": _SCHEMA, **asdict(certificate)}, indent=2, ensure_ascii=False)
        write_atomically(path, text + "\n")
    except OSError as error:
        raise UserError(Problem(f"the certificate cannot be kept: {error.strerror}", str(path))) from None
    return path


def kept(folder: Path = CERTIFICATES) -> list[Certificate]:
    """All certificates, by metric, judge and time. What cannot be read is none: the log says so, and runs go on."""
    found: list[Certificate] = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(_read(path))
        except UserError as error:
            log.warning("%s", error)
    return sorted(found, key=lambda one: (one.metric, one.judge, one.issued_at))


def print_certificates(console: Console, *, as_json: bool) -> int:
    """Print the certificates of the working directory: a line for each, or one JSON document."""
    found = kept()
    if as_json:
        console.file.write(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False) + "\n")
    elif found:
        console.print(certificate_table([asdict(one) for one in found]))
    else:
        console.print("no judge was held against people here; to begin: python -m evalflow calibrate", soft_wrap=True)
    return 0


def with_certificates(manifest: Mapping[str, Any], folder: RunFolder, kept_in: Path = CERTIFICATES) -> dict[str, Any]:
    """The manifest with what certificates say of each metric's judge.

    `certificate` of a metric has a certificate's fields but for the key, and `stale`, a list of what has changed since,
    empty where it holds. Of several, those that hold come first, then those on a dataset of the run, then the newest;
    a metric without any has None.

    Args:
        manifest: run.json.
        folder: The run's.
        kept_in: Where certificates are.
    """
    known = kept(kept_in)
    metrics: dict[str, Any] = {}
    for name, facts in manifest["metrics"].items():
        own = [one for one in known if (one.metric, one.judge) == (name, facts["judge"])]
        key = key_of(manifest, name, folder) if own else {}
        own.sort(key=lambda one: (not one.stale(key), one.dataset in manifest["datasets"], one.issued_at))
        metrics[name] = {**facts, "certificate": _told(own[-1], key) if own else None}
    return {**manifest, "metrics": metrics}


def _told(certificate: Certificate, key: Mapping[str, str | None]) -> dict[str, Any]:
    facts = asdict(certificate)
    del facts["key"]
    return {**facts, "stale": certificate.stale(key)}


def _read(path: Path) -> Certificate:
    hint = "remove it, and calibrate again"
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        values = dict(cast("Iterator[tuple[str, Any]]", content.items()))
        version = values.pop("schema")
        if version != _SCHEMA:
            raise UserError(Problem(f"a certificate of another version (schema {version})", str(path), hint))
        return Certificate(**values)
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        raise UserError(Problem("this is no certificate", str(path), hint)) from None


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")[:40]


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, or why there is none.

    Attributes:
        metric, judge: Of whom.
        path: The file; None where there is no certificate.
        why: Why not; where there is one, how the judge did.
    """

    metric: str
    judge: str
    path: Path | None
    why: str


def certify(found: Calibration, scores: pl.LazyFrame, folder: RunFolder) -> list[Issued]:
    """Issue a certificate for each judge, metric and dataset of a calibration; of several targets, on most labels.

    Args:
        found: The calibration.
        scores: The columns of scores.parquet.
        folder: The run's.

    Raises:
        UserError: The working directory cannot be written.
    """
    best: dict[tuple[str, str, str], CalibrationRow] = {}
    for row in found.rows:
        if row.judge is not None:
            key = (row.dataset, row.metric, row.judge)
            best[key] = max(best.get(key, row), row, key=lambda one: one.corrected.n)
    return [_issue(row, judge, found.manifest, scores, folder) for (_, _, judge), row in best.items()]


def _issue(
    row: CalibrationRow, judge: str, manifest: Mapping[str, Any], scores: pl.LazyFrame, folder: RunFolder
) -> Issued:
    from evalflow.report.calibration import value_of
    from evalflow.summary.noise import consistency, replies

    why = _refused(row)
    if why:
        return Issued(row.metric, judge, None, why)
    c = row.corrected
    own = scores.filter(
        (pl.col("dataset") == row.dataset) & (pl.col("metric") == row.metric) & (pl.col("judge") == judge)
        & pl.col("member_of").is_null()
    )  # fmt: skip
    certificate = Certificate(
        judge=judge, metric=row.metric, dataset=row.dataset, key=key_of(manifest, row.metric, folder),
        run_id=manifest["run_id"], issued_at=now(), n_labels=_scored(row), n_people=row.people[0],
        judge_mean=_mean(row, "score"), human_mean=c.human_mean,
        bias={"value": c.bias, "ci_low": c.bias_low, "ci_high": c.bias_high},
        agreement={name: value_of(one) for name, one in row.agreement.items()},
        alt_test=_alt_test(row),
        consistency=consistency(own), replies=replies(own),
    )  # fmt: skip
    return Issued(row.metric, judge, keep(certificate), verdict_of(row.metric, asdict(certificate)))


def _alt_test(row: CalibrationRow) -> dict[str, Any] | None:
    from evalflow.report.calibration import alt_of

    tested = row.raters is not None and row.raters.alt_test.passes is not None
    return alt_of(row.raters.alt_test) if row.raters and tested else None


def _refused(row: CalibrationRow) -> str:
    """Why labels say too little of the judge; empty where they say enough."""
    from evalflow.stats.prediction import MIN_LABELS

    n = _scored(row)
    if n < MIN_LABELS:
        return f"{n} labelled answer{'' if n == 1 else 's'}, and it takes {MIN_LABELS}"
    if row.constant[0]:
        return "all labels say the same, so that nothing shows whether judge and people agree"
    if row.chosen:
        return "the labelled answers can hardly have been drawn at random"
    if row.weighted:
        return "the labels carry weights, and nothing shows whether such labels were drawn at random"
    return ""


def _scored(row: CalibrationRow) -> int:
    """Labelled answers that the judge scored."""
    return row.answers["human"].count()


def _mean(row: CalibrationRow, column: str) -> float | None:
    labelled: Sequence[Any] = row.answers.filter(row.answers["human"].is_not_null())[column].to_list()
    return sum(labelled) / len(labelled) if labelled else None
