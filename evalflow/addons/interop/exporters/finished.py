"""A finished run in the form of experiment trackers: settings, numbers, files, and answers with their scores."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evalflow.config.surroundings import TextToSend
from evalflow.engine.bookkeeping import now
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.records.manifest import ExportFacts, Manifest
from evalflow.redaction import public_address
from evalflow.report.results_csv import AnsweredCase
from evalflow.values.jsonvalues import as_map

_BOUNDS = {"value": "", "ci_low": "/ci_low", "ci_high": "/ci_high"}
_PASS_RATE = {"pass_rate": "/pass_rate", "pass_rate_low": "/pass_rate/ci_low", "pass_rate_high": "/pass_rate/ci_high"}
_COUNTS = ("n", "n_scored", "n_undefined", "n_error", "n_skipped")
_TOTALS = ("requests", "cached", "input_tokens", "output_tokens", "cost_usd", "seconds")
_SETTINGS = (
    "generate",
    "limit",
    "sample",
    "seed",
    "repeats",
    "judge",
    "target",
    "embedder",
    "simulator",
    "max_error_rate",
)
_PRIVATE = frozenset({"headers", "body", "argv", "api_key_env"})
"""Keys of a target or judge that may hold secrets, or names of them."""
_PROMPTS = frozenset({"prompt", "system_prompt"})
_ADDRESS = re.compile(r"\w+://\S+")
_UNNAMEABLE = re.compile(r"[^\w./: -]")


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run to send; `rows` reads its answers with their scores."""

    manifest: Manifest
    folder: RunFolder
    text: TextToSend
    rows: Callable[[], Iterator[AnsweredCase]]

    def settings(self) -> dict[str, str]:
        """The settings that affect the numbers, by key path; without null values, headers, bodies and programs.

        Prompts are included only if all texts are sent.
        """
        config, settings = self.manifest.config, dict[str, str]()
        hidden = _PRIVATE if self.text == "all" else _PRIVATE | _PROMPTS
        for key in _SETTINGS:
            settings |= _flat(key, config.get(key), hidden)
        for name, facts in self.manifest.datasets.items():
            settings |= {f"dataset.{name}.cases": str(facts.cases), f"dataset.{name}.sha256": facts.sha256}
        for name, facts in self.manifest.metrics.items():
            own = self.manifest.metric_config(name)
            settings |= {f"metric.{name}.version": str(facts.version), f"metric.{name}.kind": str(own.get("kind"))}
            settings |= {} if own.get("threshold") is None else {f"metric.{name}.threshold": str(own["threshold"])}
        return settings

    def numbers(self) -> dict[str, float]:
        """The figures of all cases with their bounds and counts, and the totals. Missing values are left out.

        A name has the metric, then the statistic unless it is the mean; dataset, target and judge if there are several.
        """
        summary = pl.read_parquet(self.folder.path / "summary.parquet").filter(pl.col("tag").is_null())
        scored = summary.filter(pl.col("metric") != CASES)  # the cases as a whole have no judge
        several = [key for key in ("dataset", "target", "judge") if scored[key].n_unique() > 1]
        numbers: dict[str, float] = {}
        for row in summary.iter_rows(named=True):
            name = "/".join(str(row[key]) for key in (*several, "metric") if row[key] is not None)
            is_mean = row["statistic"] == "mean"
            name = _UNNAMEABLE.sub("_", name if is_mean else f"{name}/{row['statistic']}")
            columns = {**_BOUNDS, **(_PASS_RATE if is_mean else {}), **{count: f"/{count}" for count in _COUNTS}}
            numbers |= {name + end: float(row[key]) for key, end in columns.items() if row[key] is not None}
        totals = {name: getattr(self.manifest, name) for name in _TOTALS}
        return numbers | {f"run/{name}": float(value) for name, value in totals.items() if value is not None}

    @property
    def tags(self) -> dict[str, str]:
        manifest = self.manifest
        tags = {
            "evalflow.run_id": manifest.run_id,
            "evalflow.version": str(manifest.versions.get("evalflow")),
            "evalflow.status": manifest.status,
            "evalflow.exit_code": str(manifest.exit_code),
        }
        return tags | ({"evalflow.git_commit": manifest.git_commit} if manifest.git_commit else {})

    def files(self) -> Iterator[Path]:
        """The files to attach: the table of the summary; if all texts are sent, also the report."""
        names = ("summary.csv", "summary.md", "report.html") if self.text == "all" else ("summary.csv",)
        yield from (path for name in names if (path := self.folder.path / name).is_file())

    def is_model(self, judge: str | None) -> bool:
        """Whether a judge is a language model."""
        facts = self.manifest.judges.get(judge or "")
        return facts is not None and not facts.nature.endswith("not an LLM")

    @property
    def digest(self) -> str:
        """A digest of the results, and of which texts are sent with them."""
        digest = hashlib.sha256(self.text.encode())
        for path in (self.folder.scores, self.folder.path / "summary.parquet"):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def sent(self, to: str, where: str, sent: int, own: str | None, why: str | None) -> ExportFacts:
        """The entry of run.json for an export: how many scores were sent, and the run's id there (`own`)."""
        unsent = self.count_scores() - sent
        return ExportFacts(to=to, where=where, at=now(), sent=sent, unsent=unsent, why=why, id=own)

    def count_scores(self) -> int:
        """The number of scores in any state, without those of a panel's members."""
        return self.scores().filter(pl.col("member_of").is_null()).select(pl.len()).collect().item()

    def scores(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.folder.scores)


@contextmanager
def environment(defaults: Mapping[str, str], **fixed: str) -> Generator[None]:
    """Set environment variables while the block runs: defaults if they are unset, and fixed ones always."""
    before = dict(os.environ)
    os.environ.update({**defaults, **before, **fixed})
    try:
        yield
    finally:
        for name in {*defaults, *fixed} - before.keys():
            os.environ.pop(name, None)
        os.environ.update({name: before[name] for name in fixed if name in before})


def expect_same(digest: str | None, run: FinishedRun, to: str, name: str) -> None:
    """UserError if the destination has other results of this run, according to the digest sent with them."""
    if digest != run.digest:
        folder = run.folder.path
        hint = f"replace it: {command('export', to, folder, '--again')} (with the same --to, --project and --text)"
        raise UserError(Problem(f"{to} has this run with other results or texts, as {name}", str(folder), hint))


def _flat(path: str, value: object, hidden: Set[str]) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {
            name: text
            for key, inner in as_map(value).items()
            if key not in hidden
            for name, text in _flat(f"{path}.{key}", inner, hidden).items()
        }
    if value is None:
        return {}
    text = str(value)
    return {path: public_address(text) if _ADDRESS.fullmatch(text) else text}
